"""Checks and stores feedback, and reports the outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from retrieval.adapters.store.database import Database
from retrieval.adapters.store.learning.feedback import actors_of, quarantine_actor, record_feedback
from retrieval.adapters.tracing import span
from retrieval.domain.api_key import ApiKey
from retrieval.domain.checks import check_text, checked_list
from retrieval.domain.errors import (
    InvalidRequestError,
    RetrievalError,
    UnknownCollectionError,
    UnknownItemError,
    UnknownRetrievalError,
)
from retrieval.domain.learning.context import Context
from retrieval.domain.learning.feedback import MAX_NOTE_LENGTH, Feedback, FeedbackReport, check_not_ahead
from retrieval.domain.observer import Observer

MAX_EVENTS = 10_000
"""The most events of one call: a single statement locks the arms of all their items."""

_FRESH = timedelta(seconds=10)
"""The age up to which a search may still wait to be recorded by the process that answered it."""

_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Seconds between attempts while such a search is not recorded."""


async def take_feedback(
    database: Database,
    tenant_id: int,
    events: Sequence[Feedback],
    now: datetime,
    *,
    key: ApiKey | None = None,
    call_key: UUID | None = None,
    observer: Observer | None = None,
) -> FeedbackReport:
    """Store all events or none, and call the observer.

    ``key``: the API key of the request. ``call_key``: the same in all repetitions of a call, whose events count once.
    Raises ``UnknownRetrievalError``, ``UnknownCollectionError`` or ``UnknownItemError`` with the first unknown name,
    and ``InvalidRequestError`` for an event in the future, more than 10,000 events, or an event that names an actor
    although the key may not.
    """
    if key is not None and not isinstance(key, ApiKey):
        raise InvalidRequestError(f"api_key is a {type(key).__name__}; it must be an ApiKey")
    if call_key is not None and not isinstance(call_key, UUID):
        raise InvalidRequestError(f"call_key is a {type(call_key).__name__}; it must be a UUID")
    with span("retrieval.feedback") as feedback_span:
        if len(events) > MAX_EVENTS:
            raise InvalidRequestError(f"{len(events):,} events are more than {MAX_EVENTS:,}; send them in parts")
        for event in events:
            check_not_ahead(event, now)
        report = FeedbackReport()
        if events:
            report = await _record(database, tenant_id, events, now, key=key, call_key=call_key)
        if feedback_span is not None:
            feedback_span.set_attributes({"retrieval.tenant_id": tenant_id, "retrieval.events": len(events)})
    if observer is not None:
        observer.rewarded(report)
    return report


async def _record(
    database: Database,
    tenant_id: int,
    events: Sequence[Feedback],
    now: datetime,
    *,
    key: ApiKey | None,
    call_key: UUID | None,
) -> FeedbackReport:
    is_fresh = any(event.retrieved_at is not None and abs(now - event.retrieved_at) < _FRESH for event in events)
    pauses = iter(_PAUSES if is_fresh else ())
    key_id = "" if key is None else key.key_id
    while True:
        try:
            sent = events
            if key is not None and not key.may_name_actors:
                sent = await _attribute(database, tenant_id, events, key)
            report, refused = await record_feedback(database, tenant_id, sent, now, key_id=key_id, call_key=call_key)
            for position, reason in refused.items():
                raise refusal(reason, sent[position])
        except UnknownRetrievalError:
            # Another process may have answered the search, and stores its record in a moment.
            if (pause := next(pauses, None)) is None:
                raise
        else:
            return report
        await asyncio.sleep(pause)


async def _attribute(database: Database, tenant_id: int, events: Sequence[Feedback], key: ApiKey) -> list[Feedback]:
    """The events of a key that may not name actors, with the actor of the search, else the key's actor.

    Raises ``InvalidRequestError`` for an event with an actor, and ``UnknownRetrievalError``.
    """
    for event in events:
        if event.actor:
            raise InvalidRequestError(
                f"{event.named()}: a key with only the scope 'feedback' may not name an actor; leave actor out: the "
                "feedback then counts for the actor of the recorded search, or else for the key"
            )
    actors = await actors_of(database, tenant_id, events)
    for event in events:
        if event.retrieval_id is not None and str(event.retrieval_id) not in actors:
            raise refusal("unknown retrieval", event)
    return [replace(event, actor=actors.get(str(event.retrieval_id)) or key.actor) for event in events]


async def take_valid_feedback(
    database: Database, tenant_id: int, events: Sequence[Feedback], now: datetime
) -> tuple[FeedbackReport, list[tuple[int, RetrievalError]]]:
    """Store the valid events; also returns the positions of the others, from 0, each with its error."""
    refused: list[tuple[int, RetrievalError]] = []
    positions = []
    for position, event in enumerate(events):
        try:
            check_not_ahead(event, now)
        except InvalidRequestError as error:
            refused.append((position, error))
        else:
            positions.append(position)
    if not positions:
        return FeedbackReport(), refused
    valid = [events[position] for position in positions]
    report, problems = await record_feedback(database, tenant_id, valid, now, skip_refused=True)
    refused += [(positions[position], refusal(reason, valid[position])) for position, reason in problems.items()]
    return report, sorted(refused, key=lambda pair: pair[0])


def refusal(reason: str, event: Feedback) -> RetrievalError:
    """The error for an event that was refused for this reason."""
    match reason:
        case "unknown retrieval":
            return UnknownRetrievalError(
                f"{event.named()}: there is no such recorded search; give the retrieval_id of a search's result"
            )
        case "unknown collection":
            return UnknownCollectionError(f"{event.named()}: there is no such collection; check the name")
        case "unknown item":
            unshown = "it is none of the hits, or was removed since; give the id of a hit that is still stored"
            unstored = "there is no such item; check its id, or store it first"
            return UnknownItemError(f"{event.named()}: {unstored if event.retrieval_id is None else unshown}")
    return InvalidRequestError(
        f"{event.named()}: its time is more than 1,000 half-lives after the landmark of the arms; the job arms moves it"
    )


def checked_events(events: Iterable[Feedback]) -> list[Feedback]:
    """The events. Raises ``InvalidRequestError`` for anything else."""
    checked = checked_list("events", events, "[Feedback(...)]")
    for event in checked:
        if not isinstance(event, Feedback):
            raise InvalidRequestError(f"events are retrieval.Feedback values, not a {type(event).__name__}")
    return checked


def timed(events: Sequence[Feedback], now: datetime) -> list[Feedback]:
    """The events, each with a time: the present, in their order, for those without one."""
    return [
        event if event.at is not None else replace(event, at=now + timedelta(microseconds=position))
        for position, event in enumerate(events)
    ]


async def quarantine(database: Database, tenant_id: int, actor: str, reason: str = "", *, is_held: bool) -> int:
    """Exclude an actor's feedback, or include it again; returns the number of changed events."""
    check_text("reason", reason, MAX_NOTE_LENGTH)
    if not actor:
        raise InvalidRequestError("name an actor; feedback without one cannot be told apart")
    return await quarantine_actor(database, tenant_id, Context(actor=actor).actor, reason, is_held=is_held)
