"""The importance weights of recorded traffic, summed up."""

from __future__ import annotations

import math

import numpy as np

from retrieval.domain.estimate import CLIP
from retrieval.domain.weighing import Weighing
from retrieval.learning.traffic import Floats, Traffic


def weigh(traffic: Traffic) -> Weighing:
    """The weights of the traffic's target."""
    weights, rated = traffic.weights, traffic.by_retrieval(np.where(traffic.is_rated, traffic.weights, 0.0))
    kept = traffic.shown > 0
    sums, expected = traffic.by_retrieval(weights)[kept], traffic.expected[kept]
    squares = float(np.square(rated).sum())
    return Weighing(
        retrievals=int(kept.sum()),
        impressions=weights.size,
        rated=int(traffic.is_rated.sum()),
        effective_sample_size=float(rated.sum()) ** 2 / squares if squares else 0.0,
        mean_weight=_mean(sums),
        expected_weight=_mean(expected),
        weight_error=_mean_error(sums - expected),
        max_weight=float(weights.max()) if weights.size else math.nan,
        clipped=int((weights > CLIP).sum()),
    )


def _mean(values: Floats) -> float:
    return float(values.mean()) if values.size else math.nan


def _mean_error(values: Floats) -> float:
    return float(values.std(ddof=1)) / math.sqrt(values.size) if values.size > 1 else math.nan
