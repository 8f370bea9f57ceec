"""Recorded searches: listed, read, and asked again."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse

from retrieval.domain.api_key import Scope
from retrieval.domain.context import MAX_NAME_LENGTH
from retrieval.surfaces.http.caller import CurrentPlatform, needs
from retrieval.surfaces.http.handles import NamedCollection
from retrieval.surfaces.http.models import retrievals as models

_ABOUT: dict[str, Any] = {"tags": ["retrievals"], "dependencies": [needs(Scope.READ)]}

router = APIRouter(prefix="/v1/retrievals/{retrieval_id}", **_ABOUT)
in_collection = APIRouter(prefix="/v1/collections/{name}", **_ABOUT)

RetrievalId = Annotated[UUID, Path(description="As a search's result has it.")]


@in_collection.get("/retrievals", response_model=models.RetrievalPage, summary="List the searches of a collection")
async def retrievals(
    collection: NamedCollection,
    limit: Annotated[int, Query(ge=1, le=1000, description="Searches a page.")] = 20,
    before: Annotated[UUID | None, Query(description="`next` of the page before.")] = None,
    session: Annotated[str, Query(max_length=MAX_NAME_LENGTH, description="Of that session alone.")] = "",
) -> JSONResponse:
    """The recorded ones, the newest first, page by page."""
    found = await collection.retrievals(limit=limit, before=before, session=session)
    last = str(found[-1].retrieval_id) if len(found) == limit else None
    return JSONResponse({"retrievals": [one.as_dict() for one in found], "next": last})


@router.get("", response_model=models.RetrievalTold, summary="Read a recorded search")
async def retrieval(platform: CurrentPlatform, retrieval_id: RetrievalId) -> JSONResponse:
    """What was asked, in what context, how it was answered, and what was shown with which propensity."""
    return JSONResponse((await platform.retrieval(retrieval_id)).as_dict())


@router.post("/replay", response_model=models.ReplayTold, summary="Ask a recorded search again")
async def replay(platform: CurrentPlatform, retrieval_id: RetrievalId) -> JSONResponse:
    """Whether its ranking follows from its record, and where and why today's answer differs. Nothing is recorded."""
    return JSONResponse((await platform.replay(retrieval_id)).as_dict())
