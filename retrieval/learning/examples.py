"""What a model is fitted on and tried on: rated items with their signals, and the slates that they stood in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from retrieval.domain.embedding import Vector
from retrieval.learning.arm_table import Floats
from retrieval.learning.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A verdict on an item, with the question it was shown for."""

    event: Event
    question: str | None
    """What the search asked, the same for the same words; empty: the verdict came without a search; None: the search
    is not kept any more, so it may be any question."""
    vector: Vector | None = None
    """Of the question, unit length, shape (dimensions,)."""
    received_at: datetime | None = None
    """When the verdict came; None: always there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slate:
    """The items that a search showed, by rank, with what was known of them; sequences in that order."""

    question: str
    vector: Vector | None
    buckets: tuple[str, ...]
    item_ids: Sequence[str]
    relevance: Sequence[float]
    legs: Mapping[str, Sequence[float]]
    rewards: Sequence[float | None]
    """The mean of its verdicts, 0 to 1; None: nobody said anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """Everything there is to learn from."""

    rated: Sequence[Example]
    slates: Sequence[Slate]
    clusters: Mapping[str, int]
    """The embedding cluster by item, where it is known."""

    def of(self, questions: frozenset[str], *, wanted: bool) -> Examples:
        """Those of these questions, or of all others; a verdict without a search is there to fit on.

        One whose question is not known is in neither: it could give the answer away.
        """
        known = [one for one in self.rated if one.question is not None]
        return Examples(
            rated=[one for one in known if (one.question in questions) == wanted],
            slates=[one for one in self.slates if (one.question in questions) == wanted],
            clusters=self.clusters,
        )


@dataclass(frozen=True, slots=True)
class Direction:
    """The queries that an item was rewarded for."""

    total: Vector
    """Their sum, weighted by reward; shape (dimensions,)."""
    rewards: float


def directions(rated: Sequence[Example], until: datetime | None = None) -> dict[str, Direction]:
    """By item, the sum of the questions that it was rewarded for (Rocchio, 1971), as known by then."""
    totals: dict[str, Vector] = {}
    rewards: dict[str, float] = defaultdict(float)
    for one in rated:
        earned = one.event.weight * one.event.reward
        is_later = until is not None and one.received_at is not None and one.received_at > until
        if one.vector is None or earned <= 0 or is_later:
            continue
        item_id = one.event.item_id
        totals[item_id] = totals.get(item_id, np.zeros_like(one.vector)) + np.float32(earned) * one.vector
        rewards[item_id] += earned
    return {item_id: Direction(total, rewards[item_id]) for item_id, total in totals.items()}


def cosine(query: Vector | None, total: Vector | None) -> float | None:
    """Of a unit vector and a sum; None where one is missing or the sum is nothing."""
    if query is None or total is None:
        return None
    length = float(np.linalg.norm(total))
    return float(query @ total) / length if length > 1e-6 else None


def without_own(rated: Sequence[Example], known: Mapping[str, Direction]) -> list[float | None]:
    """For each example, how near its question is to the others that its item was rewarded for."""
    own: dict[tuple[str | None, str], Vector] = {}
    for one in rated:
        earned = one.event.weight * one.event.reward
        if one.vector is not None and earned > 0:
            key = (one.question, one.event.item_id)
            own[key] = own.get(key, np.zeros_like(one.vector)) + np.float32(earned) * one.vector
    found: list[float | None] = []
    for one in rated:
        direction, its_own = known.get(one.event.item_id), own.get((one.question, one.event.item_id))
        if direction is None:
            found.append(None)
            continue
        found.append(cosine(one.vector, direction.total if its_own is None else direction.total - its_own))
    return found


def columns(rated: Sequence[Example]) -> tuple[Floats, Floats, Floats]:
    """Rewards, weights and ranks of the examples, each of shape (examples,); an unknown rank counts as the first."""
    return (
        np.array([one.event.reward for one in rated], dtype=np.float64),
        np.array([one.event.weight for one in rated], dtype=np.float64),
        np.array([one.event.rank or 1 for one in rated], dtype=np.float64),
    )


def unit(vector: Vector) -> Vector:
    """The vector at length 1, unless it is nothing."""
    length = float(np.linalg.norm(vector))
    return vector / np.float32(length) if length else vector
