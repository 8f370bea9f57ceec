"""The arms of many items as arrays, and an arm with one more event. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from retrieval.domain.checks import checked_number
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.learning.arm import NO_ARM, Arm, ItemArms
from retrieval.domain.learning.context import ANYWHERE

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class BucketArms:
    """Every used arm in the buckets of one kind, such as ``domain``; all arrays have shape (arms,)."""

    kind: str
    names: tuple[str, ...]
    """The buckets, (buckets,)."""
    item: Ints
    """The row of the item in the ``ArmTable``."""
    bucket: Ints
    """The index in ``names``."""
    successes: Floats
    failures: Floats


@dataclass(frozen=True, slots=True, eq=False)
class ArmTable:
    """Every item with its arms; arrays have shape (items,) unless stated otherwise."""

    successes: Floats
    failures: Floats
    cluster: Ints
    """The index in ``clusters``; -1: unknown."""
    clusters: tuple[int, ...]
    kinds: tuple[BucketArms, ...]
    """The kinds of buckets by name."""


def kind_of(bucket: str) -> str:
    """``domain`` of ``domain=physics``."""
    return bucket.partition("=")[0]


def arm_table(items: Sequence[ItemArms]) -> ArmTable:
    """All items with all their arms. Raises ``InvalidRequestError`` for negative or infinite sums."""
    clusters = sorted({item.cluster for item in items if item.cluster is not None})
    number = {cluster: index for index, cluster in enumerate(clusters)}
    anywhere = _checked([item.anywhere[:2] for item in items])
    return ArmTable(
        successes=anywhere[:, 0],
        failures=anywhere[:, 1],
        cluster=np.array([-1 if item.cluster is None else number[item.cluster] for item in items], dtype=np.int64),
        clusters=tuple(clusters),
        kinds=_kinds(items),
    )


def in_buckets(items: Sequence[ItemArms], buckets: Sequence[str]) -> tuple[Floats, Floats]:
    """Successes and failures of each item in each bucket, both (items, buckets)."""
    rows = _checked([item.arms.get(bucket, NO_ARM)[:2] for item in items for bucket in buckets])
    shaped = rows.reshape(len(items), len(buckets), 2)
    return shaped[:, :, 0], shaped[:, :, 1]


def pairs(rows: Sequence[tuple[float, ...]]) -> Floats:
    """The rows as an array of shape (rows, 2), several times faster than ``np.array`` on a list of tuples."""
    return np.fromiter(chain.from_iterable(rows), np.float64, 2 * len(rows)).reshape(-1, 2)


def _checked(rows: Sequence[tuple[float, ...]]) -> Floats:
    sums = pairs(rows)
    if not np.isfinite(sums).all() or (sums < 0).any():
        raise InvalidRequestError("an arm has negative or infinite successes or failures; recompute the statistics")
    return sums


def _kinds(items: Sequence[ItemArms]) -> tuple[BucketArms, ...]:
    rows: dict[str, list[tuple[int, str, float, float]]] = {}
    for row, item in enumerate(items):
        for bucket, arm in item.arms.items():
            if bucket != ANYWHERE and arm.pulls > 0:
                rows.setdefault(kind_of(bucket), []).append((row, bucket, arm.successes, arm.failures))
    return tuple(_kind(kind, rows[kind]) for kind in sorted(rows))


def _kind(kind: str, rows: Sequence[tuple[int, str, float, float]]) -> BucketArms:
    names = sorted({bucket for _, bucket, _, _ in rows})
    number = {bucket: index for index, bucket in enumerate(names)}
    sums = _checked([row[2:] for row in rows])
    return BucketArms(
        kind=kind,
        names=tuple(names),
        item=np.array([row[0] for row in rows], dtype=np.int64),
        bucket=np.array([number[row[1]] for row in rows], dtype=np.int64),
        successes=sums[:, 0],
        failures=sums[:, 1],
    )


SUCCESS_FROM = 0.5
"""The least reward that counts as a raw success."""


def updated(arm: Arm, reward: float, *, weight: float = 1.0, decay: float = 1.0, at: datetime | None = None) -> Arm:
    """The arm after an event with that reward, 0 to 1.

    ``decay``, above 0 and at most 1, is the remaining share of the arm's evidence at the time of the result:
    2^(-time passed / half-life). For an event before that time, ``weight``, at least 0, includes its decay, so that
    events may arrive in any order (forward decay: Cormode et al., ICDE 2009). An event of weight 0 does not count.

    Raises ``InvalidRequestError`` for a number outside its range.
    """
    _check(reward, weight, decay)
    if weight == 0:
        return arm._replace(successes=arm.successes * decay, failures=arm.failures * decay)
    return Arm(
        successes=arm.successes * decay + weight * reward,
        failures=arm.failures * decay + weight * (1 - reward),
        uses=arm.uses + 1,
        raw_successes=arm.raw_successes + (reward >= SUCCESS_FROM),
        last_used_at=_later(arm.last_used_at, at),
    )


def _check(reward: float, weight: float, decay: float) -> None:
    checked_number("reward", reward)
    if not 0 <= weight < float("inf"):
        raise InvalidRequestError(f"weight is {weight}; it must be a number of at least 0")
    if not 0 < decay <= 1:
        raise InvalidRequestError(f"decay is {decay}; it must be above 0 and at most 1")


def _later(moment: datetime | None, other: datetime | None) -> datetime | None:
    if moment is None or other is None:
        return moment or other
    return max(moment, other)
