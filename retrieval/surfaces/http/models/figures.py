"""Figures: how the collections stand, and what searches and feedback tell."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict

from retrieval.surfaces.http.models.base import Told


class IndexTold(Told):
    """An index for approximate search."""

    name: str
    valid: bool
    bytes: int
    rows: int
    """When PostgreSQL last counted them; -1: it has not yet."""


class RunTold(Told):
    """The last run of a job."""

    job: str
    started_at: str
    seconds: float | None
    outcome: str
    details: dict[str, Any]


class MeasurementTold(Told):
    """How much of the truth an index found, for searches whose filters let alike many items through."""

    bucket: str
    samples: int
    recall: float
    short_pages: int
    effort: int
    measured_at: str | None


class CollectionTold(Told):
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


class StatisticsTold(Told):
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

    collections: list[CollectionTold]


class ColumnTold(Told):
    """A column of a view."""

    name: str
    type: str
    """As PostgreSQL calls it."""
    about: str


class ViewTold(Told):
    """What there is to ask."""

    name: str
    about: str
    columns: list[ColumnTold]


class ViewsTold(Told):
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


class FiguresTold(Told):
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
