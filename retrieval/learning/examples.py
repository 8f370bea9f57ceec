"""The data for fitting and testing a model: events, rated items with their signals, and slates. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar

import numpy as np

from retrieval.domain.items.embedding import Vector
from retrieval.domain.learning.arm import NO_ARM, Arm, ItemArms
from retrieval.domain.learning.context import ANYWHERE
from retrieval.learning.arm_table import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A verdict on an item, with the context, the question and the signals of the time when the item was shown."""

    item_id: str
    buckets: tuple[str, ...]
    """The buckets as ``Context.buckets`` gives them; ``ANYWHERE`` may be left out."""
    reward: float
    """0 to 1."""
    weight: float = 1.0
    """The weight, at least 0: the trust in the verdict times the decay by its age."""
    relevance: float | None = None
    """The relevance of the item to the query, 0 to 1; None: unknown."""
    signals: Mapping[str, float] = field(default_factory=dict)
    rank: int | None = None
    occurred_at: datetime | None = None
    question: str | None = None
    """The key of what was asked; empty: a verdict without a search; None: the search is not known."""
    vector: Vector | None = None
    """The question's vector, unit length, shape (dimensions,)."""

    @property
    def contexts(self) -> tuple[str, ...]:
        """The buckets without ``ANYWHERE`` and without repetitions."""
        return tuple(bucket for bucket in dict.fromkeys(self.buckets) if bucket != ANYWHERE)


def faded(events: Iterable[Event], now: datetime, half_life: timedelta) -> list[Event]:
    """The events with their weights halved for each half-life of age, as far as it is known."""
    return [replace(event, weight=event.weight * _decay(event, now, half_life)) for event in events]


def arms_of(events: Iterable[Event], clusters: Mapping[str, int] | None = None) -> list[ItemArms]:
    """The successes and failures of the events by item. ``clusters``: the embedding cluster by item, where known."""
    sums: dict[str, dict[str, Arm]] = {}
    for event in events:
        arms = sums.setdefault(event.item_id, {})
        for bucket in (ANYWHERE, *event.contexts):
            arm = arms.get(bucket, NO_ARM)
            successes = arm.successes + event.weight * event.reward
            arms[bucket] = Arm(successes, arm.failures + event.weight * (1 - event.reward))
    clusters = clusters or {}
    return [ItemArms(item_id=item, arms=arms, cluster=clusters.get(item)) for item, arms in sums.items()]


def _decay(event: Event, now: datetime, half_life: timedelta) -> float:
    if event.occurred_at is None:
        return 1.0
    return float(2.0 ** -(max(now - event.occurred_at, timedelta(0)) / half_life))


@dataclass(frozen=True, slots=True, kw_only=True)
class Slate:
    """The items that a search showed, by rank, with their signals; all sequences have this order."""

    question: str
    vector: Vector | None
    buckets: tuple[str, ...]
    item_ids: Sequence[str]
    relevance: Sequence[float]
    legs: Mapping[str, Sequence[float]]
    rewards: Sequence[float | None]
    """The mean of each item's verdicts, 0 to 1; None: no verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """All data for learning."""

    rated: Sequence[Event]
    slates: Sequence[Slate]
    clusters: Mapping[str, int]
    octets: Mapping[str, int] = field(default_factory=dict)
    """The length of title and body in octets of UTF-8 by item, where known."""

    def of(self, questions: frozenset[str], *, inside: bool) -> Examples:
        """The examples of these questions, or of all others; verdicts with an unknown question are in neither set."""
        rated = [event for event in self.rated if event.question is not None]
        return Examples(
            rated=[event for event in rated if (event.question in questions) == inside],
            slates=[slate for slate in self.slates if (slate.question in questions) == inside],
            clusters=self.clusters,
            octets=self.octets,
        )


@dataclass(frozen=True, slots=True)
class Direction:
    """The queries for which an item was rewarded."""

    total: Vector
    """Their sum, weighted by reward; shape (dimensions,)."""
    rewards: float


_Key = TypeVar("_Key", bound=Hashable)


def directions(rated: Sequence[Event]) -> dict[str, Direction]:
    """The sum of the questions for which each item was rewarded (Rocchio, 1971)."""
    return _directions_by(rated, lambda event: event.item_id)


def _directions_by(rated: Sequence[Event], key: Callable[[Event], _Key]) -> dict[_Key, Direction]:
    sums: dict[_Key, Direction] = {}
    for event in rated:
        earned = event.weight * event.reward
        if event.vector is None or earned <= 0:
            continue
        own, known = np.float32(earned) * event.vector, sums.get(key(event))
        sums[key(event)] = (
            Direction(own, earned) if known is None else Direction(known.total + own, known.rewards + earned)
        )
    return sums


def cosine(query: Vector | None, total: Vector | None) -> float:
    """The cosine of a unit vector and a sum; 0 if either is missing or the sum is zero."""
    if query is None or total is None:
        return 0.0
    length = float(np.linalg.norm(total))
    return float(query @ total) / length if length > 1e-6 else 0.0


def without_own(rated: Sequence[Event], total: Mapping[str, Direction]) -> list[float]:
    """For each event, the cosine of its question and the other questions for which its item was rewarded."""
    own = _directions_by(rated, lambda event: (event.question, event.item_id))
    cosines: list[float] = []
    for event in rated:
        item_id = event.item_id
        direction, same_question = total.get(item_id), own.get((event.question, item_id))
        others = None if direction is None else direction.total
        if others is not None and same_question is not None:
            others = others - same_question.total
        cosines.append(cosine(event.vector, others))
    return cosines


def columns(rated: Sequence[Event]) -> tuple[Floats, Floats, Floats]:
    """Rewards, weights and ranks of the events, each of shape (events,); an unknown rank counts as the first."""
    return (
        np.array([event.reward for event in rated], dtype=np.float64),
        np.array([event.weight for event in rated], dtype=np.float64),
        np.array([event.rank or 1 for event in rated], dtype=np.float64),
    )


def unit(vector: Vector) -> Vector:
    """The vector at length 1, unless it is zero."""
    length = float(np.linalg.norm(vector))
    return vector / np.float32(length) if length else vector
