"""What recall stores and gives: one remembered thing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from retrieval.domain.errors import InvalidItemError
from retrieval.domain.hit import Explanation, Hit
from retrieval.domain.item import Item

NOTE = "note"
"""What sort of thing it is that nobody says more of."""

_UNFOUND = Explanation("none", ())
_KEY_LENGTH = 32
_UNNAMED = "(new)"


@dataclass(frozen=True, slots=True)
class Entity:
    """A remembered thing: made to be stored, or as a search found it.

    Raises ``InvalidItemError`` for one that is made without a name, or that no item could hold (see ``Item``).
    """

    name: str
    """Its title."""
    content: str
    """Its text."""
    entity_type: str = NOTE
    """What sort of thing it is."""
    id: str = ""
    """Its key. If none is given it follows from all else that is: what is stored twice is there once."""
    event_time: datetime | None = None
    """When it happened, with a time zone."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """JSON values by name."""
    hit: Hit | None = field(default=None, repr=False)
    """The platform's hit; None: no search found it."""

    def __post_init__(self) -> None:
        if self.hit is not None:
            return
        if not isinstance(self.name, str) or not self.name.strip():
            raise InvalidItemError(f"the name of an entity is {self.name!r:.80}; give a text, such as 'Ann'")
        if not self.id:
            key = self._item(_UNNAMED).content_hash.hex()[:_KEY_LENGTH]
            object.__setattr__(self, "id", key)
        self.as_item()

    @classmethod
    def of(cls, hit: Hit) -> Self:
        """The entity of a hit."""
        return cls(hit.title, hit.body, hit.kind, hit.item_id, hit.occurred_at, hit.attributes, hit)

    def as_item(self) -> Item:
        """The item that it is stored as; what was found keeps its tags, status and source."""
        return self._item(self.id)

    @property
    def score(self) -> float:
        """Higher is better; comparable within one answer only; 0 where no search found it."""
        return 0.0 if self.hit is None else self.hit.score

    @property
    def explanation(self) -> Explanation:
        """How it got its score; without parts where no search found it."""
        return _UNFOUND if self.hit is None else self.hit.explanation

    def _item(self, item_id: str) -> Item:
        found = self.hit
        return Item(
            item_id=item_id,
            title=self.name,
            body=self.content,
            kind=self.entity_type,
            attributes=self.attributes,
            occurred_at=self.event_time,
            tags=() if found is None else found.tags,
            status="active" if found is None else found.status,
            source="" if found is None else found.source,
        )
