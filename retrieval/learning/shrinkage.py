"""Hierarchical shrinkage: what an item earned in a context, filled up with what is known of its like.

    item in a bucket → item → item cluster (and cluster in the bucket) → collection → prior

Each level is a beta-binomial estimate (Gelman et al., Bayesian Data Analysis, 5.3) whose prior mean is the level
above and whose concentration, the weight of that mean in pseudo-uses, is capped: estimated freely it runs away and the
intervals become far too narrow.

The result is a Beta distribution for each item: its mean comes from the rewards, its effective sample size from the
number of events alone. So one more event never makes an estimate less certain, whatever it says.
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
from retrieval.learning.logit import EDGE, moderation, sigmoid

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


DOUBT = 0.5
"""The share of the variance of the level above that counts in the effective sample size.

Concentrations are fitted around the estimated means of that level, so they hold a part of its doubt already. With all
of it, 90 % intervals hold .94 to .97 of the true rates after 100 to 2,000 events; without it .85 to .88.
"""

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
    """The reward of each item, a Beta distribution; arrays (items,)."""

    logit_mean: Floats
    """ln(m / (1 - m)) of the mean m."""
    effective_sample_size: Floats
    """The sum of the Beta's two parameters, above 0."""
    parts: tuple[tuple[str, Floats], ...]
    """What each level added, by name; they add up to ``logit_mean``."""


def posterior(model: Shrinkage, buckets: Sequence[str], items: Sequence[ItemArms]) -> Posterior:
    """The reward of each item in the context of these buckets.

    logit p(item here) = logit p(item) + Σ (logit p(item in bucket) - logit p(item as if the bucket were like others)):
    each bucket adds what the item earned there beside what it earned elsewhere.
    """
    contexts = [bucket for bucket in dict.fromkeys(buckets) if bucket != ANYWHERE]
    successes, failures = in_buckets(items, (ANYWHERE, *contexts))
    uses = successes + failures
    clusters = [item.cluster for item in items]
    base, by_uses, parts = _item_prior(model, clusters, uses[:, 0])
    levels = [model.levels.get(kind_of(bucket), UNSEEN_KIND) for bucket in contexts]
    shifts = [_shift(model, level, bucket, clusters) for level, bucket in zip(levels, contexts, strict=True)]
    prior = base.logit + by_uses
    like = _Estimates(prior * moderation(base.variance), base.variance)
    here = _moved(*like, shifts)
    whole = _Counts(successes[:, 0], failures[:, 0])
    mean = whole.logit(here, model.concentration)
    parts += [(bucket, shift.logit) for bucket, shift in zip(contexts, shifts, strict=True)]
    parts += [("uncertainty", here - prior - sum(shift.logit for shift in shifts)), ("item", mean - here)]
    for column, (bucket, level, shift) in enumerate(zip(contexts, levels, shifts, strict=True), start=1):
        inside = _Counts(successes[:, column], failures[:, column])
        added = _added(inside, whole, like, shift, (level.concentration, model.concentration))
        mean = mean + added
        parts.append((f"item in {bucket}", added))
    size = _effective_sample_size(uses, _doubts(model.concentration, base, levels, shifts))
    return Posterior(mean, size, tuple(parts))


class _Estimates(NamedTuple):
    """Numbers on the logit scale with their variances; arrays (items,)."""

    logit: Floats
    variance: Floats


class _Counts(NamedTuple):
    """What items earned; arrays (items,)."""

    successes: Floats
    failures: Floats

    def logit(self, prior: Floats, weight: Floats | float) -> Floats:
        """The logit of the beta-binomial mean around a prior mean, a logit too, that weighs so many uses."""
        rate = np.clip(sigmoid(prior), EDGE, 1.0 - EDGE)
        won, lost = self.successes + weight * rate, self.failures + weight * (1.0 - rate)
        return np.asarray(np.log(won) - np.log(lost), dtype=np.float64)

    def without(self, other: _Counts) -> _Counts:
        """The rest."""
        rest = (np.maximum(mine - others, 0.0) for mine, others in zip(self, other, strict=True))
        return _Counts(*rest)


def _moved(logit: Floats, variance: Floats, shifts: Sequence[_Estimates]) -> Floats:
    """The logit of the expected rate after these shifts: the less is known of them, the nearer to one half.

    ``logit`` is nearer to one half already by the ``variance`` of the items' like.
    """
    moved, doubt = logit, variance
    for shift in shifts:
        moved, doubt = moved + shift.logit, doubt + shift.variance
    return moved * moderation(doubt) / moderation(variance)


def _added(
    inside: _Counts, whole: _Counts, like: _Estimates, shift: _Estimates, concentrations: tuple[float, float]
) -> Floats:
    """What the items' events in a bucket add to their logits.

    ``like`` is what the items' like earn, ``concentrations`` are those in the bucket and of the items. Events in the
    bucket are compared with those elsewhere alone: one on both sides would count twice, and the pseudo-failures of an
    item that never failed would go to 0.
    """
    own, concentration = concentrations
    elsewhere = whole.without(inside)
    weight = _in_series(elsewhere.successes + elsewhere.failures + concentration, 1.0 / own)
    expected = _moved(elsewhere.logit(like.logit, concentration), like.variance, [shift])
    usual = _moved(like.logit, like.variance, [shift])
    return inside.logit(expected, weight) - whole.logit(usual, concentration)


def _doubts(concentration: float, base: _Estimates, levels: Sequence[Level], shifts: Sequence[_Estimates]) -> Floats:
    """How far each level may be from the one above, in variances of one event, (items, 1 + buckets); above 0.

    The levels are the item and the item in each bucket. A concentration of m is a variance of 1 / m. No event of the
    item itself plays a part.
    """
    rate = sigmoid(base.logit)
    scale = DOUBT * rate * (1.0 - rate)
    columns = [1.0 / concentration + scale * base.variance]
    columns += [1.0 / level.concentration + scale * shift.variance for level, shift in zip(levels, shifts, strict=True)]
    return np.column_stack(columns)


def _effective_sample_size(uses: Floats, doubts: Floats) -> Floats:
    """Events in just this context that would leave as much uncertainty, (items,).

    From the item to its bucket with most events, and so on to that with fewest, as if each bucket were a part of the
    one before: what the wider one is worth shrinks by the doubt about the narrower one, and the events there are added
    (the precision of a normal random-effects model). It depends on counts alone, and none of them lowers it.
    """
    order = np.argsort(-uses[:, 1:], axis=1, kind="stable")
    inside = np.take_along_axis(uses[:, 1:], order, axis=1)
    apart = np.take_along_axis(doubts[:, 1:], order, axis=1)
    counts = np.column_stack([uses[:, 0], inside, np.zeros(len(uses))])
    size = 1.0 / doubts[:, 0]
    for column in range(counts.shape[1] - 1):
        if column:
            size = _in_series(size, apart[:, column - 1])
        size = size + np.maximum(counts[:, column] - counts[:, column + 1], 0.0)
    return size


def _in_series(size: Floats, doubt: Floats | float) -> Floats:
    """What so many events are worth a level further down."""
    return np.asarray(size / (1.0 + size * doubt), dtype=np.float64)


def _item_prior(
    model: Shrinkage, clusters: Sequence[int | None], uses: Floats
) -> tuple[_Estimates, Floats, list[tuple[str, Floats]]]:
    """The items' like, what their uses add to that, and the parts of both."""
    known = [model.anywhere if cluster is None else model.clusters.get(cluster, model.anywhere) for cluster in clusters]
    base = _Estimates(*pairs(known).T)
    by_uses = model.uses_coefficient * np.log1p(uses)
    collection = np.full(len(known), model.anywhere.logit)
    parts = [("collection", collection), ("item cluster", base.logit - collection), ("uses", by_uses)]
    return base, by_uses, parts


def _shift(model: Shrinkage, level: Level, bucket: str, clusters: Sequence[int | None]) -> _Estimates:
    whole = model.buckets.get(bucket, Estimate(0.0, level.bucket_variance))
    unseen = Estimate(0.0, level.cluster_variance)
    shifts = model.cluster_shifts.get(bucket, {})
    own = [unseen if cluster is None else shifts.get(cluster, unseen) for cluster in clusters]
    found = pairs(own)
    return _Estimates(whole.logit + found[:, 0], whole.variance + found[:, 1])


def _listed(estimates: Mapping[int, Estimate]) -> list[list[float]]:
    return [[number, *estimate] for number, estimate in estimates.items()]


def _numbered(rows: Sequence[Sequence[float]]) -> dict[int, Estimate]:
    return {int(row[0]): Estimate(row[1], row[2]) for row in rows}
