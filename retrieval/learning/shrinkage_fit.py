"""Fits the collection's part of the shrinkage from all arms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from retrieval.learning.arm_table import ArmTable, BucketArms, Floats, Ints
from retrieval.learning.logit import sigmoid
from retrieval.learning.shrinkage import Estimate, Level, Shrinkage


@dataclass(frozen=True, slots=True, kw_only=True)
class Priors:
    """What is believed before the first event; variances are of logits."""

    concentration: float = 8.0
    """The median of a lognormal prior on each level's concentration, in pseudo-uses."""
    concentration_spread: float = 0.7
    """The standard deviation of its logarithm."""
    most_concentration: float = 12.0
    """The cap."""
    collection_variance: float = 0.1
    """Of the collection's rate around one half: from 35 to 65 % in 19 of 20 cases. First events are of few items."""
    between_variance: float = 0.4
    """Between item clusters, and between clusters in a bucket."""
    bucket_variance: float = 0.05
    """Between buckets: items differ more than domains do."""
    between_weight: float = 4.0
    """Either weighs like so many clusters or buckets."""
    uses_coefficient: float = 0.15
    """Of ln(1 + uses): what is shown and used more is usually better, and speaks for the rest too loudly."""
    uses_variance: float = 0.01


ROUNDS = 6
"""Means, spreads and concentrations are fitted in turn; the logits move by less than 0.01 after so many."""


def fit_shrinkage(table: ArmTable, priors: Priors | None = None) -> Shrinkage:
    """The MAP estimate of each level, from the collection down."""
    priors = priors or Priors()
    items = _fit_items(table, priors)
    levels: dict[str, Level] = {}
    buckets: dict[str, Estimate] = {}
    shifts: dict[str, dict[int, Estimate]] = {}
    for kind in table.kinds:
        fitted = _fit_kind(kind, table, items, priors)
        levels[kind.kind] = fitted.level
        buckets |= fitted.buckets
        shifts |= fitted.cluster_shifts
    return Shrinkage(
        anywhere=items.anywhere,
        uses_coefficient=items.uses_coefficient,
        concentration=items.concentration,
        clusters=dict(zip(table.clusters, items.clusters, strict=True)),
        levels=levels,
        buckets=buckets,
        cluster_shifts=shifts,
    )


class _Items(NamedTuple):
    """The level of items."""

    anywhere: Estimate
    uses_coefficient: float
    concentration: float
    clusters: list[Estimate]
    prior_logit: Floats
    """(items,): what each item's own events are shrunk towards."""


def _fit_items(table: ArmTable, priors: Priors) -> _Items:
    uses = table.successes + table.failures
    exposure = np.log1p(uses)
    centre, mean = np.zeros(2 + len(table.clusters)), np.zeros(len(uses))
    centre[1] = priors.uses_coefficient
    beta = centre
    concentration, between = priors.concentration, priors.between_variance
    covariance: Floats = np.zeros((len(centre), len(centre)))
    for _ in range(ROUNDS):
        prior = np.array([priors.collection_variance, priors.uses_variance, *[between] * len(table.clusters)])
        beta, covariance = _newton(table, exposure, beta, (centre, prior), concentration)
        mean = beta[0] + beta[1] * exposure + _by_cluster(beta[2:], table.cluster)
        between = _spread(beta[2:], np.diag(covariance)[2:], priors.between_variance, priors.between_weight)
        concentration = _concentration(table.successes, table.failures, mean, priors)
    beta[1] = min(float(beta[1]), _most_by_uses(concentration))
    clusters = [
        Estimate(float(beta[0] + beta[2 + k]), float(_sum_variance(covariance, 0, 2 + k)))
        for k in range(len(table.clusters))
    ]
    anywhere = Estimate(float(beta[0]), float(covariance[0, 0] + between))
    return _Items(anywhere, float(beta[1]), concentration, clusters, mean)


def _newton(
    table: ArmTable, exposure: Floats, beta: Floats, prior: tuple[Floats, Floats], concentration: float
) -> tuple[Floats, Floats]:
    """Quasi-likelihood steps of a beta-binomial regression on collection, ln(1 + uses) and cluster.

    An item of n uses weighs like n (m + 1) / (m + n) of them, m being the concentration (McCullagh and Nelder,
    Generalized Linear Models, 4.5). The coefficient of uses stays between 0 and log2(1 + 1 / m), at most 1: within it,
    a whole success more never lowers an item's estimate and a whole failure more never raises it.
    """
    uses = table.successes + table.failures
    weight = (concentration + 1.0) / (concentration + np.maximum(uses, 1.0))
    beta = beta.copy()
    prior_mean, prior_variance = prior
    covariance: Floats = np.zeros((len(beta), len(beta)))
    for _ in range(8):
        mean = sigmoid(beta[0] + beta[1] * exposure + _by_cluster(beta[2:], table.cluster))
        slope = weight * (table.successes - uses * mean)
        curve = weight * uses * mean * (1.0 - mean)
        information = _cross(curve, exposure, table.cluster, len(table.clusters)) + np.diag(1.0 / prior_variance)
        gradient = _against(slope, exposure, table.cluster, len(table.clusters)) - (beta - prior_mean) / prior_variance
        covariance = np.asarray(np.linalg.inv(information), dtype=np.float64)
        step = np.clip(covariance @ gradient, -2.0, 2.0)
        beta += step
        beta[1] = min(max(float(beta[1]), 0.0), _most_by_uses(concentration))
        if float(np.abs(step).max()) < 1e-6:
            break
    return beta, covariance


def _most_by_uses(concentration: float) -> float:
    return min(1.0, math.log2(1.0 + 1.0 / concentration))


def _cross(weight: Floats, exposure: Floats, cluster: Ints, clusters: int) -> Floats:
    """XᵀWX of the columns 1, exposure and one for each cluster."""
    found = np.zeros((2 + clusters, 2 + clusters))
    found[0, 0], found[0, 1], found[1, 1] = weight.sum(), weight @ exposure, weight @ exposure**2
    found[0, 2:] = _sums(weight, cluster, clusters)
    found[1, 2:] = _sums(weight * exposure, cluster, clusters)
    found += np.triu(found, 1).T
    found[range(2, 2 + clusters), range(2, 2 + clusters)] = found[0, 2:]
    return found


def _against(values: Floats, exposure: Floats, cluster: Ints, clusters: int) -> Floats:
    return np.concatenate([[values.sum(), values @ exposure], _sums(values, cluster, clusters)])


class _Kind(NamedTuple):
    """The level of items in the buckets of one kind."""

    level: Level
    buckets: dict[str, Estimate]
    cluster_shifts: dict[str, dict[int, Estimate]]


def _fit_kind(kind: BucketArms, table: ArmTable, items: _Items, priors: Priors) -> _Kind:
    """The shifts of buckets and of clusters in them, around what each item earned in the *other* buckets.

    Counting its events here on both sides would make items look the same everywhere.
    """
    elsewhere = _elsewhere(kind, table, items)
    cluster = table.cluster[kind.item]
    shape = (len(kind.names), len(table.clusters))
    bucket, own = np.zeros(shape[0]), np.zeros(shape)
    bucket_variance, own_variance = np.zeros(shape[0]), np.zeros(shape)
    spread, own_spread, concentration = priors.bucket_variance, priors.between_variance, priors.concentration
    for _ in range(ROUNDS):
        bucket, bucket_variance, own, own_variance = _shifts(
            kind, cluster, elsewhere, (bucket, own), (spread, own_spread, concentration)
        )
        spread = _spread(bucket, bucket_variance, priors.bucket_variance, priors.between_weight)
        own_spread = _spread(own.ravel(), own_variance.ravel(), priors.between_variance, priors.between_weight)
        mean = elsewhere.logit + bucket[kind.bucket] + _by_both(own, kind.bucket, cluster)
        concentration = _concentration(kind.successes, kind.failures, mean, priors, elsewhere.variance)
    return _Kind(
        Level(concentration, spread, own_spread),
        {name: Estimate(float(bucket[b]), float(bucket_variance[b])) for b, name in enumerate(kind.names)},
        {
            name: {
                number: Estimate(float(own[b, k]), float(own_variance[b, k])) for k, number in enumerate(table.clusters)
            }
            for b, name in enumerate(kind.names)
        },
    )


class _Elsewhere(NamedTuple):
    """Each item's rate by its events outside a bucket; arrays (arms,)."""

    logit: Floats
    variance: Floats


def _elsewhere(kind: BucketArms, table: ArmTable, items: _Items) -> _Elsewhere:
    prior = sigmoid(items.prior_logit)[kind.item]
    a = np.maximum(table.successes[kind.item] - kind.successes, 0.0) + items.concentration * prior
    b = np.maximum(table.failures[kind.item] - kind.failures, 0.0) + items.concentration * (1.0 - prior)
    return _Elsewhere(np.log(a) - np.log(b), 1.0 / a + 1.0 / b)


def _shifts(
    kind: BucketArms,
    cluster: Ints,
    elsewhere: _Elsewhere,
    start: tuple[Floats, Floats],
    spreads: tuple[float, float, float],
) -> tuple[Floats, Floats, Floats, Floats]:
    """Newton steps from a start; ``spreads``: between buckets, between clusters in a bucket, and the concentration."""
    bucket, own = start
    uses = kind.successes + kind.failures
    known = cluster >= 0
    clusters = own.shape[1]
    for _ in range(4):
        mean = sigmoid(elsewhere.logit + bucket[kind.bucket] + _by_both(own, kind.bucket, cluster))
        weighing = _diluted(spreads[2], mean, elsewhere.variance)
        weight = (weighing + 1.0) / (weighing + np.maximum(uses, 1.0))
        slope, curve = weight * (kind.successes - uses * mean), weight * uses * mean * (1.0 - mean)
        cell = kind.bucket[known] * clusters + cluster[known]
        slopes = _sums(slope[known], cell, own.size).reshape(own.shape) - own / spreads[1]
        curves = _sums(curve[known], cell, own.size).reshape(own.shape)
        others = _sums(curve[~known], kind.bucket[~known], len(bucket))
        totals = _sums(slope, kind.bucket, len(bucket)) - bucket / spreads[0]
        precision = curves + 1.0 / spreads[1]
        # The bucket's own shift with its clusters' eliminated: an arrow-shaped system.
        left = others + 1.0 / spreads[0] + (curves - curves**2 / precision).sum(axis=1)
        step = (totals - (curves * slopes / precision).sum(axis=1)) / left
        bucket = bucket + np.clip(step, -2.0, 2.0)
        own = own + np.clip((slopes - curves * step[:, None]) / precision, -2.0, 2.0)
    return bucket, 1.0 / left, own, 1.0 / precision


def _diluted(concentration: float, mean: Floats, variance: Floats) -> Floats:
    """The concentration of a Beta whose mean is itself uncertain: variances add up on the logit scale."""
    return concentration / (1.0 + concentration * mean * (1.0 - mean) * variance)


def _concentration(
    successes: Floats, failures: Floats, prior_logit: Floats, priors: Priors, prior_variance: Floats | None = None
) -> float:
    """The MAP concentration of beta-binomial counts around known means, at most the cap."""
    from scipy.optimize import minimize_scalar
    from scipy.special import betaln

    used = successes + failures > 0
    won, lost, mean = successes[used], failures[used], sigmoid(prior_logit[used])
    variance = np.zeros(len(won)) if prior_variance is None else prior_variance[used]

    def cost(log_concentration: float) -> float:
        m = _diluted(math.exp(log_concentration), mean, variance)
        likelihood = betaln(won + m * mean, lost + m * (1 - mean)) - betaln(m * mean, m * (1 - mean))
        off = (log_concentration - math.log(priors.concentration)) / priors.concentration_spread
        return float(off**2 / 2 - likelihood.sum())

    bounds = (math.log(0.5), math.log(priors.most_concentration))
    return math.exp(float(minimize_scalar(cost, bounds=bounds, method="bounded").x))


def _spread(estimates: Floats, variances: Floats, prior: float, weight: float) -> float:
    """The variance between effects: an EM step, held by the prior (Dempster, Laird and Rubin, 1977)."""
    total = float((estimates**2 + variances).sum()) + weight * prior
    return total / (len(estimates) + weight)


def _sums(values: Floats, index: Ints, length: int) -> Floats:
    kept = index >= 0
    found = np.bincount(index[kept], weights=values[kept], minlength=length)[:length]
    return found.astype(np.float64)


def _by_cluster(effects: Floats, cluster: Ints) -> Floats:
    return np.append(effects, 0.0)[cluster]


def _by_both(effects: Floats, bucket: Ints, cluster: Ints) -> Floats:
    padded = np.concatenate([effects, np.zeros((len(effects), 1))], axis=1)
    return np.asarray(padded[bucket, cluster], dtype=np.float64)


def _sum_variance(covariance: Floats, first: int, second: int) -> float:
    return float(covariance[first, first] + covariance[second, second] + 2.0 * covariance[first, second])
