"""How many of the question's entities an item is linked to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from retrieval.domain.signals.signal import Asked, Facts, Signal


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityOverlap(Signal):
    """Entities of the question that the item is linked to / entities of the question; 0 where it names none."""

    name: ClassVar[str] = "entity"
    reads: ClassVar[frozenset[str]] = frozenset()

    def compares(self, asked: Asked) -> bool:
        """Whether the question names entities."""
        return bool(asked.entities)

    def value(self, facts: Facts, asked: Asked) -> float:
        """The share, 0 to 1."""
        return len(asked.entities & facts.entities) / len(asked.entities) if asked.entities else 0.0
