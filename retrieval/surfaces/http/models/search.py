"""Searches: what is asked, and what was found."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from retrieval.surfaces.http.models.base import (
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
    """What this filter lets through ranks higher; nothing is left out. Up to 4 come in a list, the most preferred
    first: the second's rankings weigh half, the third's a third."""
    entities: dict[str, Texts] | None = None
    """What the question is about, by type."""
    tags: Texts = Field(default_factory=list)
    """What the question is about, by tag."""
    as_of: Moment | None = None
    """The moment that signals take as now."""
    about: Vector | None = None
    """Tells the question's cluster where `vector` does not."""
    snippet: Annotated[int, Field(ge=20, le=2000)] | None = None
    """The characters of a part of each hit's text with the query's words marked; left out: none."""
    facets: Texts = Field(default_factory=list)
    """Fields, at most 10, whose values are counted among all items that the filter lets through."""
    after: str | None = None
    """For pages of `limit` hits: `""` for the first, then `next` of the page before, with the same question."""
    typos: bool = False
    """Whether words that no item holds are taken for the known words that they are nearest to, or begin; `notes` tells."""
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
    context: SentSituation = SentSituation()
    explain: bool = True


class ContributionTold(AnswerPart):
    """One leg's, or signal's, part of a score."""

    leg: str
    rank: int
    """The item's rank in that leg, from 1."""
    raw_score: float
    """The leg's own score: cosine similarity, BM25."""
    weight: float
    value: float
    """What it adds to the score."""


class ExplanationTold(AnswerPart):
    """How a hit got its score: the contributions add up to it."""

    fusion: str
    score: float
    contributions: list[ContributionTold]


class SnippetTold(AnswerPart):
    """The part of a hit's text that holds most of the query's words."""

    text: str
    """Plain text, with an ellipsis where it is cut."""
    highlights: list[list[int]]
    """Where the query's words begin and end in the text, in characters."""
    html: str
    """The text, escaped for a page, with the query's words in `<mark>`."""


class HitTold(AnswerPart):
    """An item that was found."""

    item_id: str
    score: float
    """Higher is better; comparable within one search only."""
    rank: int
    """From 1."""
    slot: str
    """`exploit`, or `explore` or `swap` where the item stands there to learn about it."""
    propensity: float
    """The probability that it was shown at all, above 0 and at most 1."""
    title: str
    body: str
    kind: str
    tags: list[str]
    attributes: dict[str, Any]
    status: str
    source: str
    occurred_at: str | None
    """ISO 8601."""
    explanation: ExplanationTold | None = None
    """Left out where the request says `"explain": false`."""
    snippet: SnippetTold | None = None
    """Left out where the request asks for none."""


class SearchAnswer(AnswerPart):
    """The hits, best first, and how they were found."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "hits": [
                        {
                            "item_id": "T-17",
                            "score": 0.03252,
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
                }
            ]
        }
    )

    hits: list[HitTold]
    path: str
    """`exact`: every matching vector was compared; `approximate`: an index was walked; `none`: no dense leg ran."""
    why: str
    """Why that path was taken, in words."""
    weighed: int
    """Rows that the dense leg weighed."""
    profile_version: int | None
    """The stored profile that answered; null when the request brought its own."""
    notes: list[str]
    """What the caller should know: a leg that could not run and why."""
    why_no_hits: list[str]
    """Where there are no hits: which part of the filter lets nothing through, and what is near; not in a batch."""
    timings_ms: dict[str, float]
    """Milliseconds by stage."""
    retrieval_id: str | None
    """Under which the search is recorded, for feedback and replay; null: it is not."""
    next: str | None = None
    """Of a search by pages, what the next page is asked for with; left out on the last."""
    facets: dict[str, dict[str, int]] | None = None
    """Items by value of each field that was asked for, the most frequent first; left out where none was."""


class TitleTold(AnswerPart):
    """An item whose title holds what is being typed."""

    item_id: str
    title: str


class CompletionsTold(AnswerPart):
    """What a text that is being typed could become."""

    queries: list[str]
    """The text with its last word completed, by how many items hold that word."""
    titles: list[TitleTold]
    """Items with such a title: first those that begin with the text, then those that hold its last word."""


class BatchAnswer(AnswerPart):
    """One result a query, in their order."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"results": []}]})

    results: list[SearchAnswer]
