"""Measuring side by side: every question goes to every variant, in an order shuffled each time.

So whatever else the machine does hits all alike, and a ratio within one run means something.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from workers import Worker

K = 10


@dataclass(frozen=True, slots=True)
class Call:
    """One search of one question."""

    method: str
    arguments: tuple[Any, ...]
    """The text after the variant's name."""
    truth: Sequence[str] = ()
    """The ids of a perfect answer; empty: the answer is only timed."""


@dataclass(slots=True)
class VariantFigures:
    """The figures of one variant of one system."""

    peer: str
    variant: str
    milliseconds: list[float] = field(default_factory=list)
    recalls: list[float] = field(default_factory=list)
    found: list[list[str]] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """Median and 95th percentile in milliseconds, mean recall in [0, 1], mean number of hits."""
        p50, p95 = np.percentile(self.milliseconds, [50, 95])
        row = {
            "system": self.peer,
            "variant": self.variant,
            "p50_ms": round(float(p50), 3),
            "p95_ms": round(float(p95), 3),
            "hits": round(float(np.mean([len(ids) for ids in self.found])), 2),
        }
        return row | ({"recall": round(float(np.mean(self.recalls)), 4)} if self.recalls else {})


def measure(
    workers: Sequence[Worker],
    variants: Callable[[Worker], Sequence[str]],
    calls: Sequence[Call],
    *,
    warm_up: int,
    seed: int = 1,
) -> list[VariantFigures]:
    """Every call by every variant; the first ``warm_up`` calls are made once more beforehand and not counted."""
    chance = random.Random(seed)  # noqa: S311 - the order of measurements is no secret
    units = [(worker, VariantFigures(worker.name, variant)) for worker in workers for variant in variants(worker)]
    for call in calls[:warm_up]:
        for worker, unit in units:
            worker.call(call.method, unit.variant, *call.arguments)
    for call in calls:
        chance.shuffle(units)
        for worker, unit in units:
            ids, milliseconds = worker.call(call.method, unit.variant, *call.arguments)
            unit.milliseconds.append(milliseconds)
            unit.found.append(ids)
            if call.truth:
                unit.recalls.append(len(set(ids) & set(call.truth)) / len(call.truth))
    order = {(w.name, v): place for place, (w, v) in enumerate((w, v) for w in workers for v in variants(w))}
    return sorted((unit for _, unit in units), key=lambda unit: order[unit.peer, unit.variant])


def best(rows: Sequence[Mapping[str, Any]], system: str, least_recall: float = 0.99) -> Mapping[str, Any] | None:
    """The system's fastest row of those with the recall; without one, the row with the most."""
    own = [row for row in rows if row["system"] == system]
    enough = [row for row in own if row.get("recall", 1.0) >= least_recall]
    if enough:
        return min(enough, key=lambda row: float(row["p50_ms"]))
    return max(own, key=lambda row: float(row["recall"]), default=None)
