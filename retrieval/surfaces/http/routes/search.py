"""Searches and recorded searches: routes and models."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BeforeValidator, Field

from retrieval.adapters.aside import aside
from retrieval.collection import Collection
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.passages import Passages
from retrieval.domain.learning.context import MAX_NAME_LENGTH
from retrieval.domain.records.recorded import RecordedRetrieval, RetrievalSummary
from retrieval.domain.search.hit import SearchResult
from retrieval.domain.search.spelling import Completions
from retrieval.engine.replay import Replay
from retrieval.services.stored_documents import MAX_AROUND, MAX_PASSAGE_TOKENS, MIN_PASSAGE_TOKENS
from retrieval.surfaces.http import json_bodies, models
from retrieval.surfaces.http.caller import ReadCollection, ReadPlatform
from retrieval.surfaces.http.json_bodies import JSONAnswer
from retrieval.surfaces.http.models import Vector

MAX_QUERIES = 100
"""The greatest number of queries in one batch."""

Texts = Annotated[list[str], Field(fail_fast=True)]
"""The error reports only the first value that is not a text."""

Limit = Annotated[int, Field(ge=1, le=1000)]


class RankedBody(models.Sent):
    """The parts of every request that ranks items."""

    where: models.Where | None = None
    limit: Limit = 10
    """The number of hits for each query, 1 to 1000."""
    min_score: float | None = None
    """Hits with a lower score are left out; scores are comparable within one search only."""
    min_relevance: Annotated[float, Field(ge=0, le=1)] | None = None
    """Hits that are relevant with a lower probability, 0 to 1, are left out."""
    context: models.SentSituation = models.SentSituation()
    """The situation that the search is recorded with."""


class _SearchParts(RankedBody):
    legs: Texts | None = None
    """The legs to use, such as `["dense", "lexical"]`; left out: the profile's."""
    profile: models.InlineProfile | None = None
    """Replaces the collection's profile for this search."""
    group_by: str | None = None
    """A field; of the items with the same value only the best hit is returned."""
    syntax: bool = True
    """False: quotes, minus and star in the query are text."""
    after_write: str | None = None
    """The token of a write, also accepted in the header `Retrieval-After-Write`: the search reads its state or a later
    one."""
    explain: bool = True
    """Whether each hit has the parts of its score."""


class SearchBody(
    _SearchParts,
    examples=[
        {"query": "database connection timeout", "where": {"priority": "High"}, "limit": 5},
        {"query": '"read timeout" -redis connect*', "legs": ["lexical"], "context": {"session": "s-17"}},
    ],
):
    """A search by words, by a vector, or by neither if the profile has a leg that needs none."""

    query: str | None = None
    """The words. `"a phrase"` must be in every hit, `-word` in none, `begin*` matches words with that prefix."""
    vector: Vector | None = None
    """The caller's vector, in place of the words' embedding."""
    rewrites: Texts = Field(default_factory=list)
    """Other wordings of the query; every leg runs once more for each."""
    prefer: models.Preferences | None = None
    """Items that this filter matches rank higher; none is left out. A list has up to 4 filters, the most preferred
    first: the rankings of the second have half the weight, those of the third a third."""
    entities: dict[str, Texts] | None = None
    """The entities that the question is about, by type."""
    tags: Texts = Field(default_factory=list)
    """The tags that the question is about."""
    as_of: models.Moment | None = None
    """The time that signals use as now."""
    about: Vector | None = None
    """The vector that determines the query's cluster, in place of `vector`."""
    snippet: Annotated[int, Field(ge=20, le=2000)] | None = None
    """The length in characters of a snippet of each hit's text with the query's words marked; left out: no snippets."""
    facets: Texts = Field(default_factory=list)
    """Fields, at most 10, whose values are counted among all items that match the filter."""
    after: str | None = None
    """The cursor of a page of `limit` hits: `""` for the first, then `next` of the previous page of the same query."""
    typos: bool = False
    """Whether words that no item has are replaced by the nearest known words, or completed; see `notes`."""


class BatchRequest(_SearchParts, examples=[{"queries": ["connection timeout", "disk full"], "limit": 3}]):
    """Many queries at once; all other fields apply to each of them."""

    queries: Annotated[list[str], Field(min_length=1, max_length=MAX_QUERIES, fail_fast=True)]
    """The queries, 1 to 100."""
    vectors: list[Vector] | None = None
    """The caller's vectors, one per query."""


class PassagesRequest(RankedBody, examples=[{"query": "who gets parental leave?", "max_tokens": 1500}]):
    """A search whose hits become text for a prompt."""

    query: str
    max_tokens: Annotated[int, Field(ge=MIN_PASSAGE_TOKENS, le=MAX_PASSAGE_TOKENS)] = 2000
    """The greatest length of the text, in tokens of the collection's model."""
    around: Annotated[int, Field(ge=0, le=MAX_AROUND)] = 1
    """The greatest number of chunks that are added on each side of a hit."""


BatchAnswer = models.listed("BatchAnswer", "One result per query, in the same order.", results=SearchResult)
RetrievalPage = models.listed(
    "RetrievalPage",
    "Recorded searches, the newest first.",
    "The value of the parameter `before` for the next page; null: this is the last page.",
    retrievals=RetrievalSummary,
)

router = APIRouter(prefix="/v1/collections/{name}", tags=["search"], route_class=json_bodies.JSONBodies)


@router.post("/search", response_model=models.model_of(SearchResult), summary="Search a collection")
async def search(request: Request, collection: ReadCollection, body: SearchBody) -> JSONAnswer:
    """The best hits by meaning and by words, each with the parts of its score."""
    is_large = body.limit >= json_bodies.LARGE_PAGE
    async with json_bodies.room_for_large(request, is_large=is_large):
        arguments = await arguments_of(body, collection)
        with json_bodies.members_of(body):
            result = await collection.search(**arguments)
        return await aside(lambda: JSONAnswer(result_values(result, explain=body.explain)), is_long=is_large)


@router.get("/complete", response_model=models.model_of(Completions), summary="Complete a text that is being typed")
async def complete(
    collection: ReadCollection,
    text: Annotated[str, Query(description="The text typed so far.", examples=["connection ti"])],
    where: json_bodies.WhereParameter = None,
    limit: Annotated[int, Query(ge=1, le=100, description="The greatest number of queries, and of titles.")] = 10,
) -> JSONAnswer:
    """Complete the last word from the texts of the best items, and list titles with it. Nothing is recorded."""
    try:
        completions = await collection.complete(text, where=json_bodies.where_of(where), limit=limit)
    except InvalidRequestError as error:
        if error.location != ("query",):
            raise
        raise RequestValidationError([{"loc": ("query", "text"), "msg": str(error)}]) from None
    return JSONAnswer(completions.as_dict())


@router.post("/passages", response_model=models.model_of(Passages), summary="Search for passages")
async def passages(request: Request, collection: ReadCollection, body: PassagesRequest) -> JSONAnswer:
    """The best hits with their adjacent chunks, joined and labelled by document, as text for a prompt."""
    async with json_bodies.room_for_large(request, is_large=body.limit >= json_bodies.LARGE_PAGE):
        arguments = await arguments_of(body, collection)
        with json_bodies.members_of(body):
            result = await collection.passages(**arguments)
        return JSONAnswer(result.as_dict())


@router.post("/search/batch", response_model=BatchAnswer, summary="Search a collection for many queries")
async def search_each(request: Request, collection: ReadCollection, body: BatchRequest) -> JSONAnswer:
    """The best hits for each query: one call embeds all words, and one statement reads all candidates."""
    is_large = len(body.queries) * body.limit >= json_bodies.LARGE_PAGE
    async with json_bodies.room_for_large(request, is_large=is_large):
        arguments = await arguments_of(body, collection)
        with json_bodies.members_of(body):
            results = await collection.search_each(**arguments)
        return await aside(
            lambda: JSONAnswer({"results": [result_values(result, explain=body.explain) for result in results]}),
            is_long=is_large,
        )


async def arguments_of(body: RankedBody, collection: Collection) -> dict[str, Any]:
    """The arguments of a search, from the body; ``explain`` concerns only the response."""
    arguments = {name: getattr(body, name) for name in type(body).model_fields if name != "explain"}
    if isinstance(body, _SearchParts):
        arguments["profile"] = json_bodies.sent_profile(body.profile)
    if isinstance(body, SearchBody):
        arguments["prefer"] = await json_bodies.filters_at("prefer", body.prefer, collection)
    where = await json_bodies.filter_at("where", body.where, collection)
    return {**arguments, "where": where, "context": body.context.context()}


def result_values(result: SearchResult, *, explain: bool) -> dict[str, Any]:
    """The result as plain JSON values, with or without explanations."""
    values = result.as_dict()
    if not explain:
        for hit in values["hits"]:
            del hit["explanation"]
    return values


retrievals_router = APIRouter(prefix="/v1/retrievals/{retrieval_id}", tags=["retrievals"])
in_collection = APIRouter(prefix="/v1/collections/{name}", tags=["retrievals"])

RetrievalId = Annotated[
    UUID, BeforeValidator(json_bodies.restore), Path(description="The id in the result of a search.")
]


@in_collection.get("/retrievals", response_model=RetrievalPage, summary="List the searches of a collection")
async def retrievals(
    collection: ReadCollection,
    limit: Annotated[int, Query(ge=1, le=1000, description="Searches per page.")] = 20,
    before: Annotated[UUID | None, Query(description="`next` of the previous page.")] = None,
    session: Annotated[str, Query(max_length=MAX_NAME_LENGTH, description="Only this session.")] = "",
) -> JSONAnswer:
    """The recorded searches, the newest first, in pages."""
    summaries = await collection.retrievals(limit=limit, before=before, session=session)
    last = str(summaries[-1].retrieval_id) if len(summaries) == limit else None
    return JSONAnswer({"retrievals": [summary.as_dict() for summary in summaries], "next": last})


@retrievals_router.get("", response_model=models.model_of(RecordedRetrieval), summary="Read a recorded search")
async def retrieval(platform: ReadPlatform, retrieval_id: RetrievalId) -> JSONAnswer:
    """The query, its context, how it was searched, and the returned hits with their propensities."""
    return JSONAnswer((await platform.retrieval(retrieval_id)).as_dict())


@retrievals_router.post("/replay", response_model=models.model_of(Replay), summary="Replay a recorded search")
async def replay(platform: ReadPlatform, retrieval_id: RetrievalId) -> JSONAnswer:
    """Whether a recorded ranking follows from its record, and how today's result differs. Nothing is recorded."""
    return JSONAnswer((await platform.replay(retrieval_id)).as_dict())
