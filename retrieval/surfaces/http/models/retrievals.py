"""Recorded searches, listed, told and replayed."""

from __future__ import annotations

from pydantic import ConfigDict
from pydantic.config import JsonDict

from retrieval.domain.learning.context import Context
from retrieval.domain.records.recorded import RecordedRetrieval, RetrievalSummary
from retrieval.domain.records.search_record import Impression
from retrieval.engine.replay import Difference, Replay
from retrieval.surfaces.http.models.base import A_RETRIEVAL, AnswerPart

_AT = "2026-05-31T12:00:00.123000+00:00"
_IMPRESSION: JsonDict = {
    "item_id": "T-17", "rank": 1, "score": 0.03252, "signals": {}, "slot": "exploit", "propensity": 1.0,
    "rank_propensity": 1.0, "pulls": 0.0,
}  # fmt: skip


class SummaryTold(AnswerPart, of=RetrievalSummary):
    """A recorded search in a list."""


class RetrievalPage(AnswerPart):
    """Recorded searches, the newest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"retrievals": [], "next": None}]})

    retrievals: list[SummaryTold]
    next: str | None
    """For the parameter `before` of the next page; null: this is the last."""


class ContextTold(AnswerPart, of=Context):
    """The situation that a search was recorded with."""


class ImpressionTold(AnswerPart, of=Impression):
    """A hit that was shown."""


class RetrievalTold(AnswerPart, of=RecordedRetrieval):
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


class DifferenceTold(AnswerPart, of=Difference):
    """An item that stands elsewhere today, or with another score."""


class ReplayTold(AnswerPart, of=Replay):
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
