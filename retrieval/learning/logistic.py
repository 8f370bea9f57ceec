"""A logistic model of the reward: nested effects of item, cluster and bucket beside relevance and the shrunk rate.

    logit p = intercept + Σ slopes × numbers
            + Σ effects of item, item cluster, bucket, item cluster in bucket, item in bucket

Every effect has a normal prior around 0, so one that was never seen adds nothing. The model says what to expect; how
sure that is goes by the events that the item has, as shrinkage counts them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from retrieval.domain.arm import ItemArms
from retrieval.domain.context import ANYWHERE
from retrieval.domain.errors import InvalidRequestError
from retrieval.learning.arm_table import Floats, kind_of
from retrieval.learning.logit import logit

KIND = "logistic"

EDGE = 0.01
"""Relevances and signals are kept this far from 0 and 1, so that none speaks louder than ±4.6."""

RELEVANCE = "relevance"
SHRUNK = "shrunk rate"
RANK = "rank"


class Slope(NamedTuple):
    """The weight of a number."""

    weight: float
    centre: float
    """Subtracted from the number; one that is missing counts as this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logistic:
    """A fitted model."""

    intercept: float
    slopes: Mapping[str, Slope] = field(default_factory=dict)
    """Of the logits of ``relevance``, of the signals and of the shrunk rate, and of ln ``rank``."""
    effects: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By group, such as ``item in domain=physics``, and within it by item, cluster or bucket."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values; see ``from_dict``."""
        return {
            "intercept": self.intercept,
            "slopes": {name: list(slope) for name, slope in self.slopes.items()},
            "effects": {group: dict(effects) for group, effects in self.effects.items()},
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """What ``as_dict`` gave. Raises ``InvalidRequestError`` for anything else."""
        try:
            return cls(
                intercept=float(stored["intercept"]),
                slopes={name: Slope(*slope) for name, slope in stored["slopes"].items()},
                effects={
                    group: {key: float(effect) for key, effect in effects.items()}
                    for group, effects in stored["effects"].items()
                },
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidRequestError(
                f"a stored logistic model cannot be read ({error!r:.80}); learn it anew"
            ) from error


def groups_of(contexts: Sequence[str], item_id: str, cluster: int | None) -> list[tuple[str, str, str]]:
    """Block, group and key of every effect on an item in a context; buckets beside ``ANYWHERE`` only."""
    found = [("item", "item", item_id)]
    if cluster is not None:
        found.append(("item cluster", "item cluster", str(cluster)))
    for bucket in contexts:
        kind = kind_of(bucket)
        found.append(("bucket", "bucket", bucket))
        found.append((f"item in {kind}", f"item in {bucket}", item_id))
        if cluster is not None:
            found.append((f"item cluster in {kind}", f"item cluster in {bucket}", str(cluster)))
    return found


class LogitMean(NamedTuple):
    """What is expected of each item; arrays (items,)."""

    logit: Floats
    parts: tuple[tuple[str, Floats], ...]
    """What each effect and number added, by name; they add up to ``logit``."""


def logistic_mean(
    model: Logistic,
    buckets: Sequence[str],
    items: Sequence[ItemArms],
    numbers: Mapping[str, Floats],
) -> LogitMean:
    """The expected reward of each item in the context of these buckets.

    ``numbers`` are probabilities by the name of their slope, (items,) each; NaN, or a name left out: not known.
    ``rank`` among them is a rank from 1; left out, every item is taken to stand at rank 1.
    """
    contexts = [bucket for bucket in dict.fromkeys(buckets) if bucket != ANYWHERE]
    parts = [("collection", np.full(len(items), model.intercept))]
    for name, slope in model.slopes.items():
        if name != RANK or name in numbers:
            parts.append((name, slope.weight * _centred(name, numbers.get(name), slope, len(items))))
    for group, keys in _columns(contexts, items):
        effects = model.effects.get(group, {})
        added = np.array([0.0 if key is None else effects.get(key, 0.0) for key in keys])
        parts.append((group if group != "bucket" else str(keys[0]), added))
    return LogitMean(np.sum([added for _, added in parts], axis=0), tuple(parts))


def _columns(contexts: Sequence[str], items: Sequence[ItemArms]) -> list[tuple[str, list[str | None]]]:
    ids: list[str | None] = [item.item_id for item in items]
    clusters = [None if item.cluster is None else str(item.cluster) for item in items]
    found = [("item", ids), ("item cluster", clusters)]
    for bucket in contexts:
        found.append(("bucket", [bucket] * len(items)))
        found.append((f"item cluster in {bucket}", clusters))
        found.append((f"item in {bucket}", ids))
    return found


def _centred(name: str, given: Floats | None, slope: Slope, length: int) -> Floats:
    if given is None:
        return np.zeros(length)
    number = np.log(given) if name == RANK else number_of(given)
    return np.nan_to_num(number - slope.centre, nan=0.0)


def number_of(probabilities: Floats) -> Floats:
    """The logit that a slope is of; NaN stays NaN."""
    return logit(np.clip(probabilities, EDGE, 1 - EDGE))
