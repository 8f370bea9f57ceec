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
    """Events of the item itself, in just this context, that what is known is worth; without a model its ``uses`` + 2.

    ``sd`` is √(mean (1 - mean) / (effective_sample_size + 1)).
    """

    @property
    def uncertainty(self) -> float:
        """The largest ``sd`` that so many events leave, 0 to 0.5: no further event raises it."""
        return uncertainty_of(self.effective_sample_size)

    @classmethod
    def of_counts(cls, uses: int, successes: int) -> Self:
        """What raw counts alone say: Beta(successes + 1, failures + 1), so a mean of (successes + 1) / (uses + 2).

        More successes than uses, of counters that have drifted, count as if there were no failures.
        """
        a, b = successes + 1, max(uses - successes, 0) + 1
        return cls(
            mean=a / (a + b),
            sd=math.sqrt(a * b / ((a + b) ** 2 * (a + b + 1))),
            uses=uses,
            effective_sample_size=float(a + b),
        )


def uncertainty_of(effective_sample_size: float) -> float:
    """1 / (2 √(n + 1)): the standard deviation of a Beta distribution of the mean 0.5 that is worth n events.

    That of any other mean is smaller, and may rise with an event that surprises; this one depends on n alone.
    """
    return 0.5 / math.sqrt(effective_sample_size + 1.0)
