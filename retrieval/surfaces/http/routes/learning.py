"""Feedback, learned models and actors: routes and models."""

from __future__ import annotations

import math
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from retrieval.adapters.aside import LONG, aside
from retrieval.adapters.store.learning.models import is_model_chosen
from retrieval.adapters.store.records.forgetting import Pseudonymised
from retrieval.collection import Collection, handle_of
from retrieval.domain.api_key import Scope
from retrieval.domain.learning.context import MAX_NAME_LENGTH
from retrieval.domain.learning.feedback import RATING, Feedback, FeedbackReport, outcome_events
from retrieval.surfaces.http.caller import CurrentCaller, CurrentPlatform, NamedCollection, needs
from retrieval.surfaces.http.json_bodies import JSONBodies, at
from retrieval.surfaces.http.models import A_RETRIEVAL, AnswerPart, Moment, RetrievalId, Sent, SentSituation

MAX_EVENTS = 10_000
"""Events in one batch."""

_EVENT: JsonDict = {"retrieval_id": A_RETRIEVAL, "item_id": "T-17", "helpful": True, "actor": "kim"}

Share = Annotated[float, Field(ge=0, le=1)]


class FeedbackEvent(Sent):
    """A verdict on an item that a search showed, or on an item of a collection in a context: `helpful` or `reward`."""

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
    """The actor that judges; left out: the context's actor."""
    session: str = ""
    note: str = ""
    at: Moment | None = None
    """The time of the event; left out: now."""
    weight: Share = 1.0
    """The weight of the event, 0 to 1."""
    key: str | None = None
    """The key by which a repetition is recognised; left out: derived from the event."""

    def event(self) -> Feedback:
        """The same value for the platform. Raises ``InvalidRequestError`` for members that exclude each other."""
        values = {name: getattr(self, name) for name in type(self).model_fields if name not in ("context", "reward")}
        context = None if self.context is None else self.context.context()
        return Feedback(**values, context=context, reward=math.nan if self.reward is None else self.reward)


class FeedbackBatch(Sent):
    """Many events: all are stored, or none."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"events": [_EVENT]}]})

    events: Annotated[list[FeedbackEvent], Field(max_length=MAX_EVENTS)]
    """A list of at most 10,000."""


class TaskOutcome(Sent):
    """The outcome of a task: the items that it used share the weight of one event."""

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
    """Whether it was better than the model that it was to replace."""
    reason: str
    events: int
    """Verdicts that it was fitted on."""
    metrics: dict[str, Any]
    statistics_at: str
    created_at: str


class ModelsTold(AnswerPart):
    """The models, the newest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"used": 3, "chosen": False, "models": [_MODEL]}]})

    used: int
    """The version that searches use; 0: none."""
    chosen: bool
    """Whether somebody chose it, so that it stays in use until another is chosen, or the latest."""
    models: list[ModelTold]


class ModelChoice(Sent):
    """The model that searches use."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"version": 0}]})

    version: Annotated[int, Field(ge=0, le=MAX_VERSION)] | None
    """The version that is used; 0: none; null: the latest that was published."""


class Learning(Sent):
    """The rules by which feedback counts; a field that is left out stays as it is."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"half_life_days": 30, "daily_cap": 1000}]})

    half_life_days: Annotated[float, Field(json_schema_extra={"minimum": 1 / 24, "maximum": 36_500})] | None = None
    """The days in which a verdict loses half its weight."""
    daily_cap: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """The number of verdicts of one actor that count in a day."""


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


feedback_router = APIRouter(
    prefix="/v1", tags=["feedback"], dependencies=[needs(Scope.FEEDBACK)], route_class=JSONBodies
)


@feedback_router.post("/feedback", response_model=FeedbackTold, summary="Say how good an item was")
async def feedback(caller: CurrentCaller, platform: CurrentPlatform, body: FeedbackEvent) -> JSONResponse:
    """Takes feedback on a hit that a search showed, or on an item in a context. The same event counts once."""
    report = await platform.feedback_each([body.event()], api_key=caller.key)
    return JSONResponse(report.as_dict())


@feedback_router.post("/feedback/batch", response_model=FeedbackTold, summary="Say it of many items")
async def feedback_each(caller: CurrentCaller, platform: CurrentPlatform, body: FeedbackBatch) -> JSONResponse:
    """Store at most 10,000 events in one transaction: all, or none, and the answer names the first bad one."""
    events = await aside(
        lambda: [_event(place, event) for place, event in enumerate(body.events)], is_long=len(body.events) >= LONG
    )
    report = await platform.feedback_each(events, api_key=caller.key)
    return JSONResponse(report.as_dict())


@feedback_router.post("/outcome", response_model=FeedbackTold, summary="Say how a task went")
async def outcome(caller: CurrentCaller, platform: CurrentPlatform, body: TaskOutcome) -> JSONResponse:
    """The items that the task used share the weight of one event."""
    events = outcome_events(
        body.retrieval_id, body.used, reward=body.reward, actor=body.actor, note=body.note, at=body.at
    )
    report = await platform.feedback_each(events, api_key=caller.key)
    return JSONResponse(report.as_dict())


def _event(place: int, sent: FeedbackEvent) -> Feedback:
    with at("events", place):
        return sent.event()


router = APIRouter(prefix="/v1/collections/{name}", tags=["feedback"], route_class=JSONBodies)

_READ, _ADMIN = [needs(Scope.READ)], [needs(Scope.ADMIN)]


@router.get("/models", dependencies=_READ, response_model=ModelsTold, summary="List what was learned")
async def list_models(collection: NamedCollection) -> JSONResponse:
    """The models of the learned reward, the newest first, and which of them searches use."""
    return JSONResponse(await _models(collection))


@router.put("/model", dependencies=_ADMIN, response_model=ModelsTold, summary="Choose what is used of it")
async def use_model(collection: NamedCollection, body: ModelChoice) -> JSONResponse:
    """Search with that version and no other, with none, or with the latest again."""
    await collection.use_model(body.version)
    return JSONResponse(await _models(collection))


@router.put("/learning", dependencies=_ADMIN, status_code=204, summary="Say how feedback counts")
async def set_learning(collection: NamedCollection, body: Learning) -> Response:
    """Set the half-life of verdicts, and the number of one actor's verdicts that count in a day."""
    with at("half_life_days"):  # the model has checked the other
        await collection.set_learning(half_life_days=body.half_life_days, daily_cap=body.daily_cap)
    return Response(status_code=204)


async def _models(collection: Collection) -> dict[str, object]:
    found, info = await collection.models(), await collection.info()
    chosen = await is_model_chosen(*await handle_of(collection).place())
    return {"used": info.model_version, "chosen": chosen, "models": [model.as_dict() for model in found]}


# Names are in the body, because paths are logged.
actors_router = APIRouter(
    prefix="/v1/actors", tags=["feedback"], dependencies=[needs(Scope.ADMIN)], route_class=JSONBodies
)


@actors_router.post("/pseudonymise", response_model=PseudonymTold, summary="Make a name a pseudonym")
async def pseudonymise(platform: CurrentPlatform, body: ActorNamed) -> JSONResponse:
    """Replaces a name in recorded searches and feedback by a random pseudonym: nothing leads back to the name."""
    return JSONResponse((await platform.pseudonymise(body.actor)).as_dict())


@actors_router.post("/quarantine", response_model=EventsTold, summary="Keep an actor's feedback from counting")
async def quarantine(platform: CurrentPlatform, body: Quarantine) -> JSONResponse:
    """Leaves out an actor's past and future events. The events are kept."""
    return JSONResponse({"events": await platform.quarantine(body.actor, reason=body.reason)})


@actors_router.post("/release", response_model=EventsTold, summary="Let an actor's feedback count again")
async def release(platform: CurrentPlatform, body: ActorNamed) -> JSONResponse:
    """The end of a quarantine."""
    return JSONResponse({"events": await platform.release(body.actor)})
