"""How near a candidate's vector is to the query's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from retrieval.domain.signals.signal import Asked, Facts, Signal


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorSimilarity(Signal):
    """The cosine of the two vectors; 0 where it is negative, or one of them is missing."""

    name: ClassVar[str] = "vector_similarity"
    reads: ClassVar[frozenset[str]] = frozenset()

    def compares(self, asked: Asked) -> bool:
        """Whether the question has a vector."""
        return asked.has_vector

    def value(self, facts: Facts, asked: Asked) -> float:
        """The cosine, 0 to 1."""
        return min(1.0, max(0.0, facts.cosine)) if facts.cosine is not None else 0.0
