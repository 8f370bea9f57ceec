"""Feedback, learned models and actors: routes and models."""

from __future__ import annotations

import math
from typing import Annotated

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field
from pydantic.config import JsonDict

from retrieval.adapters.aside import LONG, aside
from retrieval.adapters.store.learning.models import StoredModel, is_model_chosen
from retrieval.adapters.store.records.forgetting import Pseudonymised
from retrieval.collection import Collection, handle_of
from retrieval.domain.learning.context import MAX_NAME_LENGTH
from retrieval.domain.learning.feedback import RATING, Feedback, FeedbackReport, outcome_events
from retrieval.domain.search.profile import MAX_VERSION
from retrieval.surfaces.http.caller import (
    AdminCollection,
    AdminPlatform,
    FeedbackPlatform,
    ReadCollection,
    caller_of,
    write_of,
)
from retrieval.surfaces.http.json_bodies import JSONAnswer, JSONBodies, at
from retrieval.surfaces.http.models import A_RETRIEVAL, AnswerPart, Moment, RetrievalId, Sent, SentSituation, model_of

MAX_EVENTS = 10_000
"""The greatest number of events in one batch."""

_EVENT: JsonDict = {"retrieval_id": A_RETRIEVAL, "item_id": "T-17", "helpful": True, "actor": "kim"}

Share = Annotated[float, Field(ge=0, le=1)]


class FeedbackEvent(Sent, examples=[_EVENT]):
    """A verdict (`helpful` or `reward`) on a hit of a search, or on an item of a collection in a context."""

    item_id: str
    retrieval_id: RetrievalId | None = None
    """The search that returned the item; otherwise give a `collection`."""
    collection: str | None = None
    """The item's collection, if there is no `retrieval_id`."""
    context: SentSituation | None = None
    """The situation in which the item was used; only with a collection."""
    helpful: bool | None = None
    reward: Share | None = None
    """0 to 1."""
    kind: str = RATING
    """The kind of verdict, such as a rating or a click. Of each kind only the last verdict counts."""
    actor: str = ""
    """The actor that judges; left out: the context's actor."""
    session: str = ""
    note: str = ""
    at: Moment | None = None
    """The time of the event; left out: now."""
    weight: Share = 1.0
    """The weight of the event, 0 to 1."""
    key: str | None = None
    """The key that identifies repetitions of the event; left out: derived from the event."""

    def event(self) -> Feedback:
        """The event for the platform. Raises ``InvalidRequestError`` for members that exclude each other."""
        context = None if self.context is None else self.context.context()
        reward = math.nan if self.reward is None else self.reward
        return Feedback(**dict(self) | {"context": context, "reward": reward})


class FeedbackBatch(Sent, examples=[{"events": [_EVENT]}]):
    """Many events: all or none are stored."""

    events: Annotated[list[FeedbackEvent], Field(max_length=MAX_EVENTS)]
    """A list of at most 10,000."""


class TaskOutcome(Sent, examples=[{"retrieval_id": A_RETRIEVAL, "used": ["T-17", "T-4"], "reward": 0.8}]):
    """The outcome of a task; the items that it used share the weight of one event."""

    retrieval_id: RetrievalId
    used: Annotated[list[str], Field(max_length=MAX_EVENTS)]
    """The items that were used."""
    reward: Share
    """0 to 1."""
    actor: str = ""
    note: str = ""
    at: Moment | None = None


class LearnedModels(AnswerPart):
    """The models, the newest first."""

    used: int
    """The version that searches use; 0: none."""
    chosen: bool
    """Whether somebody chose it, so that it stays in use until another is chosen, or the latest."""
    models: list[StoredModel]


class ModelChoice(Sent, examples=[{"version": 0}]):
    """The model that searches use."""

    version: Annotated[int, Field(ge=0, le=MAX_VERSION)] | None
    """The version to use; 0: none; null: the newest one while it passes its trial."""


class Learning(Sent, examples=[{"half_life_days": 30, "daily_cap": 1000}]):
    """The rules by which feedback counts; a field that is left out stays unchanged."""

    half_life_days: Annotated[float, Field(json_schema_extra={"minimum": 1 / 24, "maximum": 36_500})] | None = None
    """The days in which a verdict loses half its weight."""
    daily_cap: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """The number of verdicts of one actor that count in a day."""


Actor = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH)]


class ActorNamed(Sent, examples=[{"actor": "ann@example.com"}]):
    """An actor, by its name in searches and feedback."""

    actor: Actor


class Quarantine(Sent, examples=[{"actor": "bot-7", "reason": "spam"}]):
    """An actor whose feedback shall not count."""

    actor: Actor
    reason: Annotated[str, Field(max_length=1000)] = ""
    """The reason, for the record."""


class Events(AnswerPart):
    """The number of events that changed."""

    events: int
    """The number of feedback events that start or stop counting."""


feedback_router = APIRouter(prefix="/v1", tags=["feedback"], route_class=JSONBodies)


@feedback_router.post("/feedback", response_model=model_of(FeedbackReport), summary="Give feedback on an item")
async def feedback(request: Request, platform: FeedbackPlatform, body: FeedbackEvent) -> JSONAnswer:
    """Record feedback on a hit of a search, or on an item in a context. The same event counts once."""
    report = await platform.feedback_each([body.event()], api_key=caller_of(request).key, call_key=write_of(request))
    return JSONAnswer(report.as_dict())


@feedback_router.post("/feedback/batch", response_model=model_of(FeedbackReport), summary="Give feedback on many items")
async def feedback_each(request: Request, platform: FeedbackPlatform, body: FeedbackBatch) -> JSONAnswer:
    """Store at most 10,000 events in one transaction: all or none; an error names the first invalid event."""
    events = await aside(
        lambda: [_event(index, event) for index, event in enumerate(body.events)], is_long=len(body.events) >= LONG
    )
    report = await platform.feedback_each(events, api_key=caller_of(request).key, call_key=write_of(request))
    return JSONAnswer(report.as_dict())


@feedback_router.post("/outcome", response_model=model_of(FeedbackReport), summary="Report the outcome of a task")
async def outcome(request: Request, platform: FeedbackPlatform, body: TaskOutcome) -> JSONAnswer:
    """Record the outcome of a task; the items that it used share the weight of one event."""
    report = await platform.feedback_each(outcome_events(**dict(body)), api_key=caller_of(request).key)
    return JSONAnswer(report.as_dict())


def _event(index: int, event: FeedbackEvent) -> Feedback:
    with at("events", index):
        return event.event()


router = APIRouter(prefix="/v1/collections/{name}", tags=["feedback"], route_class=JSONBodies)


@router.get("/models", response_model=LearnedModels, summary="List the learned models")
async def list_models(collection: ReadCollection) -> JSONAnswer:
    """The models of the learned reward, the newest first, and which of them searches use."""
    return JSONAnswer(await _models(collection))


@router.put("/model", response_model=LearnedModels, summary="Choose the model to use")
async def use_model(collection: AdminCollection, body: ModelChoice) -> JSONAnswer:
    """Use this version in searches, or none, or always the newest that passes its trial."""
    await collection.use_model(body.version)
    return JSONAnswer(await _models(collection))


@router.put("/learning", status_code=204, summary="Set how feedback counts")
async def set_learning(collection: AdminCollection, body: Learning) -> Response:
    """Set the half-life of verdicts, and the number of one actor's verdicts that count in a day."""
    with at("half_life_days"):  # the model has checked the other field
        await collection.set_learning(**dict(body))
    return Response(status_code=204)


async def _models(collection: Collection) -> dict[str, object]:
    found, info = await collection.models(), await collection.info()
    chosen = await is_model_chosen(await handle_of(collection).place())
    return {"used": info.model_version, "chosen": chosen, "models": [model.as_dict() for model in found]}


# Names are in the body, because paths are logged.
actors_router = APIRouter(prefix="/v1/actors", tags=["feedback"], route_class=JSONBodies)


@actors_router.post("/pseudonymise", response_model=model_of(Pseudonymised), summary="Pseudonymise an actor")
async def pseudonymise(platform: AdminPlatform, body: ActorNamed) -> JSONAnswer:
    """Replace a name in recorded searches and feedback by a random pseudonym, which cannot be reversed."""
    return JSONAnswer((await platform.pseudonymise(body.actor)).as_dict())


@actors_router.post("/quarantine", response_model=Events, summary="Stop counting an actor's feedback")
async def quarantine(platform: AdminPlatform, body: Quarantine) -> JSONAnswer:
    """Exclude an actor's past and future events. The events are kept."""
    return JSONAnswer({"events": await platform.quarantine(**dict(body))})


@actors_router.post("/release", response_model=Events, summary="Count an actor's feedback again")
async def release(platform: AdminPlatform, body: ActorNamed) -> JSONAnswer:
    """End an actor's quarantine."""
    return JSONAnswer({"events": await platform.release(body.actor)})
