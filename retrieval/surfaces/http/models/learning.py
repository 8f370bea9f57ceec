"""What was learned from feedback, and how feedback counts."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from retrieval.surfaces.http.models.base import Sent, Told

MAX_VERSION = 2**31 - 1

_MODEL: dict[str, Any] = {
    "version": 3,
    "kind": "logistic",
    "published": True,
    "reason": "better on held-out searches",
    "events": 4200,
    "metrics": {},
    "statistics_at": "2026-05-31T12:00:00+00:00",
    "created_at": "2026-05-31T12:00:04+00:00",
}


class ModelTold(Told):
    """A model of the learned reward."""

    version: int
    kind: str
    published: bool
    """Whether it was better than what it was to replace."""
    reason: str
    events: int
    """Verdicts that it was fitted on."""
    metrics: dict[str, Any]
    statistics_at: str
    created_at: str


class ModelsTold(Told):
    """The models, the newest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"used": 3, "models": [_MODEL]}]})

    used: int
    """The version that searches use; 0: none."""
    models: list[ModelTold]


class ModelChoice(Sent):
    """Which model searches use."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"version": 0}]})

    version: Annotated[int, Field(ge=0, le=MAX_VERSION)] | None
    """That one and no other; 0: none; null: the latest that was published."""


class Learning(Sent):
    """How feedback counts; what is left out stays."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"half_life_days": 30, "daily_cap": 1000}]})

    half_life_days: Annotated[float, Field(json_schema_extra={"minimum": 1 / 24, "maximum": 36_500})] | None = None
    """In how many days a verdict loses half its weight."""
    daily_cap: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """How many verdicts of one actor count in a day."""
