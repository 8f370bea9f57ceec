"""Feedback: a reward for a hit that was shown, or for an item in a context, and its outcome."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import InitVar, dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha1
from uuid import UUID

from retrieval.domain import checks
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.item import MAX_KEY_BYTES
from retrieval.domain.learning.context import MAX_NAME_LENGTH, Context, checked_context
from retrieval.domain.records.retrieval_id import checked_id, time_of
from retrieval.domain.serialization import Serializable

MAX_NOTE_LENGTH = 10_000

MAX_AHEAD = timedelta(days=1)
"""The longest time by which an event's own time may lie after its arrival."""

LEAST_NUMBER = 1e-9
"""A reward or a weight below this is taken for 0."""

RATING, OUTCOME = "rating", "outcome"
"""The kinds of a verdict on an item, and of the outcome of a whole task, spread over the items it used."""

_NAMESPACE = UUID("3c0d6a5e-6f0b-5f43-9d0c-7f1f3a5f4b61")


@checks.checks_argument_names
@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """One event: of an impression (``retrieval_id``), or directly of an item of a ``collection`` in a context.

    Give either ``reward`` or ``helpful``. Raises ``InvalidRequestError`` for values that cannot be stored or contradict
    each other; see docs/concepts/feedback.md.
    """

    item_id: str
    retrieval_id: UUID | str | None = None
    """The search that showed the item; its context is the event's."""
    collection: str | None = None
    """The collection of the item; needed without a retrieval."""
    context: Context | None = None
    """The situation in which the item was used; for feedback without a retrieval."""
    reward: float = math.nan
    """0 to 1; a helpful item has 1, one that is not helpful 0."""
    helpful: InitVar[bool | None] = None
    kind: str = RATING
    """The sort of verdict: a rating, a click. One of each kind counts."""
    actor: str = ""
    """The user or agent that judges; else the context's actor."""
    session: str = ""
    """The conversation or run of the verdict; else the context's session."""
    note: str = ""
    at: datetime | None = None
    """The time of the event, with a time zone; None: the time of its arrival."""
    weight: float = 1.0
    """The weight of the verdict, 0 to 1."""
    of_session: bool = False
    """True if all verdicts of the session (and actor) on the item are one subject, whichever answer showed it."""
    key: UUID | str | None = None
    """The key that identifies repetitions: any text, unique for an item. None: derived, see ``own_key``."""

    def __post_init__(self, helpful: bool | None) -> None:
        put = object.__setattr__
        put(self, "reward", _reward(self.reward, helpful))
        put(self, "weight", _number("weight", self.weight))
        put(self, "retrieval_id", None if self.retrieval_id is None else checked_id(self.retrieval_id))
        checks.check_text("item_id", self.item_id, MAX_KEY_BYTES)
        if not 0 < len(self.item_id.encode()) <= MAX_KEY_BYTES:
            raise InvalidRequestError(
                f"item_id is {checks.written(self.item_id)}; it must be a text of 1 to {MAX_KEY_BYTES} bytes"
            )
        for name, most in (("kind", MAX_NAME_LENGTH), ("actor", MAX_NAME_LENGTH), ("session", MAX_NAME_LENGTH),
                           ("note", MAX_NOTE_LENGTH)):  # fmt: skip
            checks.check_text(name, getattr(self, name), most)
        if isinstance(self.context, Context):
            put(self, "actor", self.actor or self.context.actor)
            put(self, "session", self.session or self.context.session)
        if not self.kind:
            raise InvalidRequestError("kind is empty; leave it out for a rating, or name it, such as 'click'")
        if self.at is not None:
            checks.checked_time("at", self.at)
        if self.key is not None and not isinstance(self.key, UUID):
            checks.check_text("key", self.key, MAX_NOTE_LENGTH)
            if not self.key:
                raise InvalidRequestError("key is empty, so it would mean every verdict on the item; leave it out")
        self._check_place()

    def _check_place(self) -> None:
        if (self.retrieval_id is None) == (self.collection is None):
            raise InvalidRequestError(
                "feedback is of a retrieval's hit or directly of a collection's item: give retrieval_id or collection"
            )
        if self.collection is not None and not (checks.is_storable(self.collection) and self.collection):
            raise InvalidRequestError(f"collection is {checks.written(self.collection)}; it must be the name of one")
        if self.context is not None:
            checked_context(self.context)
        if self.context is not None and self.retrieval_id is not None:
            raise InvalidRequestError("a retrieval has its own context; leave context out, or retrieval_id")

    @property
    def retrieved_at(self) -> datetime | None:
        """The time of the search, read from its identifier (UUID, version 7); None: without such an identifier."""
        if not isinstance(self.retrieval_id, UUID) or self.retrieval_id.version != 7:
            return None
        return time_of(self.retrieval_id)

    @property
    def contexts(self) -> tuple[str, ...] | None:
        """The buckets that a direct event counts in; None: the retrieval's."""
        return None if self.retrieval_id is not None else (self.context or Context()).buckets()

    @property
    def subject(self) -> UUID | None:
        """The subject of the verdict and its owner: of several verdicts on one subject, the latest counts.

        Of an impression: retrieval, item, actor and kind. Directly: item, context, actor, session and kind. With
        ``of_session``: item, actor, session and kind. None: neither actor nor session is named, so each verdict counts
        by itself.
        """
        is_of_session = self.of_session and bool(self.session)
        if self.retrieval_id is not None and not is_of_session:
            return _derive_key("impression", str(self.retrieval_id), self.item_id, self.actor, self.kind)
        if not self.actor and not self.session:
            return None
        context = Context() if is_of_session else self.context or Context()
        return _derive_key("direct", self.item_id, list(context.buckets()), self.actor, self.session, self.kind)

    @property
    def own_key(self) -> UUID | None:
        """The key that identifies a repetition: given, or of subject, reward, weight and event time; None: neither."""
        return self.key_about(None if self.key is not None else self.subject)

    def key_about(self, subject: UUID | None) -> UUID | None:
        """``own_key`` for a caller that has computed the subject."""
        if isinstance(self.key, UUID):
            return self.key
        if self.key is not None:
            return _derive_key("key", self.key)
        if subject is None:
            return None
        when = None if self.at is None else self.at.astimezone(UTC).isoformat()
        return _derive_key("event", str(subject), self.reward, self.weight, when)

    def named(self) -> str:
        """The event in a message."""
        source = (
            f"retrieval {self.retrieval_id}"
            if self.retrieval_id is not None
            else f"collection {checks.written(self.collection)}"
        )
        return f"item {checks.written(self.item_id)} of {source}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackReport(Serializable):
    """The result of recording events."""

    recorded: int = 0
    """Stored now, whether they count or not."""
    repeated: int = 0
    """Stored before, by their key, maybe by an attempt of this call whose answer was lost; nothing was done."""
    superseding: int = 0
    """The recorded events that replaced an earlier verdict."""
    discounted: Mapping[str, int] = field(default_factory=dict)
    """The recorded events that do not count, by reason (``not shown``, ``over the daily cap``, ``quarantined``)."""

    def __add__(self, other: FeedbackReport) -> FeedbackReport:
        return FeedbackReport(
            recorded=self.recorded + other.recorded,
            repeated=self.repeated + other.repeated,
            superseding=self.superseding + other.superseding,
            discounted=dict(Counter(self.discounted) + Counter(other.discounted)),
        )


def outcome_events(
    retrieval_id: UUID | str, used: Iterable[str], *, reward: float, actor: str = "", note: str = "",
    at: datetime | None = None,
) -> list[Feedback]:  # fmt: skip
    """The outcome of a task, in equal shares, for the items it used. Raises ``InvalidRequestError`` for none."""
    items = list(dict.fromkeys(checks.checked_texts("used items", used, "['a', 'b']")))
    if not items:
        raise InvalidRequestError("an outcome is spread over the items that were used; name at least one")
    return [
        Feedback(
            retrieval_id=retrieval_id, item_id=item_id, reward=reward, kind=OUTCOME, actor=actor, note=note, at=at,
            weight=1 / len(items),
        )
        for item_id in items
    ]  # fmt: skip


def check_not_ahead(event: Feedback, now: datetime) -> None:
    """Raise ``InvalidRequestError`` for an event dated long after ``now``, which would outweigh all others."""
    if event.at is not None and event.at > now + MAX_AHEAD:
        raise InvalidRequestError(
            f"{event.named()}: at is {event.at.isoformat()}, which is in the future; correct the clock of its source"
        )


def _derive_key(*parts: object) -> UUID:
    # The same as uuid5, in half the time.
    digest = sha1(_NAMESPACE.bytes + json.dumps(parts).encode(), usedforsecurity=False).digest()
    return UUID(bytes=digest[:16], version=5)


def _reward(reward: object, helpful: object) -> float:
    is_absent = isinstance(reward, float) and math.isnan(reward)
    if helpful is None:
        if is_absent:
            raise InvalidRequestError("feedback needs reward, a number from 0 to 1, or helpful, true or false")
        return _number("reward", reward)
    if not is_absent:
        raise InvalidRequestError("give reward or helpful, not both")
    checks.check_flags(helpful=helpful)
    return float(bool(helpful))


def _number(name: str, value: object) -> float:
    number = checks.checked_number(name, value)
    return number if number >= LEAST_NUMBER else 0.0
