"""An arm: the verdicts on an item within a context bucket, and its expected reward. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Self

from retrieval.domain.learning.context import ANYWHERE


class Arm(NamedTuple):
    """The statistics of one item in one context bucket, as of one moment."""

    successes: float = 0.0
    """Σ weight × reward × 2^(-age / half-life): decayed, at least 0."""
    failures: float = 0.0
    """Σ weight × (1 - reward) × 2^(-age / half-life): decayed, at least 0."""
    uses: int = 0
    """Events that count, each as one, whatever its age."""
    raw_successes: int = 0
    """The uses with a reward of at least 0.5."""
    last_used_at: datetime | None = None

    @property
    def pulls(self) -> float:
        """The decayed number of events."""
        return self.successes + self.failures


NO_ARM = Arm()


def rate(successes: int, uses: int) -> float:
    """(successes + 1) / (uses + 2), above 0 and below 1: Laplace's rule of succession; .5 without uses."""
    return (successes + 1) / (uses + 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemArms:
    """An item with its arms in the buckets of one context."""

    item_id: str
    arms: Mapping[str, Arm] = field(default_factory=dict)
    """The arms by bucket (see ``Context.buckets``); a bucket that is missing was never used."""
    cluster: int | None = None
    """The embedding cluster of the item; None: not known."""
    created_at: datetime | None = None
    """The time when the item was stored first."""

    @property
    def anywhere(self) -> Arm:
        """The item over all contexts."""
        return self.arms.get(ANYWHERE, NO_ARM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """An item's verdicts in all contexts, as raw counts: nothing fades."""

    item_id: str
    created_at: datetime
    """The time when the item was stored first."""
    uses: int
    """Verdicts that count."""
    successes: int
    """The uses with a reward of at least 0.5."""
    last_used_at: datetime | None
    """The time of the latest of them; None: there is none."""


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
    """The number of own events in this context that would give the same certainty; without a model ``uses`` + 2."""

    @property
    def uncertainty(self) -> float:
        """The largest possible ``sd`` after that number of events, 0 to 0.5: no further event raises it."""
        return 0.5 / math.sqrt(self.effective_sample_size + 1.0)

    @classmethod
    def of_counts(cls, uses: int, successes: int) -> Self:
        """The expectation from raw counts alone: Beta(successes + 1, failures + 1)."""
        a, b = successes + 1, max(uses - successes, 0) + 1
        return cls(
            mean=a / (a + b),
            sd=math.sqrt(a * b / ((a + b) ** 2 * (a + b + 1))),
            uses=uses,
            effective_sample_size=float(a + b),
        )
