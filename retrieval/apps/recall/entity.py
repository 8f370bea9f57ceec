"""What recall gives: one remembered thing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from retrieval.domain.hit import Hit


@dataclass(frozen=True, slots=True)
class Entity:
    """A remembered thing, as a search found it."""

    hit: Hit
    """The platform's hit, with the explanation of the score."""

    @classmethod
    def of(cls, hit: Hit) -> Self:
        """The entity of a hit."""
        return cls(hit)

    @property
    def id(self) -> str:
        """Its key."""
        return self.hit.item_id

    @property
    def name(self) -> str:
        """Its title."""
        return self.hit.title

    @property
    def entity_type(self) -> str:
        """What sort of thing it is."""
        return self.hit.kind

    @property
    def content(self) -> str:
        """Its text."""
        return self.hit.body

    @property
    def event_time(self) -> datetime | None:
        """When it happened."""
        return self.hit.occurred_at

    @property
    def attributes(self) -> Mapping[str, Any]:
        """JSON values by name."""
        return self.hit.attributes

    @property
    def score(self) -> float:
        """Higher is better; comparable within one answer only."""
        return self.hit.score
