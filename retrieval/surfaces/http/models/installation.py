"""Health, findings and figures as they are answered."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from retrieval.adapters.store.records.job_runs import JobRun
from retrieval.adapters.store.search.indexes import IndexStatus
from retrieval.adapters.store.search.recall import Measurement
from retrieval.domain.diagnosis import Diagnosis, Finding, Severity
from retrieval.domain.records.analytics import AnalyticsColumn, AnalyticsView
from retrieval.services.collections import CollectionStatus
from retrieval.services.reembed import Reembedding, ReembeddingCost
from retrieval.surfaces.http.models.base import AnswerPart, Sent


class Live(BaseModel):
    """The process lives."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"status": "alive"}]})

    status: Literal["alive"]


class Checks(BaseModel):
    """How each part is: ``ok``, or what is wrong with it."""

    database: str
    schema_: str = Field(alias="schema")
    pool: str
    embedder: str
    language_model: str
    reranker: str


class Ready(BaseModel):
    """Whether requests can be answered, and how each part is."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "status": "ready",
                    "checks": {
                        "database": "ok",
                        "schema": "ok",
                        "pool": "ok",
                        "embedder": "ok",
                        "language_model": "none",
                        "reranker": "none",
                    },
                }
            ]
        }
    )

    status: Literal["ready", "degraded", "not ready"]
    checks: Checks


_REEMBEDDING: JsonDict = {
    "collection": "tickets",
    "former": "minilm/all-MiniLM-L6-v2@1.0.0 (384)",
    "target": "openai/text-embedding-3-large (3072)",
    "state": "filling",
    "is_paused": False,
    "switching": "when asked",
    "items": 1200,
    "pending": 880,
    "batch_texts": 128,
    "tokens_a_minute": None,
    "tokens_a_day": 2_000_000,
    "spent_today": 41_200,
    "paid_tokens": 41_200,
    "paid_texts": 320,
    "comparison": None,
    "note": "",
    "started_at": "2026-05-31T12:00:00+00:00",
    "switched_at": None,
    "removes_at": None,
}
_COST: JsonDict = {
    "target": "openai/text-embedding-3-large (3072)",
    "items": 1200,
    "texts": 1187,
    "tokens": 152_300,
    "price": 0.0198,
    "vector_bytes": 15_345_600,
    "minutes": None,
    "days": 1,
}


class ReembedRequest(Sent):
    """The embedding space that a collection moves to, and how."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"to": "minilm", "tokens_a_day": 2_000_000}]})

    to: str | None = None
    """The embedder, as `RETRIEVAL_EMBEDDER` names it; left out: that of new collections."""
    dry_run: bool = False
    """Whether only the cost is told, and nothing begins."""
    price: float | None = None
    """The price of a million tokens, for the cost."""
    switch: bool = False
    """Whether it switches by itself once it is filled and compares well; else it waits to be told."""
    batch_texts: Annotated[int, Field(ge=1, le=128)] = 128
    """Texts embedded and stored at a time."""
    tokens_a_minute: Annotated[int, Field(ge=1)] | None = None
    tokens_a_day: Annotated[int, Field(ge=1)] | None = None
    """The budget of a day (UTC)."""
    keep_days: Annotated[float, Field(ge=0, le=3650)] = 7.0
    """How long the former space is kept after the switch."""


class ReembeddingCostTold(AnswerPart, of=ReembeddingCost):
    """The cost of moving a collection to another embedding space."""


class ReembeddingTold(AnswerPart, of=Reembedding):
    """How the re-embedding of a collection stands."""

    model_config = ConfigDict(json_schema_extra={"examples": [_REEMBEDDING]})


class ReembeddingBegun(BaseModel):
    """What the re-embedding costs, and how it stands."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"cost": _COST, "reembedding": _REEMBEDDING}]})

    cost: ReembeddingCostTold
    reembedding: ReembeddingTold | None = None
    """Left out: only the cost was asked for."""


class FindingTold(AnswerPart, of=Finding):
    """One thing that was looked at."""

    severity: Severity


class DiagnosisTold(AnswerPart, of=Diagnosis):
    """Everything that was looked at, the worst first."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "examined_at": "2026-05-31T12:00:00+00:00",
                    "is_sound": True,
                    "worst": "warning",
                    "findings": [
                        {
                            "check": "pending",
                            "severity": "warning",
                            "about": "tickets",
                            "found": "3 items of collection 'tickets' without a vector yet: only words find them",
                            "mend": "retrieval jobs run embed --collection tickets",
                        }
                    ],
                }
            ]
        }
    )

    worst: Severity


class IndexTold(AnswerPart, of=IndexStatus):
    """An index for approximate search."""


class RunTold(AnswerPart, of=JobRun):
    """The last run of a job."""


class MeasurementTold(AnswerPart, of=Measurement):
    """How much of the truth an index found, for searches whose filters let alike many items through."""


class CollectionStateTold(AnswerPart, of=CollectionStatus):
    """How one collection stands."""


class StatisticsTold(AnswerPart):
    """How each collection stands, by name."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "collections": [
                        {
                            "name": "tickets",
                            "documents": 1200,
                            "space": "openai/text-embedding-3-small/1536",
                            "pending": 0,
                            "weights_pending": False,
                            "indexes": [],
                            "runs": [],
                            "recall": [],
                            "unrecorded": {},
                        }
                    ]
                }
            ]
        }
    )

    collections: list[CollectionStateTold]


class ColumnTold(AnswerPart, of=AnalyticsColumn):
    """A column of a view."""


class ViewTold(AnswerPart, of=AnalyticsView):
    """A view that can be asked."""


class ViewsTold(AnswerPart):
    """The views, by name."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "views": [
                        {
                            "name": "latency",
                            "about": "How long searches took, by day.",
                            "columns": [{"name": "day", "type": "date", "about": ""}],
                        }
                    ]
                }
            ]
        }
    )

    views: list[ViewTold]


class FiguresTold(AnswerPart):
    """The rows of a view, most telling first."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "view": "poor_queries",
                    "columns": ["collection", "query", "searches"],
                    "rows": [{"collection": "tickets", "query": "vpn", "searches": 12}],
                }
            ]
        }
    )

    view: str
    columns: list[str]
    rows: list[dict[str, Any]]
    """The rows, by column; times in ISO 8601."""
