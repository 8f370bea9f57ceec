"""Whether the process lives."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter(tags=["health"])


@router.get("/livez", summary="Whether the process lives")
async def livez() -> dict[str, str]:
    """It answers as long as the process does, whatever the database does."""
    return {"status": "alive"}
