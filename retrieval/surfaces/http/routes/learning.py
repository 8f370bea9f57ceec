"""The routes of feedback, models and actors."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from retrieval.adapters.aside import LONG, aside
from retrieval.collection import Collection
from retrieval.domain.api_key import Scope
from retrieval.domain.learning.feedback import Feedback, outcome_events
from retrieval.surfaces.http.caller import CurrentCaller, CurrentPlatform, NamedCollection, needs
from retrieval.surfaces.http.json_bodies import JSONBodies, at
from retrieval.surfaces.http.models import learning as models

feedback_router = APIRouter(
    prefix="/v1", tags=["feedback"], dependencies=[needs(Scope.FEEDBACK)], route_class=JSONBodies
)


@feedback_router.post("/feedback", response_model=models.FeedbackTold, summary="Say how good an item was")
async def feedback(caller: CurrentCaller, platform: CurrentPlatform, body: models.FeedbackEvent) -> JSONResponse:
    """Takes feedback on a hit that a search showed, or on an item in a context. The same event counts once."""
    report = await platform.feedback_each([body.event()], api_key=caller.key)
    return JSONResponse(report.as_dict())


@feedback_router.post("/feedback/batch", response_model=models.FeedbackTold, summary="Say it of many items")
async def feedback_each(caller: CurrentCaller, platform: CurrentPlatform, body: models.FeedbackBatch) -> JSONResponse:
    """At most 10,000 events in one transaction: all are stored, or none and the first bad one is told."""
    events = await aside(
        lambda: [_event(place, one) for place, one in enumerate(body.events)], is_long=len(body.events) >= LONG
    )
    report = await platform.feedback_each(events, api_key=caller.key)
    return JSONResponse(report.as_dict())


@feedback_router.post("/outcome", response_model=models.FeedbackTold, summary="Say how a task went")
async def outcome(caller: CurrentCaller, platform: CurrentPlatform, body: models.TaskOutcome) -> JSONResponse:
    """The items that the task used share the weight of one event."""
    events = outcome_events(
        body.retrieval_id, body.used, reward=body.reward, actor=body.actor, note=body.note, at=body.at
    )
    report = await platform.feedback_each(events, api_key=caller.key)
    return JSONResponse(report.as_dict())


def _event(place: int, sent: models.FeedbackEvent) -> Feedback:
    with at("events", place):
        return sent.event()


router = APIRouter(prefix="/v1/collections/{name}", tags=["feedback"], route_class=JSONBodies)

_READ, _ADMIN = [needs(Scope.READ)], [needs(Scope.ADMIN)]


@router.get("/models", dependencies=_READ, response_model=models.ModelsTold, summary="List what was learned")
async def list_models(collection: NamedCollection) -> JSONResponse:
    """The models of the learned reward, the newest first, and which of them searches use."""
    return JSONResponse(await _models(collection))


@router.put("/model", dependencies=_ADMIN, response_model=models.ModelsTold, summary="Choose what is used of it")
async def use_model(collection: NamedCollection, body: models.ModelChoice) -> JSONResponse:
    """Search with that version and no other, with none, or with the latest again."""
    await collection.use_model(body.version)
    return JSONResponse(await _models(collection))


@router.put("/learning", dependencies=_ADMIN, status_code=204, summary="Say how feedback counts")
async def set_learning(collection: NamedCollection, body: models.Learning) -> Response:
    """How fast verdicts fade, and how many of one actor count in a day."""
    if body.half_life_days is not None:
        with at("half_life_days"):
            await collection.set_half_life(body.half_life_days)
    if body.daily_cap is not None:
        await collection.set_daily_cap(body.daily_cap)
    return Response(status_code=204)


async def _models(collection: Collection) -> dict[str, object]:
    found, info = await collection.models(), await collection.info()
    return {"used": info.model_version, "models": [one.as_dict() for one in found]}


# Names are in the body: what stands in a path ends up in logs.
actors_router = APIRouter(
    prefix="/v1/actors", tags=["feedback"], dependencies=[needs(Scope.ADMIN)], route_class=JSONBodies
)


@actors_router.post("/pseudonymise", response_model=models.PseudonymTold, summary="Make a name a pseudonym")
async def pseudonymise(platform: CurrentPlatform, body: models.ActorNamed) -> JSONResponse:
    """Replaces a name in recorded searches and feedback by a random pseudonym: nothing leads back to the name."""
    return JSONResponse((await platform.pseudonymise(body.actor)).as_dict())


@actors_router.post("/quarantine", response_model=models.EventsTold, summary="Keep an actor's feedback from counting")
async def quarantine(platform: CurrentPlatform, body: models.Quarantine) -> JSONResponse:
    """Leaves out an actor's past and future events. The events are kept."""
    return JSONResponse({"events": await platform.quarantine(body.actor, reason=body.reason)})


@actors_router.post("/release", response_model=models.EventsTold, summary="Let an actor's feedback count again")
async def release(platform: CurrentPlatform, body: models.ActorNamed) -> JSONResponse:
    """The end of a quarantine."""
    return JSONResponse({"events": await platform.release(body.actor)})
