"""Hierarchical shrinkage: the rewards of an item in a context, completed by those of similar items. Pure.

    item in a bucket → item → item cluster (and cluster in the bucket) → collection → prior

Each level is a beta-binomial estimate (Gelman et al., Bayesian Data Analysis, 5.3) around the level above, with a
capped concentration, the weight of the level above in pseudo-uses. docs/concepts/learning.md has the reasons.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from retrieval.domain.learning.arm import ItemArms
from retrieval.domain.learning.context import ANYWHERE
from retrieval.learning.arm_table import ArmTable, BucketArms, Floats, Ints, in_buckets, kind_of, pairs
from retrieval.learning.logit import EDGE, moderation, sigmoid

if TYPE_CHECKING:
    from scipy.sparse import csr_array

KIND = "shrinkage"


class ShrunkEstimate(NamedTuple):
    """A number on the logit scale, with its variance."""

    logit: float
    variance: float


class Level(NamedTuple):
    """The statistics of all buckets of one kind, such as ``domain``."""

    concentration: float
    """The weight of the item's own rate against its events in a bucket, in pseudo-uses."""
    bucket_variance: float
    cluster_variance: float


UNSEEN_KIND = Level(8.0, 0.05, 0.4)
"""The level of buckets of a kind that the fitted events did not have."""

DOUBT = 0.5
"""The share of the variance of the level above that counts in the effective sample size (see decision 0026)."""

NOTHING_KNOWN = ShrunkEstimate(0.0, 0.5)
"""The estimate of a collection without events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrinkage:
    """The priors of items, from a collection's events; ``posterior`` adds an item's own arms."""

    anywhere: ShrunkEstimate = NOTHING_KNOWN
    """The estimate of an item without uses and cluster; a rate of one half in a collection without events."""
    uses_coefficient: float = 0.0
    """Added per unit of ln(1 + uses): items with more uses are usually better."""
    concentration: float = 8.0
    """The weight of similar items against an item's own events, in pseudo-uses."""
    clusters: Mapping[int, ShrunkEstimate] = field(default_factory=dict)
    """The estimate of an item without uses, by item cluster."""
    levels: Mapping[str, Level] = field(default_factory=dict)
    buckets: Mapping[str, ShrunkEstimate] = field(default_factory=dict)
    cluster_shifts: Mapping[str, Mapping[int, ShrunkEstimate]] = field(default_factory=dict)
    """The shifts by bucket and item cluster, in addition to the bucket's shift."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values; see ``from_dict``."""
        return {
            "anywhere": list(self.anywhere),
            "uses_coefficient": self.uses_coefficient,
            "concentration": self.concentration,
            "clusters": _as_rows(self.clusters),
            "levels": {kind: list(level) for kind, level in self.levels.items()},
            "buckets": {bucket: list(shift) for bucket, shift in self.buckets.items()},
            "cluster_shifts": {bucket: _as_rows(shifts) for bucket, shifts in self.cluster_shifts.items()},
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """Reads the result of ``as_dict``."""
        return cls(
            anywhere=ShrunkEstimate(*map(float, stored["anywhere"])),
            uses_coefficient=float(stored["uses_coefficient"]),
            concentration=float(stored["concentration"]),
            clusters=_by_number(stored["clusters"]),
            levels={kind: Level(*map(float, level)) for kind, level in stored["levels"].items()},
            buckets={bucket: ShrunkEstimate(*map(float, shift)) for bucket, shift in stored["buckets"].items()},
            cluster_shifts={bucket: _by_number(shifts) for bucket, shifts in stored["cluster_shifts"].items()},
        )


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """The reward of each item in one context, a Beta distribution; arrays of shape (items,)."""

    mean: Floats
    """The expected reward, 0 to 1."""
    effective_sample_size: Floats
    """The number of own events in this context that would leave the same uncertainty, above 0."""
    logit_mean: Floats
    """ln(mean / (1 - mean))."""

    @property
    def sd(self) -> Floats:
        """The standard deviation of the true rate around the mean, 0 to 0.5."""
        return np.sqrt(self.mean * (1.0 - self.mean) / (self.effective_sample_size + 1.0))

    @property
    def uncertainty(self) -> Floats:
        """The largest possible standard deviation at this sample size, 0 to 0.5; no further event raises it."""
        return np.asarray(0.5 / np.sqrt(self.effective_sample_size + 1.0), dtype=np.float64)


def posterior(model: Shrinkage, buckets: Sequence[str], items: Sequence[ItemArms]) -> Posterior:
    """The reward of each item in the context of these buckets.

    logit p(item here) = logit p(item) + Σ (logit p(item in bucket) - logit p(similar items in the bucket)).
    """
    contexts = [bucket for bucket in dict.fromkeys(buckets) if bucket != ANYWHERE]
    successes, failures = in_buckets(items, (ANYWHERE, *contexts))
    uses = successes + failures
    clusters = [item.cluster for item in items]
    known = [model.anywhere if cluster is None else model.clusters.get(cluster, model.anywhere) for cluster in clusters]
    base = _Estimates(*pairs(known).T)
    levels = [model.levels.get(kind_of(bucket), UNSEEN_KIND) for bucket in contexts]
    shifts = [_shift(model, level, bucket, clusters) for level, bucket in zip(levels, contexts, strict=True)]
    prior = base.logit + model.uses_coefficient * np.log1p(uses[:, 0])
    like = _Estimates(prior * moderation(base.variance), base.variance)
    here = _move_logit(*like, shifts)
    whole = _Counts(successes[:, 0], failures[:, 0])
    mean = whole.logit(here, model.concentration)
    for column, (level, shift) in enumerate(zip(levels, shifts, strict=True), start=1):
        inside = _Counts(successes[:, column], failures[:, column])
        mean = mean + _bucket_part(inside, whole, like, shift, (level.concentration, model.concentration))
    size = _effective_sample_size(uses, _doubts(model.concentration, base, levels, shifts))
    return Posterior(sigmoid(mean), size, mean)


class _Estimates(NamedTuple):
    """Numbers on the logit scale with their variances; arrays of shape (items,)."""

    logit: Floats
    variance: Floats


class _Counts(NamedTuple):
    """The rewards of items; arrays of shape (items,)."""

    successes: Floats
    failures: Floats

    def logit(self, prior: Floats, weight: Floats | float) -> Floats:
        """The logit of the beta-binomial mean, for a prior mean (a logit) with a weight in uses."""
        rate = np.clip(sigmoid(prior), EDGE, 1.0 - EDGE)
        won, lost = self.successes + weight * rate, self.failures + weight * (1.0 - rate)
        return np.asarray(np.log(won) - np.log(lost), dtype=np.float64)

    def without(self, other: _Counts) -> _Counts:
        return _Counts(*(np.maximum(mine - others, 0.0) for mine, others in zip(self, other, strict=True)))


def _move_logit(logit: Floats, variance: Floats, shifts: Sequence[_Estimates]) -> Floats:
    """The logit of the expected rate after these shifts of a logit that its variance has moderated."""
    total, total_variance = logit, variance
    for shift in shifts:
        total, total_variance = total + shift.logit, total_variance + shift.variance
    return total * moderation(total_variance) / moderation(variance)


def _bucket_part(
    inside: _Counts, whole: _Counts, like: _Estimates, shift: _Estimates, concentrations: tuple[float, float]
) -> Floats:
    """The shift of the items' logits by their events in a bucket, compared with those elsewhere only.

    ``like``: the estimate of similar items; ``concentrations``: in the bucket, and of the items.
    """
    own, concentration = concentrations
    elsewhere = whole.without(inside)
    weight = _in_series(elsewhere.successes + elsewhere.failures + concentration, 1.0 / own)
    expected = _move_logit(elsewhere.logit(like.logit, concentration), like.variance, [shift])
    usual = _move_logit(like.logit, like.variance, [shift])
    return inside.logit(expected, weight) - whole.logit(usual, concentration)


def _doubts(concentration: float, base: _Estimates, levels: Sequence[Level], shifts: Sequence[_Estimates]) -> Floats:
    """The variance of an item's rate, and of its rate in each bucket, relative to the variance of one event.

    Shape (items, 1 + buckets); above 0.
    """
    rate = sigmoid(base.logit)
    scale = DOUBT * rate * (1.0 - rate)
    columns = [1.0 / concentration + scale * base.variance]
    columns += [1.0 / level.concentration + scale * shift.variance for level, shift in zip(levels, shifts, strict=True)]
    return np.column_stack(columns)


def _effective_sample_size(uses: Floats, doubts: Floats) -> Floats:
    """The number of events in this context alone that would leave the same uncertainty, (items,).

    Computed from the item to its bucket with most events, and on to the one with fewest, as if each bucket were a part
    of the one before (the precision of a normal random-effects model). It depends on counts only, and rises with each.
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
    """The number of events one level further down that equal ``size`` events of this level."""
    return np.asarray(size / (1.0 + size * doubt), dtype=np.float64)


def _shift(model: Shrinkage, level: Level, bucket: str, clusters: Sequence[int | None]) -> _Estimates:
    whole = model.buckets.get(bucket, ShrunkEstimate(0.0, level.bucket_variance))
    unseen = ShrunkEstimate(0.0, level.cluster_variance)
    shifts = model.cluster_shifts.get(bucket, {})
    own = [unseen if cluster is None else shifts.get(cluster, unseen) for cluster in clusters]
    rows = pairs(own)
    return _Estimates(whole.logit + rows[:, 0], whole.variance + rows[:, 1])


def _as_rows(estimates: Mapping[int, ShrunkEstimate]) -> list[list[float]]:
    return [[number, *estimate] for number, estimate in estimates.items()]


def _by_number(rows: Sequence[Sequence[float]]) -> dict[int, ShrunkEstimate]:
    return {int(row[0]): ShrunkEstimate(float(row[1]), float(row[2])) for row in rows}


# The priors before the first event; variances are of logits.
CONCENTRATION, CONCENTRATION_SPREAD, MOST_CONCENTRATION = 8.0, 0.7, 12.0
"""The median of a lognormal prior on each level's concentration, in pseudo-uses; the standard deviation of its
logarithm; and the cap."""

COLLECTION_VARIANCE = 0.1
"""The variance of the collection's rate around one half: 35 to 65 % in 19 of 20 cases."""

BETWEEN_VARIANCE, BUCKET_VARIANCE, BETWEEN_WEIGHT = 0.4, 0.05, 4.0
"""The variance between item clusters, and between clusters in a bucket; between buckets, which differ less than items;
and the weight of either variance, as a number of clusters or buckets."""

USES_COEFFICIENT, USES_VARIANCE = 0.15, 0.01
"""The coefficient of ln(1 + uses), because items with more uses are usually better, and its variance."""

ROUNDS = 6
"""The rounds of fitting means, spreads and concentrations in turn, after which logits change by less than 0.01."""


def fit_shrinkage(table: ArmTable) -> Shrinkage:
    """The MAP estimate of each level, from the collection down."""
    model, prior_logit = _fit_items(table)
    levels: dict[str, Level] = {}
    buckets: dict[str, ShrunkEstimate] = {}
    shifts: dict[str, dict[int, ShrunkEstimate]] = {}
    for kind in table.kinds:
        elsewhere = _elsewhere(kind, table, model.concentration, prior_logit)
        levels[kind.kind], own_buckets, own_shifts = _fit_kind(kind, table, elsewhere)
        buckets |= own_buckets
        shifts |= own_shifts
    return replace(model, levels=levels, buckets=buckets, cluster_shifts=shifts)


def _fit_items(table: ArmTable) -> tuple[Shrinkage, Floats]:
    """The model without its buckets; and the prior mean, a logit, of each item's own events, (items,)."""
    from scipy.sparse import csr_array, hstack

    uses = table.successes + table.failures
    known = np.flatnonzero(table.cluster >= 0)
    entries = np.ones(len(known)), (known, table.cluster[known])
    in_cluster = csr_array(entries, shape=(len(uses), len(table.clusters)))
    design = csr_array(hstack([np.ones((len(uses), 1)), np.log1p(uses)[:, None], in_cluster]))
    centre, mean = np.zeros(2 + len(table.clusters)), np.zeros(len(uses))
    centre[1] = USES_COEFFICIENT
    beta = centre
    concentration, between = CONCENTRATION, BETWEEN_VARIANCE
    covariance: Floats = np.zeros((len(centre), len(centre)))
    for _ in range(ROUNDS):
        prior = np.array([COLLECTION_VARIANCE, USES_VARIANCE, *[between] * len(table.clusters)])
        beta, covariance = _newton(table, design, beta, (centre, prior), concentration)
        mean = design @ beta
        between = _spread(beta[2:], np.diag(covariance)[2:], BETWEEN_VARIANCE)
        concentration = _concentration(table.successes, table.failures, mean)
    beta[1] = min(float(beta[1]), _most_by_uses(concentration))
    variances = covariance[0, 0] + np.diag(covariance)[2:] + 2.0 * covariance[0, 2:]
    estimates = map(ShrunkEstimate, (beta[0] + beta[2:]).tolist(), variances.tolist())
    model = Shrinkage(
        anywhere=ShrunkEstimate(float(beta[0]), float(covariance[0, 0] + between)),
        uses_coefficient=float(beta[1]),
        concentration=concentration,
        clusters=dict(zip(table.clusters, estimates, strict=True)),
    )
    return model, mean


def _newton(
    table: ArmTable, design: csr_array, beta: Floats, prior: tuple[Floats, Floats], concentration: float
) -> tuple[Floats, Floats]:
    """Quasi-likelihood steps of a beta-binomial regression on collection, ln(1 + uses) and cluster.

    An item of n uses has the weight of n (m + 1) / (m + n) uses, where m is the concentration (McCullagh and Nelder,
    Generalized Linear Models, 4.5). The coefficient of uses is limited to 0 to log2(1 + 1 / m), at most 1, so that a
    further success never lowers an item's estimate and a further failure never raises it.
    """
    uses = table.successes + table.failures
    weight = (concentration + 1.0) / (concentration + np.maximum(uses, 1.0))
    beta = beta.copy()
    prior_mean, prior_variance = prior
    covariance: Floats = np.zeros((len(beta), len(beta)))
    for _ in range(8):
        mean = sigmoid(design @ beta)
        slope = weight * (table.successes - uses * mean)
        curve = weight * uses * mean * (1.0 - mean)
        information = (design.T @ design.multiply(curve[:, None])).toarray() + np.diag(1.0 / prior_variance)
        gradient = design.T @ slope - (beta - prior_mean) / prior_variance
        covariance = np.asarray(np.linalg.inv(information), dtype=np.float64)
        step = np.clip(covariance @ gradient, -2.0, 2.0)
        beta += step
        beta[1] = min(max(float(beta[1]), 0.0), _most_by_uses(concentration))
        if float(np.abs(step).max()) < 1e-6:
            break
    return beta, covariance


def _most_by_uses(concentration: float) -> float:
    return min(1.0, math.log2(1.0 + 1.0 / concentration))


def _fit_kind(
    kind: BucketArms, table: ArmTable, elsewhere: _Estimates
) -> tuple[Level, dict[str, ShrunkEstimate], dict[str, dict[int, ShrunkEstimate]]]:
    """The level of a kind, and the shifts of its buckets and of clusters in them, against the rates ``elsewhere``."""
    cluster = table.cluster[kind.item]
    shape = (len(kind.names), len(table.clusters))
    bucket, own = np.zeros(shape[0]), np.zeros(shape)
    bucket_variance, own_variance = np.zeros(shape[0]), np.zeros(shape)
    spread, own_spread, concentration = BUCKET_VARIANCE, BETWEEN_VARIANCE, CONCENTRATION
    for _ in range(ROUNDS):
        bucket, bucket_variance, own, own_variance = _shifts(
            kind, cluster, elsewhere, (bucket, own), (spread, own_spread, concentration)
        )
        spread = _spread(bucket, bucket_variance, BUCKET_VARIANCE)
        own_spread = _spread(own.ravel(), own_variance.ravel(), BETWEEN_VARIANCE)
        mean = elsewhere.logit + bucket[kind.bucket] + _by_both(own, kind.bucket, cluster)
        concentration = _concentration(kind.successes, kind.failures, mean, elsewhere.variance)
    shifts = map(ShrunkEstimate, bucket.tolist(), bucket_variance.tolist())
    by_bucket = zip(own.tolist(), own_variance.tolist(), strict=True)
    own_shifts = [dict(zip(table.clusters, map(ShrunkEstimate, *pair), strict=True)) for pair in by_bucket]
    return (
        Level(concentration, spread, own_spread),
        dict(zip(kind.names, shifts, strict=True)),
        dict(zip(kind.names, own_shifts, strict=True)),
    )


def _elsewhere(kind: BucketArms, table: ArmTable, concentration: float, prior_logit: Floats) -> _Estimates:
    """Each item's rate by its events outside a bucket; arrays of shape (arms,)."""
    prior = sigmoid(prior_logit)[kind.item]
    a = np.maximum(table.successes[kind.item] - kind.successes, 0.0) + concentration * prior
    b = np.maximum(table.failures[kind.item] - kind.failures, 0.0) + concentration * (1.0 - prior)
    return _Estimates(np.log(a) - np.log(b), 1.0 / a + 1.0 / b)


def _shifts(
    kind: BucketArms,
    cluster: Ints,
    elsewhere: _Estimates,
    start: tuple[Floats, Floats],
    spreads: tuple[float, float, float],
) -> tuple[Floats, Floats, Floats, Floats]:
    """Newton steps from a start; ``spreads``: between buckets, between clusters in a bucket, and the concentration."""
    bucket, own = start
    uses = kind.successes + kind.failures
    has_cluster = cluster >= 0
    clusters = own.shape[1]
    for _ in range(4):
        mean = sigmoid(elsewhere.logit + bucket[kind.bucket] + _by_both(own, kind.bucket, cluster))
        weighing = _dilute(spreads[2], mean, elsewhere.variance)
        weight = (weighing + 1.0) / (weighing + np.maximum(uses, 1.0))
        slope, curve = weight * (kind.successes - uses * mean), weight * uses * mean * (1.0 - mean)
        cell = kind.bucket[has_cluster] * clusters + cluster[has_cluster]
        slopes = _sums(slope[has_cluster], cell, own.size).reshape(own.shape) - own / spreads[1]
        curves = _sums(curve[has_cluster], cell, own.size).reshape(own.shape)
        others = _sums(curve[~has_cluster], kind.bucket[~has_cluster], len(bucket))
        totals = _sums(slope, kind.bucket, len(bucket)) - bucket / spreads[0]
        precision = curves + 1.0 / spreads[1]
        # The bucket's shift after eliminating its clusters' shifts: an arrow-shaped system.
        denominator = others + 1.0 / spreads[0] + (curves - curves**2 / precision).sum(axis=1)
        step = (totals - (curves * slopes / precision).sum(axis=1)) / denominator
        bucket = bucket + np.clip(step, -2.0, 2.0)
        own = own + np.clip((slopes - curves * step[:, None]) / precision, -2.0, 2.0)
    return bucket, 1.0 / denominator, own, 1.0 / precision


def _dilute(concentration: float, mean: Floats, variance: Floats) -> Floats:
    """The concentration of a Beta distribution with an uncertain mean: variances add up on the logit scale."""
    return concentration / (1.0 + concentration * mean * (1.0 - mean) * variance)


def _concentration(
    successes: Floats, failures: Floats, prior_logit: Floats, prior_variance: Floats | None = None
) -> float:
    """The MAP concentration of beta-binomial counts around known means, at most the cap."""
    from scipy.optimize import minimize_scalar
    from scipy.special import betaln

    used = successes + failures > 0
    won, lost, mean = successes[used], failures[used], sigmoid(prior_logit[used])
    variance = np.zeros(len(won)) if prior_variance is None else prior_variance[used]

    def cost(log_concentration: float) -> float:
        m = _dilute(math.exp(log_concentration), mean, variance)
        likelihood = betaln(won + m * mean, lost + m * (1 - mean)) - betaln(m * mean, m * (1 - mean))
        deviation = (log_concentration - math.log(CONCENTRATION)) / CONCENTRATION_SPREAD
        return float(deviation**2 / 2 - likelihood.sum())

    bounds = (math.log(0.5), math.log(MOST_CONCENTRATION))
    return math.exp(float(minimize_scalar(cost, bounds=bounds, method="bounded").x))


def _spread(estimates: Floats, variances: Floats, prior: float) -> float:
    """The variance between effects: an EM step with a prior (Dempster, Laird and Rubin, 1977)."""
    total = float((estimates**2 + variances).sum()) + BETWEEN_WEIGHT * prior
    return total / (len(estimates) + BETWEEN_WEIGHT)


def _sums(values: Floats, index: Ints, length: int) -> Floats:
    valid = index >= 0
    sums = np.bincount(index[valid], weights=values[valid], minlength=length)[:length]
    return sums.astype(np.float64)


def _by_both(effects: Floats, bucket: Ints, cluster: Ints) -> Floats:
    padded = np.concatenate([effects, np.zeros((len(effects), 1))], axis=1)
    return np.asarray(padded[bucket, cluster], dtype=np.float64)
