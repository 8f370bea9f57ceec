"""The arms of many items as arrays. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from retrieval.domain.learning.arm import NO_ARM, ItemArms
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
    """All items with all their arms."""
    clusters = sorted({item.cluster for item in items if item.cluster is not None})
    number = {cluster: index for index, cluster in enumerate(clusters)}
    anywhere = pairs([item.anywhere[:2] for item in items])
    return ArmTable(
        successes=anywhere[:, 0],
        failures=anywhere[:, 1],
        cluster=np.array([-1 if item.cluster is None else number[item.cluster] for item in items], dtype=np.int64),
        clusters=tuple(clusters),
        kinds=_kinds(items),
    )


def in_buckets(items: Sequence[ItemArms], buckets: Sequence[str]) -> tuple[Floats, Floats]:
    """Successes and failures of each item in each bucket, both (items, buckets)."""
    rows = pairs([item.arms.get(bucket, NO_ARM)[:2] for item in items for bucket in buckets])
    shaped = rows.reshape(len(items), len(buckets), 2)
    return shaped[:, :, 0], shaped[:, :, 1]


def pairs(rows: Sequence[tuple[float, ...]]) -> Floats:
    """The rows as an array of shape (rows, 2), several times faster than ``np.array`` on a list of tuples."""
    return np.fromiter(chain.from_iterable(rows), np.float64, 2 * len(rows)).reshape(-1, 2)


def _kinds(items: Sequence[ItemArms]) -> tuple[BucketArms, ...]:
    rows: dict[str, list[tuple[int, str, float, float]]] = {}
    for row, item in enumerate(items):
        for bucket, arm in item.arms.items():
            if bucket != ANYWHERE and arm.pulls > 0:
                rows.setdefault(kind_of(bucket), []).append((row, bucket, arm.successes, arm.failures))
    kinds = []
    for kind, arms in sorted(rows.items()):
        item_rows, buckets, successes, failures = zip(*arms, strict=True)
        names = tuple(sorted(set(buckets)))
        number = {bucket: index for index, bucket in enumerate(names)}
        indexes = np.array([number[bucket] for bucket in buckets], dtype=np.int64)
        sums = np.array(successes, dtype=np.float64), np.array(failures, dtype=np.float64)
        kinds.append(BucketArms(kind, names, np.array(item_rows, dtype=np.int64), indexes, *sums))
    return tuple(kinds)
