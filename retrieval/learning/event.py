"""An event to learn from: what one item earned in one context."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from retrieval.domain.arm import Arm, ItemArms
from retrieval.domain.context import ANYWHERE
from retrieval.domain.errors import InvalidRequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One verdict on one item, with what was known when the item was shown.

    Raises ``InvalidRequestError`` for a reward or a relevance outside 0 to 1, a weight that is negative or not
    finite, or a rank below 1.
    """

    item_id: str
    buckets: tuple[str, ...]
    """As ``Context.buckets`` gives them; ``ANYWHERE`` may be left out."""
    reward: float
    """0 to 1."""
    weight: float = 1.0
    """At least 0: how far the verdict is trusted, and by how much its age has faded it."""
    relevance: float | None = None
    """0 to 1: how well the item fitted the query by itself; None: not known."""
    signals: Mapping[str, float] = field(default_factory=dict)
    """Scores of the legs by name, 0 to 1, as far as they were logged."""
    rank: int | None = None
    """Where it stood, from 1; None: not known."""
    occurred_at: datetime | None = None

    def __post_init__(self) -> None:
        _check_share("reward", self.reward)
        if self.relevance is not None:
            _check_share("relevance", self.relevance)
        if not math.isfinite(self.weight) or self.weight < 0:
            raise InvalidRequestError(f"an event's weight is {self.weight}; it must be a finite number of at least 0")
        if self.rank is not None and self.rank < 1:
            raise InvalidRequestError(f"an event's rank is {self.rank}; ranks begin at 1")

    @property
    def contexts(self) -> tuple[str, ...]:
        """The buckets beside ``ANYWHERE``, each once."""
        return tuple(bucket for bucket in dict.fromkeys(self.buckets) if bucket != ANYWHERE)


def faded(events: Iterable[Event], now: datetime, half_life: timedelta) -> list[Event]:
    """The events with weights halved for each half-life of age; one without a time keeps its weight.

    One from the future counts as one of now. Raises ``InvalidRequestError`` for a half-life that is not positive.
    """
    if half_life <= timedelta(0):
        raise InvalidRequestError(f"the half-life is {half_life}; it must be longer than nothing")
    return [replace(event, weight=event.weight * _fading(event, now, half_life)) for event in events]


def arms_of(events: Iterable[Event], clusters: Mapping[str, int] | None = None) -> list[ItemArms]:
    """The arms that the events add up to, one ``ItemArms`` an item in the order of first appearance.

    ``clusters`` is the embedding cluster by item, where it is known.
    """
    sums: dict[str, dict[str, Arm]] = {}
    for event in events:
        arms = sums.setdefault(event.item_id, {})
        for bucket in (ANYWHERE, *event.contexts):
            arms[bucket] = _added(arms.get(bucket, Arm()), event)
    clusters = clusters or {}
    return [ItemArms(item_id=item, arms=arms, cluster=clusters.get(item)) for item, arms in sums.items()]


def in_order(events: Sequence[Event]) -> list[Event]:
    """By time; those without one come first, and ties stay as they are."""
    return sorted(events, key=lambda event: event.occurred_at.timestamp() if event.occurred_at else -math.inf)


def _added(arm: Arm, event: Event) -> Arm:
    times = [time for time in (arm.last_used_at, event.occurred_at) if time is not None]
    return Arm(
        successes=arm.successes + event.weight * event.reward,
        failures=arm.failures + event.weight * (1 - event.reward),
        uses=arm.uses + 1,
        raw_successes=arm.raw_successes + (event.reward >= 0.5),
        last_used_at=max(times, default=None),
    )


def _fading(event: Event, now: datetime, half_life: timedelta) -> float:
    if event.occurred_at is None:
        return 1.0
    return float(2.0 ** -(max(now - event.occurred_at, timedelta(0)) / half_life))


def _check_share(name: str, value: float) -> None:
    if not math.isfinite(value) or not 0 <= value <= 1:
        raise InvalidRequestError(f"an event's {name} is {value}; it must be a number from 0 to 1")
