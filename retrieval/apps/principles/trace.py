"""A trace: what became of a session, and what it was about."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from retrieval.apps.principles.tags import normalised_tags
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.hit import Hit
from retrieval.domain.item import Item

KIND = "trace"
OUTCOME, NOTE, SESSION = "outcome", "note", "session"
"""The attributes that a trace is stored with."""

SUCCESS, FAILURE = "success", "failure"
"""Outcomes. Any other word is an application's own."""


_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a session went. Raises ``InvalidRequestError`` for an empty status, or what is no text."""

    status: str
    """``success``, ``failure``, or a word of one's own; stripped and casefolded."""
    note: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.status, str) or not self.status.strip():
            raise InvalidRequestError(f"outcome is {self.status!r:.80}; it must be a word such as {SUCCESS!r}")
        object.__setattr__(self, "status", self.status.strip().casefold())
        if not isinstance(self.note, str):
            raise InvalidRequestError(f"note is {self.note!r:.80}; it must be a text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A trace as it is stored."""

    id: str
    title: str
    tags: tuple[str, ...]
    outcome: Outcome
    at: datetime
    """When the session ended."""
    session: str = ""

    def item(self) -> Item:
        """As an item of the collection of traces. Raises ``InvalidRequestError`` for what cannot be stored."""
        return Item(
            item_id=self.id,
            kind=KIND,
            title=self.title,
            tags=self.tags,
            occurred_at=self.at,
            attributes={OUTCOME: self.outcome.status, NOTE: self.outcome.note, SESSION: self.session},
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values; times are ISO 8601."""
        return {
            "id": self.id,
            "title": self.title,
            "tags": list(self.tags),
            "outcome": self.outcome.status,
            "note": self.outcome.note,
            "at": self.at.isoformat(),
            "session": self.session,
        }

    @property
    def is_success(self) -> bool:
        """Whether it went well."""
        return self.outcome.status == SUCCESS


def outcome_of(outcome: Outcome | str, note: str) -> Outcome:
    """The outcome, given as one or as its status. Raises ``InvalidRequestError``."""
    return outcome if isinstance(outcome, Outcome) else Outcome(status=outcome, note=note)


def trace_of(one: Hit) -> Trace:
    """The trace that a hit of the collection of traces is."""
    given = one.attributes
    return Trace(
        id=one.item_id,
        title=one.title,
        tags=normalised_tags(one.tags),
        outcome=Outcome(status=str(given.get(OUTCOME) or FAILURE), note=str(given.get(NOTE) or "")),
        at=one.occurred_at or _EPOCH,
        session=str(given.get(SESSION) or ""),
    )
