"""Feedback: how good hits were, and how a task went."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from retrieval.adapters.aside import LONG, aside
from retrieval.domain.api_key import Scope
from retrieval.domain.feedback import Feedback, outcome_events
from retrieval.surfaces.http.caller import CurrentCaller, CurrentPlatform, needs
from retrieval.surfaces.http.json_bodies import JSONBodies
from retrieval.surfaces.http.models import feedback as models
from retrieval.surfaces.http.places import at

router = APIRouter(prefix="/v1", tags=["feedback"], dependencies=[needs(Scope.FEEDBACK)], route_class=JSONBodies)


@router.post("/feedback", response_model=models.FeedbackTold, summary="Say how good an item was")
async def feedback(caller: CurrentCaller, platform: CurrentPlatform, body: models.FeedbackEvent) -> JSONResponse:
    """Of a hit that a search showed, or of an item in a context. The same event counts once."""
    report = await platform.feedback_each([body.event()], api_key=caller.key)
    return JSONResponse(report.as_dict())


@router.post("/feedback/batch", response_model=models.FeedbackTold, summary="Say it of many items")
async def feedback_each(caller: CurrentCaller, platform: CurrentPlatform, body: models.FeedbackBatch) -> JSONResponse:
    """At most 10,000 events in one transaction: all are stored, or none and the first bad one is told."""
    events = await aside(
        lambda: [_event(place, one) for place, one in enumerate(body.events)], is_long=len(body.events) >= LONG
    )
    report = await platform.feedback_each(events, api_key=caller.key)
    return JSONResponse(report.as_dict())


@router.post("/outcome", response_model=models.FeedbackTold, summary="Say how a task went")
async def outcome(caller: CurrentCaller, platform: CurrentPlatform, body: models.Outcome) -> JSONResponse:
    """The items that the task used share the weight of one event."""
    events = outcome_events(
        body.retrieval_id, body.used, reward=body.reward, actor=body.actor, note=body.note, at=body.at
    )
    report = await platform.feedback_each(events, api_key=caller.key)
    return JSONResponse(report.as_dict())


def _event(place: int, sent: models.FeedbackEvent) -> Feedback:
    with at("events", place):
        return sent.event()
