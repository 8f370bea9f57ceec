"""How recent an item is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from retrieval.domain.signals.signal import Asked, Facts, Signal, checked_positive

SECONDS_A_DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recency(Signal):
    """e^(-days / decay_days): 1 now and for what is still to come, .37 after ``decay_days``; 0 without a time.

    The memory design calls its 14 days a half-life, and gives .7 after a week and .3 after a month as examples; its
    formula gives .61 and .12, and the formula holds. Half the value is reached after ``decay_days`` × ln 2.
    """

    name: ClassVar[str] = "recency"
    reads: ClassVar[frozenset[str]] = frozenset()
    decay_days: float = 14.0

    def __post_init__(self) -> None:
        Signal.__post_init__(self)
        checked_positive("decay_days of signal 'recency'", self.decay_days)

    def value(self, facts: Facts, asked: Asked) -> float:
        """The decayed recency, 0 to 1."""
        if facts.happened_at is None:
            return 0.0
        days = (asked.now - facts.happened_at).total_seconds() / SECONDS_A_DAY
        return math.exp(-max(days, 0.0) / self.decay_days)
