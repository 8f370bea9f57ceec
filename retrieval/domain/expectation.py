"""What an item is expected to earn, and how sure that is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """The reward of one item in one context."""

    mean: float
    """The expected reward, 0 to 1."""
    sd: float
    """Its standard deviation: how far the true rate may lie from the mean, 0 to 0.5."""
    uses: int
    """Verdicts on the item that count, in all contexts, each as one."""
    effective_sample_size: float
    """Events of the item itself, in just this context, that what is known is worth; without a model its ``uses``."""

    @classmethod
    def of_counts(cls, uses: int, successes: int) -> Self:
        """What raw counts alone say: Beta(successes + 1, failures + 1), so a mean of (successes + 1) / (uses + 2)."""
        a, b = successes + 1, uses - successes + 1
        return cls(
            mean=a / (a + b),
            sd=math.sqrt(a * b / ((a + b) ** 2 * (a + b + 1))),
            uses=uses,
            effective_sample_size=float(uses),
        )
