"""Recorded searches, listed, told and replayed."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict
from pydantic.config import JsonDict

from retrieval.surfaces.http.models.base import A_RETRIEVAL, AnswerPart

_AT = "2026-05-31T12:00:00.123000+00:00"
_IMPRESSION: JsonDict = {
    "item_id": "T-17", "rank": 1, "score": 0.03252, "signals": {}, "slot": "exploit", "propensity": 1.0,
    "rank_propensity": 1.0, "pulls": 0.0,
}  # fmt: skip


class SummaryTold(AnswerPart):
    """A recorded search in a list."""

    retrieval_id: str
    retrieved_at: str
    query: str
    origin: str
    """What put the answer together, where that was an application; empty: a search."""
    actor: str
    session: str
    domain: str
    profile_version: int
    """0: the request brought its own."""
    path: str
    hits: int
    top_score: float | None
    retrieval_time_ms: float


class RetrievalPage(AnswerPart):
    """Recorded searches, the newest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"retrievals": [], "next": None}]})

    retrievals: list[SummaryTold]
    next: str | None
    """For the parameter `before` of the next page; null: this is the last."""


class ContextTold(AnswerPart):
    """The situation that a search was recorded with."""

    domain: str
    complexity: float | None
    actor: str
    session: str
    backtracks: int
    generated: bool


class ImpressionTold(AnswerPart):
    """A hit that was shown."""

    item_id: str
    rank: int
    score: float
    signals: dict[str, Any]
    """What made the score, by name."""
    slot: str
    propensity: float
    """The probability that the item was in the slate."""
    rank_propensity: float
    """The probability that it stood at this rank."""
    pulls: float
    """The decayed number of events known of it then."""


class RetrievalTold(AnswerPart):
    """A recorded search: what was asked, in what situation, how it was answered, what was shown."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
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
                        "domain": "", "complexity": None, "actor": "kim", "session": "s-17", "backtracks": 0,
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
            ]
        }
    )  # fmt: skip

    retrieval_id: str
    retrieved_at: str
    collection: str
    origin: str
    query: str
    is_by_vector: bool
    """Whether the caller gave a vector; otherwise the words were embedded."""
    where: dict[str, Any]
    """The filter; empty: none."""
    request: dict[str, Any]
    """The rest of what was asked."""
    context: ContextTold
    profile_version: int
    """0: the request brought its own."""
    model_version: int
    """Of the learned reward; 0: nothing learned counted."""
    policy: str
    """Name and version of the exploration policy."""
    path: str
    notes: list[str]
    timings_ms: dict[str, float]
    retrieval_time_ms: float
    candidates: int
    """How many are on record, for replay and comparisons."""
    impressions: list[ImpressionTold]


class DifferenceTold(AnswerPart):
    """An item that stands elsewhere today, or with another score."""

    item_id: str
    rank_then: int | None
    rank_now: int | None
    score_then: float | None
    score_now: float | None
    why: list[str]


class ReplayTold(AnswerPart):
    """Whether the recorded ranking follows from its record, and where and why today's answer differs."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
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
                            "item_id": "T-17", "rank_then": 1, "rank_now": None, "score_then": 0.03252,
                            "score_now": None, "why": ["the item was removed"],
                        }
                    ],
                }
            ]
        }
    )  # fmt: skip

    retrieval_id: str
    retrieved_at: str
    collection: str
    query: str
    is_reproduced: bool
    why_not: list[str]
    is_same_today: bool
    changes: list[str]
    """What has changed since for the whole search."""
    differences: list[DifferenceTold]
