"""Oracles of probability: chi-square tests of drawn slates, and Thompson sampling by integration."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

Floats = NDArray[np.float64]


def p_value(counts: Floats, expected: Floats, covariance: Floats) -> float:
    """The probability of counts at least this far from the expected ones, if the propensities are right.

    ``counts`` and ``expected`` have the shape (candidates,), ``covariance`` is that of the counts. Slates may each have
    had other propensities: what was drawn minus its probability adds up to 0 on average, and so do the covariances.
    """
    off = counts - expected
    degrees = int(np.linalg.matrix_rank(covariance, hermitian=True))
    return float(chdtrc(degrees, off @ np.linalg.pinv(covariance, hermitian=True) @ off))


def covariance_of_one(joint: Floats) -> Floats:
    """The covariance of one drawing; ``joint[i, j]`` is the probability that i and j are both drawn."""
    single = np.diag(joint)
    return joint - np.outer(single, single)


Function = Callable[[Floats], Floats]


def beta_in_logits(successes: float, failures: float) -> tuple[Function, Function]:
    """Density and distribution of logit(X), X of Beta(successes + 1, failures + 1)."""
    from scipy import stats

    law = stats.beta(successes + 1, failures + 1)

    def density(logits: Floats) -> Floats:
        rate = 1 / (1 + np.exp(-logits))
        return np.asarray(law.pdf(rate) * rate * (1 - rate), dtype=float)

    return density, lambda logits: np.asarray(law.cdf(1 / (1 + np.exp(-logits))), dtype=float)


def normal(mean: float, deviation: float) -> tuple[Function, Function]:
    """Density and distribution of a logit-normal reward, on the logit scale."""
    from scipy import stats

    law = stats.norm(mean, deviation)
    return law.pdf, law.cdf


def on_top(laws: Sequence[tuple[Function, Function]], slots: int, points: int = 8001) -> Floats:
    """The probability of each to be among the best ``slots``, 1 or 2: ∫ f_i(x) P(fewer than slots rivals > x) dx."""
    grid = np.linspace(-20, 20, points)
    below = np.clip([distribution(grid) for _, distribution in laws], 1e-300, 1.0)
    probabilities = []
    for place, (density, _) in enumerate(laws):
        rivals = np.delete(below, place, axis=0)
        chance = rivals.prod(axis=0)
        if slots == 2:
            chance = chance * (1 + ((1 - rivals) / rivals).sum(axis=0))
        probabilities.append(float(np.trapezoid(density(grid) * chance, grid)))
    return np.array(probabilities)
