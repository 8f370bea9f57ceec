"""What the models have in common: names are exact, types are JSON's, and each field says what it is."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, WithJsonSchema

from retrieval.domain.items.embedding import MAX_DIMENSIONS
from retrieval.domain.learning.context import MAX_BACKTRACKS, MAX_NAME_LENGTH, Context
from retrieval.engine.request import MAX_PREFERRED


class Sent(BaseModel):
    """A part of a request: a name that it does not have is refused, and so is a text for a number."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)


class AnswerPart(BaseModel):
    """A part of an answer. It describes what is sent; nothing is checked against it while serving."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


def _time_of(value: Any) -> Any:
    """A time of its text; a number would be taken for seconds since 1970."""
    if not isinstance(value, str):
        raise ValueError("give a time with a time zone, such as 2026-05-31T12:00:00Z")
    return datetime.fromisoformat(value)


Moment = Annotated[AwareDatetime, BeforeValidator(_time_of), Field(examples=["2026-05-31T12:00:00Z"])]
"""ISO 8601 with a time zone."""

Where = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "description": 'A filter, such as {"priority": "High"}: see docs/concepts/filters.md.',
            "examples": [{"priority": ["High", "Critical"], "hours": {"gte": 1, "lt": 24}}],
        }
    ),
]
"""A filter as the mapping that ``retrieval.domain.search.filters`` reads."""


def _preferences(value: Any) -> Any:
    """One filter or several, told apart here: of a union each half would have an error of its own."""
    if not all(isinstance(one, dict) for one in (value if isinstance(value, list) else [value])):
        raise ValueError('give a filter such as {"priority": "High"}, or a list of filters')
    return value


Preferences = Annotated[
    dict[str, Any] | list[dict[str, Any]],
    PlainValidator(_preferences),
    WithJsonSchema(
        {
            "anyOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}, "maxItems": MAX_PREFERRED}],
            "description": "A filter, or several, the most preferred first: see docs/concepts/filters.md.",
            "examples": [{"priority": "High"}, [{"priority": "Critical"}, {"priority": "High"}]],
        }
    ),
]
"""What is preferred, as ``Collection.search`` takes it."""

InlineProfile = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "description": "A profile: see docs/reference/profiles.md.",
            "examples": [{"legs": {"dense": 0.6, "lexical": 0.4}, "fusion": {"kind": "weighted_sum"}}],
        }
    ),
]
"""A profile as ``Profile.from_dict`` reads it."""

Vector = Annotated[list[float], Field(max_length=MAX_DIMENSIONS, fail_fast=True)]
"""Shape (dimensions of the collection's embedding space,)."""

A_RETRIEVAL = "01a2014b-b29b-73d6-8b76-213aa0d89193"

RetrievalId = Annotated[str, Field(json_schema_extra={"format": "uuid"}, examples=[A_RETRIEVAL])]
"""As a search's result has it."""

Name = Annotated[str, Field(max_length=MAX_NAME_LENGTH)]


class SentSituation(Sent):
    """Who asks, and in what situation. Everything is optional."""

    domain: Name = ""
    """What the question is about, in the application's own words."""
    complexity: Annotated[float, Field(ge=0, le=1)] | None = None
    """How hard the problem is, 0 to 1."""
    actor: Name = ""
    """Who asks: a user, an agent."""
    session: Name = ""
    """What belongs together: a conversation, a run."""
    backtracks: Annotated[int, Field(ge=0, le=MAX_BACKTRACKS)] = 0
    """How often the caller has come back for another answer to the same problem."""
    generated: bool = False
    """Whether the caller had candidates made by a model for this problem."""

    def context(self) -> Context:
        """The same for the platform. Raises ``InvalidRequestError``."""
        return Context(**self.model_dump())
