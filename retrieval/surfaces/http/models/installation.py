"""Health, findings and figures as they are answered."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from retrieval.domain.diagnosis import Severity
from retrieval.surfaces.http.models.base import AnswerPart


class Live(BaseModel):
    """That the process lives."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"status": "alive"}]})

    status: Literal["alive"]


class Checks(BaseModel):
    """How each part is: ``ok``, or what is wrong with it."""

    database: str
    schema_: str = Field(alias="schema")
    pool: str
    embedder: str
    language_model: str


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
                    },
                }
            ]
        }
    )

    status: Literal["ready", "degraded", "not ready"]
    checks: Checks


class FindingTold(AnswerPart):
    """One thing that was looked at."""

    check: str
    """What was looked at: `indexes`, `recall`, `connections`, ..."""
    severity: Severity
    about: str
    """Which of many it is: a collection, a table, a setting. Empty: the installation."""
    found: str
    mend: str
    """What to do: a command or SQL. Empty: nothing."""


class DiagnosisTold(AnswerPart):
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

    examined_at: str
    is_sound: bool
    """Whether nothing that was found is an error."""
    worst: Severity
    findings: list[FindingTold]


class IndexTold(AnswerPart):
    """An index for approximate search."""

    name: str
    valid: bool
    bytes: int
    rows: int
    """When PostgreSQL last counted them; -1: it has not yet."""


class RunTold(AnswerPart):
    """The last run of a job."""

    job: str
    started_at: str
    seconds: float | None
    outcome: str
    details: dict[str, Any]


class MeasurementTold(AnswerPart):
    """How much of the truth an index found, for searches whose filters let alike many items through."""

    bucket: str
    samples: int
    recall: float
    short_pages: int
    effort: int
    measured_at: str | None


class CollectionStateTold(AnswerPart):
    """How one collection stands."""

    name: str
    documents: int
    """Items that a search can find."""
    space: str | None
    """The embedding space; null: lexical search only."""
    pending: int
    """Items that wait for their vector."""
    weights_pending: bool
    """Whether BM25 weights wait to be computed again."""
    indexes: list[IndexTold]
    runs: list[RunTold]
    recall: list[MeasurementTold]
    unrecorded: dict[str, int]
    """Searches that were to be recorded and were not, by reason."""


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


class ColumnTold(AnswerPart):
    """A column of a view."""

    name: str
    type: str
    """As PostgreSQL calls it."""
    about: str


class ViewTold(AnswerPart):
    """What there is to ask."""

    name: str
    about: str
    columns: list[ColumnTold]


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
    """By column; times in ISO 8601."""
