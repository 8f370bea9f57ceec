"""What the verdicts on an item say of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from retrieval.domain.arm import rate
from retrieval.domain.signals.signal import Asked, Facts, Signal


@dataclass(frozen=True, slots=True, kw_only=True)
class Rating(Signal):
    """(good verdicts + 1) / (verdicts + 2) of all contexts, none of them decayed; .5 without any (see ``rate``)."""

    name: ClassVar[str] = "rating"
    reads: ClassVar[frozenset[str]] = frozenset({"verdicts"})
    weight: float = 1.0

    def value(self, facts: Facts, asked: Asked) -> float:
        """The rate, above 0 and below 1."""
        return rate(facts.raw_successes, facts.uses)
