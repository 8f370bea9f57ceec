"""Traces: the outcomes and tags of sessions, and the collection that holds them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from retrieval.apps.principles.principle import normalised_tags
from retrieval.domain.checks import written
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.item import Item
from retrieval.domain.search.hit import Hit
from retrieval.domain.search.profile import Fusion, FusionKind, Profile
from retrieval.domain.search.profile_parts import Recording
from retrieval.domain.search.signals import Recency

LATEST_PROFILE = Profile(
    legs={"recent": 1.0},
    fusion=Fusion(kind=FusionKind.UNION),
    signals=(Recency(weight=1.0, decay_days=7.0),),
    recording=Recording(rate=0.0),
)
"""The latest traces. Not recorded, because without a query there is nothing to judge."""


KIND = "trace"
OUTCOME, NOTE, SESSION = "outcome", "note", "session"
"""The attributes that a trace is stored with."""

SUCCESS, FAILURE = "success", "failure"
"""The outcomes with a meaning here. An application may use other words too."""


_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a session. Raises ``InvalidRequestError`` for a status that is empty or not a text."""

    status: str
    """``success``, ``failure`` or another word; stripped and casefolded."""
    note: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.status, str) or not self.status.strip():
            raise InvalidRequestError(f"outcome is {written(self.status)}; it must be a word such as {SUCCESS!r}")
        object.__setattr__(self, "status", self.status.strip().casefold())
        if not isinstance(self.note, str):
            raise InvalidRequestError(f"note is {written(self.note)}; it must be a text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A stored trace."""

    id: str
    title: str
    tags: tuple[str, ...]
    outcome: Outcome
    at: datetime
    """The time when the session ended."""
    session: str = ""

    def item(self) -> Item:
        """The trace as an item. Raises ``InvalidRequestError`` if it cannot be stored."""
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


def trace_of(hit: Hit) -> Trace:
    """The trace of a hit in the collection of traces."""
    attributes = hit.attributes
    return Trace(
        id=hit.item_id,
        title=hit.title,
        tags=normalised_tags(hit.tags),
        outcome=Outcome(status=str(attributes.get(OUTCOME) or FAILURE), note=str(attributes.get(NOTE) or "")),
        at=hit.occurred_at or _EPOCH,
        session=str(attributes.get(SESSION) or ""),
    )
