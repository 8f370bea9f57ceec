"""Those who search and judge."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from retrieval.domain.context import MAX_NAME_LENGTH
from retrieval.surfaces.http.models.base import Sent, Told

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
    """To be looked up later."""


class EventsTold(Told):
    """What changed."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"events": 12}]})

    events: int
    """Events of feedback that count now, or no longer."""


class PseudonymTold(Told):
    """What bears the pseudonym now."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"pseudonym": "pseudonym-0d4c3b7e", "retrievals": 31, "feedback": 12}]}
    )

    pseudonym: str
    retrievals: int
    feedback: int
