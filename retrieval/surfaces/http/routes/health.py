"""Whether the process lives, and whether it can answer."""

from __future__ import annotations

import math
from dataclasses import asdict

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from retrieval.surfaces.http.models.health import Live, Ready
from retrieval.surfaces.http.readiness import HOLDS_SECONDS, ReadinessCheck

router = APIRouter(tags=["health"])


@router.get("/livez", summary="Whether the process lives")
async def livez() -> Live:
    """It answers as long as the process does, whatever the database does. No key is needed."""
    return Live(status="alive")


@router.get(
    "/readyz", summary="Whether requests can be answered", response_model=Ready, responses={503: {"model": Ready}}
)
async def readyz(request: Request) -> JSONResponse:
    """How the database, its schema, the pool, the embedder and the language model are; 503 where requests would fail.

    Without the embedder it is `degraded`: searches are answered by words alone; and while the language model does not
    answer. No key is needed; answers hold for a second, those of an embedder that is well for a minute.
    """
    check: ReadinessCheck = request.app.state.readiness
    found = await check()
    answer = {"status": found.status, "checks": asdict(found)}
    if found.is_ready:
        return JSONResponse(answer)
    return JSONResponse(answer, 503, {"Retry-After": str(math.ceil(HOLDS_SECONDS))})
