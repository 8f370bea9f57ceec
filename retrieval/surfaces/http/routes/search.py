"""Searches and recorded searches: routes and models."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from pydantic.config import JsonDict

from retrieval.adapters.aside import aside
from retrieval.collection import Collection
from retrieval.domain.api_key import Scope
from retrieval.domain.items.passages import Passage, Passages
from retrieval.domain.learning.context import MAX_NAME_LENGTH, Context
from retrieval.domain.records.recorded import RecordedRetrieval, RetrievalSummary
from retrieval.domain.records.search_record import Impression
from retrieval.domain.search.hit import Contribution, Explanation, Hit, SearchResult
from retrieval.domain.search.snippet import Snippet
from retrieval.domain.search.spelling import Completions, Title
from retrieval.engine.replay import Difference, Replay
from retrieval.services.documents import MAX_AROUND, MAX_PASSAGE_TOKENS, MIN_PASSAGE_TOKENS
from retrieval.surfaces.http.caller import CurrentPlatform, NamedCollection, needs
from retrieval.surfaces.http.json_bodies import (
    LARGE_PAGE,
    JSONAnswer,
    JSONBodies,
    WhereParameter,
    fields_of,
    filter_at,
    filters_at,
    place_of_large,
    profile_at,
    where_of,
)
from retrieval.surfaces.http.models import (
    A_RETRIEVAL,
    AnswerPart,
    InlineProfile,
    Moment,
    Preferences,
    Sent,
    SentSituation,
    Vector,
    Where,
)

MAX_QUERIES = 100
"""The greatest number of queries in one batch."""

Texts = Annotated[list[str], Field(fail_fast=True)]
"""The error reports only the first value that is not a text."""

Limit = Annotated[int, Field(ge=1, le=1000)]

LeastRelevance = Annotated[float, Field(ge=0, le=1)]


class SearchBody(
    Sent,
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
    where: Where | None = None
    limit: Limit = 10
    """The number of hits, 1 to 1000."""
    legs: Texts | None = None
    """The legs to use, such as `["dense", "lexical"]`; left out: the profile's."""
    profile: InlineProfile | None = None
    """Replaces the collection's profile for this search."""
    group_by: str | None = None
    """A field; of the items with the same value only the best hit is returned."""
    syntax: bool = True
    """False: quotes, minus and star in the query are text."""
    rewrites: Texts = Field(default_factory=list)
    """Other wordings of the query; every leg runs once more for each."""
    prefer: Preferences | None = None
    """Items that this filter matches rank higher; none is left out. A list has up to 4 filters, the most preferred
    first: the rankings of the second have half the weight, those of the third a third."""
    entities: dict[str, Texts] | None = None
    """The entities that the question is about, by type."""
    tags: Texts = Field(default_factory=list)
    """The tags that the question is about."""
    as_of: Moment | None = None
    """The time that signals use as now."""
    about: Vector | None = None
    """The vector that determines the query's cluster, in place of `vector`."""
    min_score: float | None = None
    """Hits with a lower score are left out; scores are comparable within one search only."""
    min_relevance: LeastRelevance | None = None
    """Hits that are relevant with a lower probability, 0 to 1, are left out."""
    snippet: Annotated[int, Field(ge=20, le=2000)] | None = None
    """The length in characters of a snippet of each hit's text with the query's words marked; left out: no snippets."""
    facets: Texts = Field(default_factory=list)
    """Fields, at most 10, whose values are counted among all items that match the filter."""
    after: str | None = None
    """The cursor of a page of `limit` hits: `""` for the first, then `next` of the previous page of the same query."""
    after_write: str | None = None
    """The token of a write, also accepted in the header `Retrieval-After-Write`: the search reads its state or a later
    one."""
    typos: bool = False
    """Whether words that no item has are replaced by the nearest known words, or completed; see `notes`."""
    context: SentSituation = SentSituation()
    """The situation that the search is recorded with."""
    explain: bool = True
    """Whether each hit has the parts of its score."""


class BatchRequest(Sent, examples=[{"queries": ["connection timeout", "disk full"], "limit": 3}]):
    """Many queries at once; all other fields apply to each of them."""

    queries: Annotated[list[str], Field(min_length=1, max_length=MAX_QUERIES, fail_fast=True)]
    """The queries, 1 to 100."""
    vectors: list[Vector] | None = None
    """The caller's vectors, one per query."""
    where: Where | None = None
    limit: Limit = 10
    """The number of hits for each query, 1 to 1000."""
    legs: Texts | None = None
    profile: InlineProfile | None = None
    group_by: str | None = None
    syntax: bool = True
    min_score: float | None = None
    min_relevance: LeastRelevance | None = None
    after_write: str | None = None
    context: SentSituation = SentSituation()
    explain: bool = True


class PassagesRequest(Sent, examples=[{"query": "who gets parental leave?", "max_tokens": 1500}]):
    """A search whose hits become text for a prompt."""

    query: str
    max_tokens: Annotated[int, Field(ge=MIN_PASSAGE_TOKENS, le=MAX_PASSAGE_TOKENS)] = 2000
    """The greatest length of the text, in tokens of the collection's model."""
    around: Annotated[int, Field(ge=0, le=MAX_AROUND)] = 1
    """The greatest number of chunks that are added on each side of a hit."""
    limit: Limit = 10
    """The number of hits, 1 to 1000."""
    where: Where | None = None
    min_score: float | None = None
    """Hits with a lower score are left out."""
    min_relevance: LeastRelevance | None = None
    """Hits that are relevant with a lower probability, 0 to 1, are left out."""
    context: SentSituation = SentSituation()


class PassageTold(AnswerPart, of=Passage):
    """Consecutive chunks of a document, as one text."""


class PassagesTold(
    AnswerPart,
    of=Passages,
    examples=[
        {
            "passages": [
                {
                    "document": "handbook/leave.md",
                    "title": "Leave",
                    "headings": ["Leave", "Parents"],
                    "page": None,
                    "last_page": None,
                    "text": "Parents get fourteen weeks.",
                    "rank": 1,
                    "score": 0.0328,
                    "item_ids": ["handbook/leave.md#0b1c2d3e4f5a"],
                    "cut": False,
                }
            ],
            "text": "## Leave › Parents\n\n> Parents get fourteen weeks.",
            "tokens": 17,
            "left_out": 0,
            "retrieval_id": A_RETRIEVAL,
            "notes": [],
        }
    ],
):
    """The passages for a prompt, the most relevant first."""


class ContributionTold(AnswerPart, of=Contribution):
    """The part of a leg or signal in a score."""


class ExplanationTold(AnswerPart, of=Explanation):
    """The parts of a hit's score, which is the sum of the contributions."""


class SnippetTold(AnswerPart, of=Snippet):
    """The part of a hit's text that holds most of the query's words."""


class HitTold(AnswerPart, of=Hit):
    """An item in a search result."""

    explanation: ExplanationTold | None = None
    """Left out if the request has `"explain": false`."""


class SearchAnswer(
    AnswerPart,
    of=SearchResult,
    examples=[
        {
            "hits": [
                {
                    "id": "T-17",
                    "score": 0.03252,
                    "relevance": 0.81,
                    "rank": 1,
                    "slot": "exploit",
                    "propensity": 1.0,
                    "title": "Connection timeout",
                    "text": "The database refuses connections at peak hours.",
                    "kind": "",
                    "tags": ["urgent"],
                    "metadata": {"priority": "High"},
                    "status": "active",
                    "source": "",
                    "occurred_at": "2026-05-01T08:00:00+00:00",
                    "snippet": None,
                    "explanation": {
                        "fusion": "rrf",
                        "score": 0.03252,
                        "contributions": [
                            {"leg": "dense", "rank": 2, "raw_score": 0.81, "weight": 1.0, "value": 0.01613},
                            {"leg": "lexical", "rank": 1, "raw_score": 7.4, "weight": 1.0, "value": 0.01639},
                        ],
                    },
                }
            ],
            "path": "exact",
            "why": "about 12 rows match",
            "weighed": 12,
            "profile_version": 1,
            "notes": [],
            "why_no_hits": [],
            "timings_ms": {"embed": 0.4, "candidates": 2.1, "items": 0.6, "total": 3.4},
            "retrieval_id": "01a2014b-b29b-73d6-8b76-213aa0d89193",
            "facets": {},
            "next": None,
        }
    ],
):
    """The hits, best first, and how they were found."""


class TitleTold(AnswerPart, of=Title):
    """An item whose title contains the typed text."""


class CompletionsTold(
    AnswerPart,
    of=Completions,
    examples=[
        {
            "queries": ["connection timeout", "connection times"],
            "titles": [{"id": "T-17", "title": "Connection timeout"}],
        }
    ],
):
    """The completions of a text that is being typed."""


class BatchAnswer(AnswerPart, examples=[{"results": []}]):
    """One result per query, in the same order."""

    results: list[SearchAnswer]


_AT = "2026-05-31T12:00:00.123000+00:00"
_IMPRESSION: JsonDict = {
    "item_id": "T-17", "rank": 1, "score": 0.03252, "signals": {}, "slot": "exploit", "propensity": 1.0,
    "rank_propensity": 1.0, "pulls": 0.0,
}  # fmt: skip


class SummaryTold(AnswerPart, of=RetrievalSummary):
    """A recorded search in a list."""


class RetrievalPage(AnswerPart, examples=[{"retrievals": [], "next": None}]):
    """Recorded searches, the newest first."""

    retrievals: list[SummaryTold]
    next: str | None
    """The value of the parameter `before` for the next page; null: this is the last page."""


class ContextTold(AnswerPart, of=Context):
    """The situation that a search was recorded with."""


class ImpressionTold(AnswerPart, of=Impression):
    """A returned hit."""


class RetrievalTold(
    AnswerPart,
    of=RecordedRetrieval,
    examples=[
        {
            "retrieval_id": A_RETRIEVAL,
            "retrieved_at": _AT,
            "collection": "tickets",
            "origin": "",
            "query": "connection timeout",
            "is_by_vector": False,
            "where": {"priority": {"in": ["High"]}},
            "request": {"limit": 1, "group_by": None, "profile": None},
            "context": {
                "domain": "",
                "complexity": None,
                "actor": "kim",
                "session": "s-17",
                "backtracks": 0,
                "generated": False,
            },
            "profile_version": 1,
            "model_version": 0,
            "policy": "off/1",
            "path": "exact",
            "notes": [],
            "timings_ms": {"total": 3.4},
            "retrieval_time_ms": 3.4,
            "candidates": 12,
            "impressions": [_IMPRESSION],
        }
    ],
):
    """A recorded search: the request, its context, its result, and the returned items."""


class DifferenceTold(AnswerPart, of=Difference):
    """An item with another rank or score today."""


class ReplayTold(
    AnswerPart,
    of=Replay,
    examples=[
        {
            "retrieval_id": A_RETRIEVAL,
            "retrieved_at": _AT,
            "collection": "tickets",
            "query": "connection timeout",
            "is_reproduced": True,
            "why_not": [],
            "is_same_today": False,
            "changes": [],
            "differences": [
                {
                    "item_id": "T-17",
                    "rank_then": 1,
                    "rank_now": None,
                    "score_then": 0.03252,
                    "score_now": None,
                    "why": ["the item was removed"],
                }
            ],
        }
    ],
):
    """Whether the recorded ranking follows from its record, and where and why today's result differs."""


router = APIRouter(
    prefix="/v1/collections/{name}", tags=["search"], dependencies=[needs(Scope.READ)], route_class=JSONBodies
)


@router.post("/search", response_model=SearchAnswer, summary="Search a collection")
async def search(request: Request, collection: NamedCollection, body: SearchBody) -> JSONAnswer:
    """The best hits by meaning and by words, each with the parts of its score."""
    is_large = body.limit >= LARGE_PAGE
    async with place_of_large(request, is_large=is_large):
        prefer = await filters_at("prefer", body.prefer, collection)
        options = {**await _search_options(body, collection), "prefer": prefer}
        with fields_of(where=body.where, prefer=body.prefer, group_by=body.group_by):
            result = await collection.search(**options)
        return await aside(lambda: JSONAnswer(result_values(result, explain=body.explain)), is_long=is_large)


@router.get("/complete", response_model=CompletionsTold, summary="Complete a text that is being typed")
async def complete(
    collection: NamedCollection,
    text: Annotated[str, Query(description="The text typed so far.", examples=["connection ti"])],
    where: WhereParameter = None,
    limit: Annotated[int, Query(ge=1, le=100, description="The greatest number of queries, and of titles.")] = 10,
) -> JSONAnswer:
    """Complete the last word from the texts of the best items, and list titles with it. Nothing is recorded."""
    return JSONAnswer((await collection.complete(text, where=where_of(where), limit=limit)).as_dict())


@router.post("/passages", response_model=PassagesTold, summary="Search for passages")
async def passages(request: Request, collection: NamedCollection, body: PassagesRequest) -> JSONAnswer:
    """The best hits with their adjacent chunks, joined and labelled by document, as text for a prompt."""
    async with place_of_large(request, is_large=body.limit >= LARGE_PAGE):
        options = {name: getattr(body, name) for name in type(body).model_fields}
        where = await filter_at("where", body.where, collection)
        with fields_of(where=body.where):
            result = await collection.passages(**{**options, "where": where, "context": body.context.context()})
        return JSONAnswer(result.as_dict())


@router.post("/search/batch", response_model=BatchAnswer, summary="Search a collection for many queries")
async def search_each(request: Request, collection: NamedCollection, body: BatchRequest) -> JSONAnswer:
    """The best hits for each query: one call embeds all words, and one statement reads all candidates."""
    is_large = len(body.queries) * body.limit >= LARGE_PAGE
    async with place_of_large(request, is_large=is_large):
        options = await _search_options(body, collection)
        with fields_of(where=body.where, group_by=body.group_by):
            results = await collection.search_each(**options)
        return await aside(
            lambda: JSONAnswer({"results": [result_values(result, explain=body.explain) for result in results]}),
            is_long=is_large,
        )


async def _search_options(body: SearchBody | BatchRequest, collection: Collection) -> dict[str, Any]:
    """The arguments of a search, from the body; ``explain`` concerns only the response."""
    arguments = {name: getattr(body, name) for name in type(body).model_fields if name != "explain"}
    where = await filter_at("where", body.where, collection)
    return {
        **arguments,
        "where": where,
        "profile": profile_at(("profile",), body.profile),
        "context": body.context.context(),
    }


def result_values(result: SearchResult, *, explain: bool) -> dict[str, Any]:
    """The result as plain JSON values, with or without explanations."""
    values = result.as_dict()
    if not explain:
        for hit in values["hits"]:
            del hit["explanation"]
    return values


_ABOUT: dict[str, Any] = {"tags": ["retrievals"], "dependencies": [needs(Scope.READ)]}

retrievals_router = APIRouter(prefix="/v1/retrievals/{retrieval_id}", **_ABOUT)
in_collection = APIRouter(prefix="/v1/collections/{name}", **_ABOUT)

RetrievalId = Annotated[UUID, Path(description="The id in the result of a search.")]


@in_collection.get("/retrievals", response_model=RetrievalPage, summary="List the searches of a collection")
async def retrievals(
    collection: NamedCollection,
    limit: Annotated[int, Query(ge=1, le=1000, description="Searches per page.")] = 20,
    before: Annotated[UUID | None, Query(description="`next` of the previous page.")] = None,
    session: Annotated[str, Query(max_length=MAX_NAME_LENGTH, description="Only this session.")] = "",
) -> JSONAnswer:
    """The recorded searches, the newest first, in pages."""
    summaries = await collection.retrievals(limit=limit, before=before, session=session)
    last = str(summaries[-1].retrieval_id) if len(summaries) == limit else None
    return JSONAnswer({"retrievals": [summary.as_dict() for summary in summaries], "next": last})


@retrievals_router.get("", response_model=RetrievalTold, summary="Read a recorded search")
async def retrieval(platform: CurrentPlatform, retrieval_id: RetrievalId) -> JSONAnswer:
    """The query, its context, how it was searched, and the returned hits with their propensities."""
    return JSONAnswer((await platform.retrieval(retrieval_id)).as_dict())


@retrievals_router.post("/replay", response_model=ReplayTold, summary="Replay a recorded search")
async def replay(platform: CurrentPlatform, retrieval_id: RetrievalId) -> JSONAnswer:
    """Whether a recorded ranking follows from its record, and how today's result differs. Nothing is recorded."""
    return JSONAnswer((await platform.replay(retrieval_id)).as_dict())
