"""An arm: an item within a context bucket, and what is known of how it fared there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from retrieval.domain.context import ANYWHERE


class Arm(NamedTuple):
    """The statistics of one item in one context bucket, as of one moment."""

    successes: float = 0.0
    """Σ weight × reward × 2^(-age / half-life): decayed, at least 0."""
    failures: float = 0.0
    """Σ weight × (1 - reward) × 2^(-age / half-life): decayed, at least 0."""
    uses: int = 0
    """Events that count, each as one, whatever its age."""
    raw_successes: int = 0
    """Of those, the ones with a reward of at least 0.5."""
    last_used_at: datetime | None = None
    """The time of the latest of them."""

    @property
    def pulls(self) -> float:
        """The decayed number of events."""
        return self.successes + self.failures


NO_ARM = Arm()
"""An item that was never used."""


def rate(successes: int, uses: int) -> float:
    """(successes + 1) / (uses + 2), above 0 and below 1; .5 without uses.

    The mean of Beta(successes + 1, failures + 1): Laplace's rule of succession.
    """
    return (successes + 1) / (uses + 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemArms:
    """An item with its arms in the buckets of one context."""

    item_id: str
    arms: Mapping[str, Arm] = field(default_factory=dict)
    """By bucket (see ``Context.buckets``); one that is missing was never used."""
    cluster: int | None = None
    """The embedding cluster of the item; None: not known."""
    created_at: datetime | None = None
    """When the item was stored first."""

    @property
    def anywhere(self) -> Arm:
        """The item by itself, over all contexts."""
        return self.arms.get(ANYWHERE, NO_ARM)
