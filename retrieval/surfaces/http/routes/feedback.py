"""Feedback: how good hits were, and how a task went."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from retrieval.adapters.aside import LONG, aside
from retrieval.domain.api_key import Scope
from retrieval.domain.feedback import Feedback
from retrieval.surfaces.http.caller import CurrentPlatform, needs
from retrieval.surfaces.http.large_bodies import LargeBodies
from retrieval.surfaces.http.models import feedback as models
from retrieval.surfaces.http.places import at

router = APIRouter(prefix="/v1", tags=["feedback"], dependencies=[needs(Scope.FEEDBACK)], route_class=LargeBodies)


@router.post("/feedback", response_model=models.FeedbackTold, summary="Say how good an item was")
async def feedback(platform: CurrentPlatform, body: models.FeedbackEvent) -> JSONResponse:
    """Of a hit that a search showed, or of an item in a context. The same event counts once."""
    report = await platform.feedback_each([body.event()])
    return JSONResponse(report.as_dict())


@router.post("/feedback/batch", response_model=models.FeedbackTold, summary="Say it of many items")
async def feedback_each(platform: CurrentPlatform, body: models.FeedbackBatch) -> JSONResponse:
    """At most 10,000 events in one transaction: all are stored, or none and the first bad one is told."""
    events = await aside(
        lambda: [_event(place, one) for place, one in enumerate(body.events)], is_long=len(body.events) >= LONG
    )
    report = await platform.feedback_each(events)
    return JSONResponse(report.as_dict())


@router.post("/outcome", response_model=models.FeedbackTold, summary="Say how a task went")
async def outcome(platform: CurrentPlatform, body: models.Outcome) -> JSONResponse:
    """The items that the task used share the weight of one event."""
    report = await platform.outcome(
        body.retrieval_id, body.used, reward=body.reward, actor=body.actor, note=body.note, at=body.at
    )
    return JSONResponse(report.as_dict())


def _event(place: int, sent: models.FeedbackEvent) -> Feedback:
    with at("events", place):
        return sent.event()
