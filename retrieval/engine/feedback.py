"""Feedback is taken: checked, stored, and answered with what became of it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from retrieval.adapters.store.database import Database
from retrieval.adapters.store.learning.feedback import StoredOutcome, actors_of, record_feedback
from retrieval.adapters.tracing import span
from retrieval.domain.api_key import ApiKey
from retrieval.domain.errors import (
    InvalidRequestError,
    RetrievalError,
    UnknownCollectionError,
    UnknownItemError,
    UnknownRetrievalError,
)
from retrieval.domain.learning.context import Context
from retrieval.domain.learning.feedback import RATING, Feedback, FeedbackReport, check_not_ahead
from retrieval.domain.observer import Observer

MAX_EVENTS = 10_000
"""Events of one call: one statement, which holds the arms of all their items meanwhile."""

_STORED = {"recorded", "superseding", "superseded"}


async def take_feedback(
    database: Database, tenant_id: int, events: Sequence[Feedback], now: datetime, key: ApiKey | None = None
) -> FeedbackReport:
    """Store all events or none; ``key`` is the API key that they came by.

    Raises ``UnknownRetrievalError``, ``UnknownCollectionError`` or ``UnknownItemError`` naming the first event that is
    of something unknown, and ``InvalidRequestError`` for an event of the future, more than 10,000 of them, or one that
    names an actor where the key may not.
    """
    if len(events) > MAX_EVENTS:
        raise InvalidRequestError(f"{len(events):,} events are more than {MAX_EVENTS:,}; send them in parts")
    for event in events:
        check_not_ahead(event, now)
    if key is not None and not key.may_name_actors:
        events = await _attributed(database, tenant_id, events, key)
    key_id = "" if key is None else key.key_id
    outcomes = await record_feedback(database, tenant_id, events, now, key_id=key_id) if events else []
    for outcome in outcomes:
        error = refusal(outcome, events[outcome.place])
        if error is not None:
            raise error
    return reported(outcomes)


async def _attributed(database: Database, tenant_id: int, events: Sequence[Feedback], key: ApiKey) -> list[Feedback]:
    """The events of a key that may not name actors: each its search's actor's, else the key's own."""
    for event in events:
        if event.actor:
            raise InvalidRequestError(
                f"{event.named()}: a key with the scope 'feedback' alone names no actor; leave actor out, and the "
                "feedback is that of the actor whom the search was recorded for, else the key's own"
            )
    actors = await actors_of(database, tenant_id, events)
    return [replace(event, actor=actors.get(str(event.retrieval_id)) or key.actor) for event in events]


async def take_what_can_be(
    database: Database, tenant_id: int, events: Sequence[Feedback], now: datetime
) -> tuple[FeedbackReport, list[tuple[int, RetrievalError]]]:
    """Store the events that can be; gives also the places of the others, from 0, each with its error."""
    refused: list[tuple[int, RetrievalError]] = []
    places = []
    for place, event in enumerate(events):
        try:
            check_not_ahead(event, now)
        except InvalidRequestError as error:
            refused.append((place, error))
        else:
            places.append(place)
    kept = [events[place] for place in places]
    outcomes = await record_feedback(database, tenant_id, kept, now, skip_refused=True) if kept else []
    for outcome in outcomes:
        reason = refusal(outcome, kept[outcome.place])
        if reason is not None:
            refused.append((places[outcome.place], reason))
    return reported(outcomes), sorted(refused, key=lambda one: one[0])


def reported(outcomes: Sequence[StoredOutcome]) -> FeedbackReport:
    """The counts of what became of events; the refused are none of them."""
    stored = [outcome for outcome in outcomes if outcome.what in _STORED]
    return FeedbackReport(
        recorded=len(stored),
        repeated=sum(outcome.what == "repeated" for outcome in outcomes),
        superseding=sum(outcome.what == "superseding" for outcome in stored),
        discounted=dict(Counter(outcome.discounted for outcome in stored if outcome.discounted)),
    )


def refusal(outcome: StoredOutcome, event: Feedback) -> RetrievalError | None:
    """Gives the reason why the event is not stored; None: it is stored."""
    match outcome.what:
        case "unknown retrieval":
            return UnknownRetrievalError(
                f"{event.named()}: there is no such recorded search; give the retrieval_id of a search's result, "
                "or the collection instead"
            )
        case "unknown collection":
            return UnknownCollectionError(f"{event.named()}: there is no such collection; check the name")
        case "unknown item":
            return UnknownItemError(f"{event.named()}: there is no such item; check its id, or store it first")
        case "too far from the landmark":
            return InvalidRequestError(
                f"{event.named()}: it happened more than 1,000 half-lives after the landmark of the arms; "
                "run: retrieval jobs run arms"
            )
    return None


class FeedbackCalls(ABC):
    """The calls about feedback, for the platform to inherit; see docs/concepts/feedback.md."""

    observer: Observer | None = None
    """The observer that is told of searches and feedback; set it before the platform is opened."""

    @property
    @abstractmethod
    def database(self) -> Database:
        """The open database."""

    @property
    @abstractmethod
    def tenant_id(self) -> int:
        """The tenant's number in the database."""

    @property
    @abstractmethod
    def now(self) -> datetime:
        """The time of day, in UTC."""

    @abstractmethod
    async def recorded(self) -> None:
        """Return once every search that was answered so far is recorded."""

    async def feedback(
        self,
        retrieval_id: UUID | str | None = None,
        item_id: str = "",
        *,
        helpful: bool | None = None,
        reward: float | None = None,
        collection: str | None = None,
        context: Context | None = None,
        kind: str = RATING,
        actor: str = "",
        session: str = "",
        note: str = "",
        at: datetime | None = None,
        weight: float = 1.0,
        key: UUID | str | None = None,
    ) -> FeedbackReport:
        """Say how good an item was: one that a search showed, or one of a ``collection`` in a ``context``.

        Say ``helpful`` or ``reward`` (0 to 1); ``Feedback`` has the rest. A call that is repeated counts once, and a
        later verdict of the same kind and actor replaces the earlier one, whichever arrives first. Raises
        ``UnknownRetrievalError``, ``UnknownCollectionError``, ``UnknownItemError`` and ``InvalidRequestError``.
        """
        from retrieval.domain.learning.feedback import Feedback

        event = Feedback(
            retrieval_id=retrieval_id, item_id=item_id, collection=collection, context=context, helpful=helpful,
            reward=math.nan if reward is None else reward, kind=kind, actor=actor, session=session, note=note, at=at,
            weight=weight, key=key,
        )  # fmt: skip
        return await self.feedback_each([event])

    async def feedback_each(self, events: Iterable[Feedback], *, api_key: ApiKey | None = None) -> FeedbackReport:
        """Say it of many, at most 10,000, in one statement: all are stored, or none and the first bad one is raised.

        ``api_key`` is what the events came by: its cap holds for them, and what it may say of actors. Raises what
        ``feedback`` raises.
        """
        from retrieval.domain.learning.feedback import Feedback

        given = list(events)
        for event in given:
            if not isinstance(event, Feedback):
                raise InvalidRequestError(f"events are retrieval.Feedback values, not a {type(event).__name__}")
        if any(event.retrieval_id is not None for event in given):
            await self.recorded()
        with span("retrieval.feedback") as traced:
            report = await take_feedback(self.database, self.tenant_id, given, self.now, api_key)
            if traced is not None:
                traced.set_attributes({"retrieval.tenant_id": self.tenant_id, "retrieval.events": len(given)})
        if self.observer is not None:
            self.observer.rewarded(report)
        return report

    async def outcome(
        self,
        retrieval_id: UUID | str,
        used: Iterable[str],
        *,
        reward: float,
        actor: str = "",
        note: str = "",
        at: datetime | None = None,
    ) -> FeedbackReport:
        """Say how a task went: the items it used share one event's weight, under the kind ``outcome``."""
        from retrieval.domain.learning.feedback import outcome_events

        return await self.feedback_each(
            outcome_events(retrieval_id, used, reward=reward, actor=actor, note=note, at=at)
        )

    async def quarantine(self, actor: str, *, reason: str = "") -> int:
        """Keep what an actor says, and said, from counting; gives how many events stopped doing so."""
        from retrieval.adapters.store.learning.feedback import quarantine_actor

        return await quarantine_actor(self.database, self.tenant_id, _checked(actor), reason, is_held=True)

    async def release(self, actor: str) -> int:
        """Let an actor's feedback count again, with the weights that were given; gives how many events do."""
        from retrieval.adapters.store.learning.feedback import quarantine_actor

        return await quarantine_actor(self.database, self.tenant_id, _checked(actor), "", is_held=False)


def _checked(actor: str) -> str:
    if not actor:
        raise InvalidRequestError("name an actor; feedback without one cannot be told apart")
    return Context(actor=actor).actor
