"""Feedback, models and actors as they are sent and answered."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from retrieval.adapters.store.records.forgetting import Pseudonymised
from retrieval.domain.learning.context import MAX_NAME_LENGTH
from retrieval.domain.learning.feedback import RATING, Feedback, FeedbackReport
from retrieval.surfaces.http.models.base import A_RETRIEVAL, AnswerPart, Moment, RetrievalId, Sent, SentSituation

MAX_EVENTS = 10_000
"""Events in one batch."""

_EVENT: JsonDict = {"retrieval_id": A_RETRIEVAL, "item_id": "T-17", "helpful": True, "actor": "kim"}

Share = Annotated[float, Field(ge=0, le=1)]


class FeedbackEvent(Sent):
    """How good an item was: one that a search showed, or one of a collection in a context. `helpful` or `reward`."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EVENT]})

    item_id: str
    retrieval_id: RetrievalId | None = None
    """The search that showed the item; or name a `collection`."""
    collection: str | None = None
    """The item's collection, if no retrieval is named."""
    context: SentSituation | None = None
    """The situation in which the item was used; only with a collection."""
    helpful: bool | None = None
    reward: Share | None = None
    """0 to 1."""
    kind: str = RATING
    """The kind of verdict, such as a rating or a click. One of each kind counts."""
    actor: str = ""
    """The actor who judges; left out: the context's actor."""
    session: str = ""
    note: str = ""
    at: Moment | None = None
    """When it happened; left out: now."""
    weight: Share = 1.0
    """How much it counts, 0 to 1."""
    key: str | None = None
    """The key by which a repetition is recognised; left out: derived from the event."""

    def event(self) -> Feedback:
        """The same for the platform. Raises ``InvalidRequestError`` for what does not go together."""
        values = {name: getattr(self, name) for name in type(self).model_fields if name not in ("context", "reward")}
        context = None if self.context is None else self.context.context()
        return Feedback(**values, context=context, reward=math.nan if self.reward is None else self.reward)


class FeedbackBatch(Sent):
    """Many events: all are stored, or none."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"events": [_EVENT]}]})

    events: Annotated[list[FeedbackEvent], Field(max_length=MAX_EVENTS)]
    """At most 10,000."""


class TaskOutcome(Sent):
    """How a task went: the items it used share one event's weight."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"retrieval_id": A_RETRIEVAL, "used": ["T-17", "T-4"], "reward": 0.8}]}
    )

    retrieval_id: RetrievalId
    used: Annotated[list[str], Field(max_length=MAX_EVENTS)]
    """The items that were used."""
    reward: Share
    """0 to 1."""
    actor: str = ""
    note: str = ""
    at: Moment | None = None


class FeedbackTold(AnswerPart, of=FeedbackReport):
    """The outcome for the events."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"recorded": 1, "repeated": 0, "superseding": 0, "discounted": {}}]}
    )


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


class ModelTold(AnswerPart):
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


class ModelsTold(AnswerPart):
    """The models, the newest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"used": 3, "models": [_MODEL]}]})

    used: int
    """The version that searches use; 0: none."""
    models: list[ModelTold]


class ModelChoice(Sent):
    """The model that searches use."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"version": 0}]})

    version: Annotated[int, Field(ge=0, le=MAX_VERSION)] | None
    """The version that is used; 0: none; null: the latest that was published."""


class Learning(Sent):
    """How feedback counts; what is left out stays."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"half_life_days": 30, "daily_cap": 1000}]})

    half_life_days: Annotated[float, Field(json_schema_extra={"minimum": 1 / 24, "maximum": 36_500})] | None = None
    """The days in which a verdict loses half its weight."""
    daily_cap: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """How many verdicts of one actor count in a day."""


Actor = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH)]


class ActorNamed(Sent):
    """An actor, as its name was given with searches and feedback."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"actor": "ann@example.com"}]})

    actor: Actor


class Quarantine(Sent):
    """An actor whose feedback is to count no longer."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"actor": "bot-7", "reason": "spam"}]})

    actor: Actor
    reason: Annotated[str, Field(max_length=1000)] = ""
    """The reason, to be looked up later."""


class EventsTold(AnswerPart):
    """The events that changed."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"events": 12}]})

    events: int
    """Events of feedback that count now, or no longer."""


class PseudonymTold(AnswerPart, of=Pseudonymised):
    """The records that bear the pseudonym."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"pseudonym": "pseudonym-0d4c3b7e", "retrievals": 31, "feedback": 12}]}
    )
