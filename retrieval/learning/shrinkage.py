"""Hierarchical shrinkage: what an item earned in a context, filled up with what is known of its like.

    item in a bucket → item → item cluster (and cluster in the bucket) → collection → prior

Each level is a beta-binomial estimate (Gelman et al., Bayesian Data Analysis, 5.3) whose prior mean is the level
above and whose concentration, the weight of that mean in pseudo-uses, is capped: estimated freely it runs away and the
intervals become far too narrow. The variance of the level above is carried down on the logit scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from retrieval.domain.arm import ItemArms
from retrieval.domain.context import ANYWHERE
from retrieval.domain.errors import InvalidRequestError
from retrieval.learning.arm_table import Floats, in_buckets, kind_of, pairs
from retrieval.learning.logit import moderation, sigmoid
from retrieval.learning.trigamma import trigamma

KIND = "shrinkage"


class Estimate(NamedTuple):
    """A number on the logit scale, with its variance."""

    logit: float
    variance: float


class Level(NamedTuple):
    """What is known of all buckets of one kind, such as ``domain``."""

    concentration: float
    """Pseudo-uses that the item's own rate weighs against its events in a bucket."""
    bucket_variance: float
    """Of the shift of a bucket that was never seen."""
    cluster_variance: float
    """Of the shift of an item cluster in a bucket where it was never seen."""


UNSEEN_KIND = Level(8.0, 0.05, 0.4)
"""A kind of bucket without a single event."""


NOTHING_KNOWN = Estimate(0.0, 0.5)
"""A collection without a single event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrinkage:
    """What a collection's events say about items as such; an item's own arms are added by ``posterior``."""

    anywhere: Estimate = NOTHING_KNOWN
    """An item without uses and of no known cluster; with no events at all, a rate of one half."""
    uses_coefficient: float = 0.0
    """Added for each unit of ln(1 + uses): what is used more is usually better."""
    concentration: float = 8.0
    """Pseudo-uses that its like weigh against an item's own events."""
    clusters: Mapping[int, Estimate] = field(default_factory=dict)
    """An item without uses, by item cluster."""
    levels: Mapping[str, Level] = field(default_factory=dict)
    """By kind of bucket."""
    buckets: Mapping[str, Estimate] = field(default_factory=dict)
    """The shift of all items in a bucket."""
    cluster_shifts: Mapping[str, Mapping[int, Estimate]] = field(default_factory=dict)
    """By bucket and item cluster, beside the bucket's own shift."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values; see ``from_dict``."""
        return {
            "anywhere": list(self.anywhere),
            "uses_coefficient": self.uses_coefficient,
            "concentration": self.concentration,
            "clusters": _listed(self.clusters),
            "levels": {kind: list(level) for kind, level in self.levels.items()},
            "buckets": {bucket: list(shift) for bucket, shift in self.buckets.items()},
            "cluster_shifts": {bucket: _listed(shifts) for bucket, shifts in self.cluster_shifts.items()},
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """What ``as_dict`` gave. Raises ``InvalidRequestError`` for anything else."""
        try:
            return cls(
                anywhere=Estimate(*stored["anywhere"]),
                uses_coefficient=stored["uses_coefficient"],
                concentration=stored["concentration"],
                clusters=_numbered(stored["clusters"]),
                levels={kind: Level(*level) for kind, level in stored["levels"].items()},
                buckets={bucket: Estimate(*shift) for bucket, shift in stored["buckets"].items()},
                cluster_shifts={bucket: _numbered(shifts) for bucket, shifts in stored["cluster_shifts"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidRequestError(f"a stored shrinkage cannot be read ({error!r:.80}); learn it anew") from error


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """The logit of the reward of each item; arrays (items,)."""

    logit_mean: Floats
    logit_variance: Floats
    parts: tuple[tuple[str, Floats], ...]
    """What each level added, by name; they add up to ``logit_mean``."""


def posterior(model: Shrinkage, buckets: Sequence[str], items: Sequence[ItemArms]) -> Posterior:
    """The reward of each item in the context of these buckets.

    With b buckets beside ``ANYWHERE``: logit p = Σ logit p(item in bucket) - (b - 1) logit p(item); each bucket adds
    what it changes about the item.
    """
    contexts = [bucket for bucket in dict.fromkeys(buckets) if bucket != ANYWHERE]
    successes, failures = in_buckets(items, (ANYWHERE, *contexts))
    clusters = [item.cluster for item in items]
    prior, prior_variance, parts = _item_prior(model, clusters, successes[:, 0] + failures[:, 0])
    item = _shrunk(successes[:, 0], failures[:, 0], prior, model.concentration)
    parts.append(("item", item.logit - prior))
    mean, carried = item.logit.copy(), np.full(len(items), 1.0 - len(contexts))
    own, local, above = np.ones(len(items)), np.zeros(len(items)), np.zeros(len(items))
    for column, bucket in enumerate(contexts, start=1):
        level = model.levels.get(kind_of(bucket), UNSEEN_KIND)
        shift, shift_variance = _shift(model, level, bucket, clusters)
        inside = _shrunk(successes[:, column], failures[:, column], item.logit + shift, level.concentration)
        mean += inside.logit - item.logit
        own -= (1.0 - inside.share) ** 2
        local += inside.variance
        above += inside.share**2 * shift_variance
        carried += inside.share
        parts += [(bucket, shift), (f"item in {bucket}", inside.logit - item.logit - shift)]
    local = np.maximum(local + own * item.variance, item.variance)
    above += carried**2 * item.share**2 * prior_variance
    parts.append(("uncertainty", mean * (moderation(above) - 1.0)))
    return Posterior(mean * moderation(above), local + above, tuple(parts))


class _Shrunk(NamedTuple):
    """A beta-binomial estimate; arrays (items,)."""

    logit: Floats
    variance: Floats
    """Of the logit, were the prior mean known."""
    share: Floats
    """Of the prior mean in the estimate."""


def _shrunk(successes: Floats, failures: Floats, prior_logit: Floats, concentration: float) -> _Shrunk:
    prior = sigmoid(prior_logit)
    a = successes + concentration * prior
    b = failures + concentration * (1.0 - prior)
    variance = trigamma(np.stack([a, b])).sum(axis=0)
    return _Shrunk(np.log(a) - np.log(b), variance, concentration / (a + b))


def _item_prior(
    model: Shrinkage, clusters: Sequence[int | None], uses: Floats
) -> tuple[Floats, Floats, list[tuple[str, Floats]]]:
    known = [model.anywhere if cluster is None else model.clusters.get(cluster, model.anywhere) for cluster in clusters]
    base = pairs(known)
    by_uses = model.uses_coefficient * np.log1p(uses)
    collection = np.full(len(known), model.anywhere.logit)
    parts = [("collection", collection), ("item cluster", base[:, 0] - collection), ("uses", by_uses)]
    return base[:, 0] + by_uses, base[:, 1], parts


def _shift(model: Shrinkage, level: Level, bucket: str, clusters: Sequence[int | None]) -> tuple[Floats, Floats]:
    whole = model.buckets.get(bucket, Estimate(0.0, level.bucket_variance))
    unseen = Estimate(0.0, level.cluster_variance)
    shifts = model.cluster_shifts.get(bucket, {})
    own = [unseen if cluster is None else shifts.get(cluster, unseen) for cluster in clusters]
    found = pairs(own)
    return whole.logit + found[:, 0], whole.variance + found[:, 1]


def _listed(estimates: Mapping[int, Estimate]) -> list[list[float]]:
    return [[number, *estimate] for number, estimate in estimates.items()]


def _numbered(rows: Sequence[Sequence[float]]) -> dict[int, Estimate]:
    return {int(row[0]): Estimate(row[1], row[2]) for row in rows}
