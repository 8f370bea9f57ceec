"""Figures: how the collections stand, and what searches and feedback tell."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse

from retrieval.domain.api_key import Scope
from retrieval.surfaces.http.caller import CurrentPlatform, needs
from retrieval.surfaces.http.models import figures as models
from retrieval.surfaces.since import age_or_time, time_of

router = APIRouter(prefix="/v1", tags=["figures"], dependencies=[needs(Scope.READ)])

_SINCE = "From then on: an ISO 8601 date or time, or an age such as `30m`, `12h`, `7d`, `4w`."


@router.get("/statistics", response_model=models.StatisticsTold, summary="How the collections stand")
async def statistics(platform: CurrentPlatform) -> JSONResponse:
    """What is stored, what waits, which indexes there are, what ran last, and what was measured."""
    return JSONResponse({"collections": [one.as_dict() for one in await platform.statistics()]})


@router.get("/analytics", response_model=models.ViewsTold, summary="List the views of figures")
async def analytics_views(platform: CurrentPlatform) -> JSONResponse:
    """What can be asked about searches, items, exploration and feedback, each with its columns."""
    return JSONResponse({"views": [one.as_dict() for one in await platform.analytics_views()]})


@router.get("/analytics/{view}", response_model=models.FiguresTold, summary="Read a view of figures")
async def analytics(
    *,
    platform: CurrentPlatform,
    view: Annotated[str, Path(description="The name of a view.", examples=["poor_queries"])],
    collection: Annotated[str | None, Query(description="Of this collection alone.")] = None,
    since: Annotated[str | None, Query(description=_SINCE, examples=["7d"])] = None,
    until: Annotated[str | None, Query(description="Before that ISO 8601 date or time.")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Rows, at most.")] = 1000,
) -> JSONResponse:
    """The rows, most telling first, of a collection or of all, of a period or of all time."""
    begin = None if since is None else age_or_time(since, option="since")
    end = None if until is None else time_of("until", until)
    found = await platform.analytics(view, collection=collection, since=begin, until=end, limit=limit)
    return JSONResponse({"view": found.view, "columns": list(found.columns), "rows": found.as_dicts()})
