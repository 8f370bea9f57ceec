"""How relevant an item is whatever the question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from retrieval.domain.signals.signal import Asked, Facts, Signal


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseRelevance(Signal):
    """What its application says, brought into 0 to 1; 1 where it says nothing."""

    name: ClassVar[str] = "base_relevance"
    reads: ClassVar[frozenset[str]] = frozenset()

    def value(self, facts: Facts, asked: Asked) -> float:
        """The relevance, 0 to 1."""
        return min(1.0, max(0.0, facts.base_relevance))
