"""Feedback: what is said of hits and items, and what became of it."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from retrieval.domain.feedback import RATING, Feedback
from retrieval.surfaces.http.models.base import A_RETRIEVAL, Moment, RetrievalId, Sent, Situation, Told

MAX_EVENTS = 10_000
"""Events in one batch."""

_EVENT: JsonDict = {"retrieval_id": A_RETRIEVAL, "item_id": "T-17", "helpful": True, "actor": "kim"}

Share = Annotated[float, Field(ge=0, le=1)]


class FeedbackEvent(Sent):
    """How good an item was: one that a search showed, or one of a collection in a context. `helpful` or `reward`."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EVENT]})

    item_id: str
    retrieval_id: RetrievalId | None = None
    """Of the search that showed the item; or name a `collection`."""
    collection: str | None = None
    """Where the item is; said without a retrieval."""
    context: Situation | None = None
    """In what situation the item was used; said with a collection."""
    helpful: bool | None = None
    reward: Share | None = None
    """0 to 1."""
    kind: str = RATING
    """What sort of verdict it is: a rating, a click. One of each kind counts."""
    actor: str = ""
    """Who judges; else the context's actor."""
    session: str = ""
    note: str = ""
    at: Moment | None = None
    """When it happened; left out: now."""
    weight: Share = 1.0
    """How much it counts, 0 to 1."""
    key: str | None = None
    """What makes a repetition known; left out: derived from what is said."""

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


class Outcome(Sent):
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


class FeedbackTold(Told):
    """What became of the events."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"recorded": 1, "repeated": 0, "superseding": 0, "discounted": {}}]}
    )

    recorded: int
    """Stored now, whether they count or not."""
    repeated: int
    """Stored before, by their key; nothing was done."""
    superseding: int
    """Of the recorded: those that replaced an earlier verdict."""
    discounted: dict[str, int]
    """Of the recorded: those that do not count, by reason."""
