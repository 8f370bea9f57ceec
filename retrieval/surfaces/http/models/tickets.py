"""Tickets: what the application's own models do not say."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

from retrieval.apps.tickets import PreviewConfig
from retrieval.surfaces.http.models.base import AnswerPart

SEARCH_EXAMPLE = {
    "title": "Database connection timeout",
    "description": "Users experiencing timeouts during peak hours",
    "domain_filter": "MM",
    "top_k": 10,
    "vector_weight": 0.8,
    "metadata_weight": 0.2,
}

ANSWER_EXAMPLE = {
    "similar_tickets": [
        {
            "ticket_id": "MM-42",
            "title": "Connection pool exhausted",
            "description": "The service reached its limit of connections.",
            "similarity_score": 0.888,
            "vector_similarity": 0.92,
            "metadata_score": 0.76,
            "priority": "High",
            "labels": ["Code Fix"],
            "resolution_time_hours": 30.0,
            "domain": "MM",
            "resolution": "A larger pool, and an alarm.",
            "resolution_time_known": True,
        }
    ],
    "search_metadata": {
        "query_domain": "MM",
        "total_found": 1,
        "avg_similarity": 0.888,
        "top_similarity": 0.888,
        "index_total": 300,
    },
    "config_used": {"top_k": 10, "domain_filter": "MM", "vector_weight": 0.8, "metadata_weight": 0.2},
}

PREVIEW_EXAMPLE = {
    "query": "Database connection timeout",
    "domain": "MM",
    "candidates": 1,
    "baseline": "balanced",
    "previews": [
        {
            "weighting": {
                "name": "balanced",
                "vector_weight": 0.7,
                "metadata_weight": 0.3,
                "priority_weights": None,
                "time_normalization_hours": None,
            },
            "tickets": [],
            "entered": [],
            "left": [],
            "summary": "balanced (0.7 similarity, 0.3 metadata): 0 of 1 stand elsewhere, 0 came in and 0 went out",
        }
    ],
}


class TicketPreviewRequest(BaseModel):
    """A ticket whose similar ones are ranked under several weightings; the search is not recorded."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        json_schema_extra={
            "examples": [
                {
                    "title": "Connection timeout",
                    "domain": "MM",
                    "config": {"vector_weight": 0.6, "metadata_weight": 0.4},
                }
            ]
        },
    )

    title: str
    description: str = ""
    domain: str | None = None
    """Only tickets of this domain."""
    config: PreviewConfig | None = None
    """The weights to compare; left out: the service's own and the four presets. A list names presets."""

    @field_validator("config", mode="before")
    @classmethod
    def _names(cls, given: Any) -> Any:
        return {"weightings": given} if isinstance(given, list | str) else given


class HealthTold(AnswerPart):
    """How the index of tickets is."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "status": "healthy",
                    "component": "retrieval",
                    "collection": "tickets",
                    "index_loaded": True,
                    "total_vectors": 300,
                    "dimension": 3072,
                    "pending": 0,
                }
            ]
        }
    )

    status: str
    """`healthy` or `unhealthy`."""
    component: str
    collection: str
    index_loaded: bool
    total_vectors: int | None = None
    dimension: int | None = None
    pending: int | None = None
    """Tickets that wait for their vector."""
    error: str | None = None
    error_type: str | None = None


class StatsTold(AnswerPart):
    """The contents of the index of tickets."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "total_vectors": 300,
                    "dimension": 3072,
                    "domain_distribution": {"MM": 120, "CIW": 100, "Specialty": 80},
                    "metadata_entries": 300,
                }
            ]
        }
    )

    total_vectors: int
    dimension: int | None
    """Null without an embedding space."""
    domain_distribution: dict[str, int]
    """Tickets by domain; without one under the empty name."""
    metadata_entries: int
