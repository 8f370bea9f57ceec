"""The routes of searches and of their records."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse

from retrieval.adapters.aside import aside
from retrieval.collection import Collection
from retrieval.domain.api_key import Scope
from retrieval.domain.learning.context import MAX_NAME_LENGTH
from retrieval.domain.search.hit import SearchResult
from retrieval.surfaces.http.caller import CurrentPlatform, NamedCollection, needs
from retrieval.surfaces.http.json_bodies import (
    LARGE_PAGE,
    JSONAnswer,
    JSONBodies,
    fields_of,
    filter_at,
    filters_at,
    place_of_large,
    profile_at,
    where_of,
)
from retrieval.surfaces.http.models import retrievals as models
from retrieval.surfaces.http.models.search import (
    BatchAnswer,
    BatchRequest,
    CompletionsTold,
    PassagesRequest,
    PassagesTold,
    SearchAnswer,
    SearchBody,
)

router = APIRouter(
    prefix="/v1/collections/{name}", tags=["search"], dependencies=[needs(Scope.READ)], route_class=JSONBodies
)


@router.post("/search", response_model=SearchAnswer, summary="Search a collection")
async def search(request: Request, collection: NamedCollection, body: SearchBody) -> JSONAnswer:
    """The best hits by meaning and by words, each with what its score is made of."""
    is_large = body.limit >= LARGE_PAGE
    async with place_of_large(request, is_large=is_large):
        prefer = await filters_at("prefer", body.prefer, collection)
        asked = {**await _asked(body, collection), "prefer": prefer}
        with fields_of(where=body.where, prefer=body.prefer, group_by=body.group_by):
            result = await collection.search(**asked)
        return await aside(lambda: JSONAnswer(told(result, explain=body.explain)), is_long=is_large)


@router.get("/complete", response_model=CompletionsTold, summary="Complete what is being typed")
async def complete(
    collection: NamedCollection,
    text: Annotated[str, Query(description="What is typed so far.", examples=["connection ti"])],
    where: Annotated[
        str | None, Query(description="A filter as a JSON object.", examples=['{"priority": "High"}'])
    ] = None,
    limit: Annotated[int, Query(ge=1, le=100, description="Queries, and titles, at most.")] = 10,
) -> JSONAnswer:
    """The last word completed from the texts of the best items, and the titles that hold it. Nothing is recorded."""
    return JSONAnswer((await collection.complete(text, where=where_of(where), limit=limit)).as_dict())


@router.post("/passages", response_model=PassagesTold, summary="Search for passages")
async def passages(request: Request, collection: NamedCollection, body: PassagesRequest) -> JSONAnswer:
    """The best hits with the chunks beside them, joined and named by their documents, as text for a prompt."""
    async with place_of_large(request, is_large=body.limit >= LARGE_PAGE):
        asked = {name: getattr(body, name) for name in type(body).model_fields}
        where = await filter_at("where", body.where, collection)
        with fields_of(where=body.where):
            found = await collection.passages(**{**asked, "where": where, "context": body.context.context()})
        return JSONAnswer(found.as_dict())


@router.post("/search/batch", response_model=BatchAnswer, summary="Search a collection for many queries")
async def search_each(request: Request, collection: NamedCollection, body: BatchRequest) -> JSONAnswer:
    """The best hits for each query: the words are embedded in one call, and the candidates of all come together."""
    is_large = len(body.queries) * body.limit >= LARGE_PAGE
    async with place_of_large(request, is_large=is_large):
        asked = await _asked(body, collection)
        with fields_of(where=body.where, group_by=body.group_by):
            results = await collection.search_each(**asked)
        return await aside(
            lambda: JSONAnswer({"results": [told(result, explain=body.explain) for result in results]}),
            is_long=is_large,
        )


async def _asked(body: SearchBody | BatchRequest, collection: Collection) -> dict[str, Any]:
    """The arguments of a search by name, which are those of the body; ``explain`` is about the answer."""
    sent = {name: getattr(body, name) for name in type(body).model_fields if name != "explain"}
    where = await filter_at("where", body.where, collection)
    return {
        **sent,
        "where": where,
        "profile": profile_at(("profile",), body.profile),
        "context": body.context.context(),
    }


def told(result: SearchResult, *, explain: bool) -> dict[str, Any]:
    """The result in plain JSON values, with the explanations or without."""
    values = result.as_dict()
    if not explain:
        for hit in values["hits"]:
            del hit["explanation"]
    return values


_ABOUT: dict[str, Any] = {"tags": ["retrievals"], "dependencies": [needs(Scope.READ)]}

retrievals_router = APIRouter(prefix="/v1/retrievals/{retrieval_id}", **_ABOUT)
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


@retrievals_router.get("", response_model=models.RetrievalTold, summary="Read a recorded search")
async def retrieval(platform: CurrentPlatform, retrieval_id: RetrievalId) -> JSONResponse:
    """The question, its context, how it was answered, and the hits shown with their propensities."""
    return JSONResponse((await platform.retrieval(retrieval_id)).as_dict())


@retrievals_router.post("/replay", response_model=models.ReplayTold, summary="Ask a recorded search again")
async def replay(platform: CurrentPlatform, retrieval_id: RetrievalId) -> JSONResponse:
    """Whether its ranking follows from its record, and where and why today's answer differs. Nothing is recorded."""
    return JSONResponse((await platform.replay(retrieval_id)).as_dict())
