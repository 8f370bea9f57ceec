"""A principle: a lesson for an agent with its statistics, as an item of its collection, and back."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime

from retrieval.apps.probation import ACTIVE, CANDIDATE
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.item import Item
from retrieval.domain.learning.arm import Standing, rate
from retrieval.domain.search.hit import Hit

_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Principle:
    """A stored principle, with the statistics of its use."""

    id: str
    title: str
    body: str = ""
    tags: tuple[str, ...] = ()
    status: str = ACTIVE
    added_by: str = ""
    """The author that was named when it was added; may be empty."""
    created_at: datetime = field(default=_EPOCH)
    use_count: int = 0
    """Verdicts, at least 0."""
    success_count: int = 0
    """Verdicts of at least one half, 0 to ``use_count``."""
    last_used_at: datetime | None = None
    """The time of the last verdict; None: never judged."""

    @property
    def success_rate(self) -> float | None:
        """The share of good verdicts, 0 to 1; None: there are none."""
        return self.success_count / self.use_count if self.use_count else None

    @property
    def score(self) -> float:
        """The mean of Beta(successes + 1, failures + 1), above 0 and below 1; one half without verdicts."""
        return rate(self.success_count, self.use_count)


COLLECTION = "principles"
"""The default collection of principles."""


def traces_name(name: str) -> str:
    """The name of the collection that holds the traces of the sessions with these principles."""
    return f"{name}_traces"


SESSION_START = "session-start"
"""The recorded origin of the answers at the start of sessions."""

KIND = "principle"

IN_USE = (ACTIVE, CANDIDATE)
"""The statuses of principles that can be shown; failed principles are archived."""

_SLUG_CHARACTERS = 40
_HASH_CHARACTERS = 8


def principle_id_for(title: str, body: str) -> str:
    """A readable id: words of the title, and a hash of the text.

    Texts that differ only in case and white space have the same id.
    """
    text = f"{_in_one_line(title)}\n{_in_one_line(body)}".casefold()
    words = re.sub(r"[^a-z0-9]+", "-", title.casefold()).strip("-")[:_SLUG_CHARACTERS].strip("-")
    name = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:_HASH_CHARACTERS]
    return f"{words}-{name}" if words else name


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


def principle_item(
    principle_id: str | None,
    title: str,
    body: str,
    tags: tuple[str, ...],
    status: str,
    *,
    actor: str,
    created_at: datetime,
) -> Item:
    """The item; without a ``principle_id`` its id is made from the text.

    Raises ``InvalidRequestError`` for an empty title, and for a status other than ``IN_USE``.
    """
    for name, text in (("title", title), ("body", body)):
        if not isinstance(text, str):
            raise InvalidRequestError(f"{name} is {text!r:.80}; it must be a text")
    if not title.strip():
        raise InvalidRequestError("a principle needs a title: state the lesson in one sentence")
    if status not in IN_USE:
        raise InvalidRequestError(f"status is {status!r:.80}; it must be {' or '.join(IN_USE)}")
    return Item(
        item_id=principle_id_for(title, body) if principle_id is None else principle_id,
        kind=KIND,
        title=title.strip(),
        body=body.strip(),
        tags=tags,
        status=status,
        source=actor,
        occurred_at=created_at,
    )


def principle_of(item: Item | Hit, standing: Standing | None) -> Principle:
    """The principle of an item or a hit, with its statistics."""
    created_at = item.occurred_at or (standing.created_at if standing else None)
    return Principle(
        id=item.item_id,
        title=item.title,
        body=item.body,
        tags=item.tags,
        status=item.status,
        added_by=item.source,
        **({} if created_at is None else {"created_at": created_at}),
        use_count=standing.uses if standing else 0,
        success_count=standing.successes if standing else 0,
        last_used_at=standing.last_used_at if standing else None,
    )
