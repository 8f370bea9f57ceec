"""Searches: what is asked, and what was found."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from retrieval.domain.items.passages import Passage, Passages
from retrieval.domain.search.hit import Contribution, Explanation, Hit, SearchResult
from retrieval.domain.search.snippet import Snippet
from retrieval.domain.search.spelling import Completions, Title
from retrieval.services.documents import MAX_AROUND, MAX_PASSAGE_TOKENS
from retrieval.surfaces.http.models.base import (
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
"""Queries in one batch."""

Texts = Annotated[list[str], Field(fail_fast=True)]
"""The first that is no text is told."""

Limit = Annotated[int, Field(ge=1, le=1000)]

LeastRelevance = Annotated[float, Field(ge=0, le=1)]


class SearchBody(Sent):
    """A search by words, by a vector, or by neither where the profile has a leg that needs none."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"query": "database connection timeout", "where": {"priority": "High"}, "limit": 5},
                {"query": '"read timeout" -redis connect*', "legs": ["lexical"], "context": {"session": "s-17"}},
            ]
        }
    )

    query: str | None = None
    """The words. `"a phrase"` must stand in every hit, `-word` in none, `begin*` stands for words that begin so."""
    vector: Vector | None = None
    """A vector of the caller's own, in place of the words' embedding."""
    where: Where | None = None
    limit: Limit = 10
    """Hits wanted, 1 to 1000."""
    legs: Texts | None = None
    """The legs to use, such as `["dense", "lexical"]`; left out: the profile's."""
    profile: InlineProfile | None = None
    """Replaces the collection's for this search."""
    group_by: str | None = None
    """A field, of whose values each has its best hit only."""
    syntax: bool = True
    """False: quotes, minus and star in the query are text."""
    rewrites: Texts = Field(default_factory=list)
    """Other wordings, for each of which every leg runs once more."""
    prefer: Preferences | None = None
    """Items that this filter matches rank higher; none is left out. Up to 4 come in a list, the most preferred
    first: the second's rankings weigh half, the third's a third."""
    entities: dict[str, Texts] | None = None
    """The entities that the question is about, by type."""
    tags: Texts = Field(default_factory=list)
    """The tags that the question is about."""
    as_of: Moment | None = None
    """The moment that signals take as now."""
    about: Vector | None = None
    """Tells the question's cluster where `vector` does not."""
    min_score: float | None = None
    """Hits of a lower score are left out; scores are comparable within one search only."""
    min_relevance: LeastRelevance | None = None
    """Hits that are relevant with a lower probability, 0 to 1, are left out."""
    snippet: Annotated[int, Field(ge=20, le=2000)] | None = None
    """The characters of a part of each hit's text with the query's words marked; left out: none."""
    facets: Texts = Field(default_factory=list)
    """Fields, at most 10, whose values are counted among all items that the filter lets through."""
    after: str | None = None
    """For pages of `limit` hits: `""` for the first, then `next` of the page before, with the same question."""
    typos: bool = False
    """Whether words that no item holds are taken for the nearest known words, or for those they begin; see `notes`."""
    context: SentSituation = SentSituation()
    """The situation that the search is recorded with."""
    explain: bool = True
    """Whether each hit comes with what its score is made of."""


class BatchRequest(Sent):
    """Many queries, for little more than the price of one; all else holds for each."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"queries": ["connection timeout", "disk full"], "limit": 3}]}
    )

    queries: Annotated[list[str], Field(min_length=1, max_length=MAX_QUERIES, fail_fast=True)]
    """Words, 1 to 100 times."""
    vectors: list[Vector] | None = None
    """Vectors of the caller's own, one a query."""
    where: Where | None = None
    limit: Limit = 10
    """Hits wanted of each, 1 to 1000."""
    legs: Texts | None = None
    profile: InlineProfile | None = None
    group_by: str | None = None
    syntax: bool = True
    min_score: float | None = None
    min_relevance: LeastRelevance | None = None
    context: SentSituation = SentSituation()
    explain: bool = True


class PassagesRequest(Sent):
    """A search whose hits become text for a prompt."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "who gets parental leave?", "max_tokens": 1500}]}
    )

    query: str
    max_tokens: Annotated[int, Field(ge=0, le=MAX_PASSAGE_TOKENS)] = 2000
    """Tokens of the collection's model that the text has, at most."""
    around: Annotated[int, Field(ge=0, le=MAX_AROUND)] = 1
    """The chunks on each side of a hit that are taken in, at most."""
    limit: Limit = 10
    """Hits wanted, 1 to 1000."""
    where: Where | None = None
    min_score: float | None = None
    """Hits of a lower score are left out."""
    min_relevance: LeastRelevance | None = None
    """Hits that are relevant with a lower probability, 0 to 1, are left out."""
    context: SentSituation = SentSituation()


class PassageTold(AnswerPart, of=Passage):
    """Chunks of a document that stand one behind the other, as one text."""


class PassagesTold(AnswerPart, of=Passages):
    """The passages for a prompt, the most relevant first."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
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
                        }
                    ],
                    "text": "## Leave › Parents\n\n> Parents get fourteen weeks.",
                    "tokens": 17,
                    "left_out": 0,
                    "retrieval_id": A_RETRIEVAL,
                    "notes": [],
                }
            ]
        }
    )


class ContributionTold(AnswerPart, of=Contribution):
    """One leg's, or signal's, part of a score."""


class ExplanationTold(AnswerPart, of=Explanation):
    """How a hit got its score: the contributions add up to it."""


class SnippetTold(AnswerPart, of=Snippet):
    """The part of a hit's text that holds most of the query's words."""


class HitTold(AnswerPart, of=Hit):
    """An item that was found."""

    explanation: ExplanationTold | None = None
    """Left out where the request says `"explain": false`."""


class SearchAnswer(AnswerPart, of=SearchResult):
    """The hits, best first, and how they were found."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "hits": [
                        {
                            "item_id": "T-17",
                            "score": 0.03252,
                            "relevance": 0.81,
                            "rank": 1,
                            "slot": "exploit",
                            "propensity": 1.0,
                            "title": "Connection timeout",
                            "body": "The database refuses connections at peak hours.",
                            "kind": "",
                            "tags": ["urgent"],
                            "attributes": {"priority": "High"},
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
            ]
        }
    )


class TitleTold(AnswerPart, of=Title):
    """An item whose title holds what is being typed."""


class CompletionsTold(AnswerPart, of=Completions):
    """The completions of a text that is being typed."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "queries": ["connection timeout", "connection times"],
                    "titles": [{"item_id": "T-17", "title": "Connection timeout"}],
                }
            ]
        }
    )


class BatchAnswer(AnswerPart):
    """One result a query, in their order."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"results": []}]})

    results: list[SearchAnswer]
