"""Calls that take feedback: single events, many, a task's outcome, and whose feedback does not count."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from retrieval.adapters.store.database import Database
from retrieval.adapters.tracing import span
from retrieval.domain.context import Context
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.feedback import RATING
from retrieval.domain.observer import Observer

if TYPE_CHECKING:
    from retrieval.domain.api_key import ApiKey
    from retrieval.domain.feedback import Feedback, FeedbackReport


class FeedbackCalls(ABC):
    """The calls about feedback, for the platform to inherit; see docs/concepts/feedback.md."""

    observer: Observer | None = None
    """Who is told of searches and feedback; to be set before the platform is opened."""

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
        from retrieval.domain.feedback import Feedback

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
        from retrieval.domain.feedback import Feedback
        from retrieval.engine.feedback import take_feedback

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
        from retrieval.domain.feedback import outcome_events

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
