"""Off-policy estimates: what another policy would have earned on traffic that was recorded under this one.

Every impression was shown with a known propensity p; the other policy, the target, would have shown it with
probability t. Weighing each reward by w = t / p makes the recorded traffic look like the target's:

- IPS: inverse propensity scores (Horvitz and Thompson 1952; Strehl and others, NIPS 2010). Unbiased, may vary much.
- SNIPS: the same over the sum of the weights (Swaminathan and Joachims, NIPS 2015). Bounded by the rewards.
- DR: doubly robust (Dudík, Langford and Li, ICML 2011): modelled rewards of everything that the target shows, and IPS
  on what the model gets wrong.

All are by item (independent IPS: McInerney and others, KDD 2020): what an item earns does not depend on its neighbours.
A value is the mean reward of an impression. Each is a ratio of two sums over retrievals, and retrievals, not
impressions, are what is independent, so standard errors are the linearised ones, clustered by retrieval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from retrieval.domain.estimate import Estimate, Estimator
from retrieval.learning.traffic import Floats, Traffic


@dataclass(frozen=True, slots=True)
class Terms:
    """What each retrieval adds to an estimate: the value is Σ numerator / Σ denominator."""

    numerator: Floats
    """Shape (retrievals,)."""
    denominator: Floats
    """Shape (retrievals,), at least 0."""

    def estimate(self) -> Estimate:
        """The value, with Σ (numerator - value × denominator)² as the variance of the numerator's sum.

        Cochran, *Sampling Techniques*, 1977, section 6.3; with n / (n - 1) for the few.
        """
        value, residuals = self.residuals()
        return Estimate(value=value, standard_error=_error(residuals))

    def residuals(self) -> tuple[float, Floats]:
        """The value, and each retrieval's share of its error, shape (retrievals,)."""
        total = float(self.denominator.sum())
        if self.denominator.size == 0 or total <= 0:
            return math.nan, np.full(self.denominator.shape, math.nan)
        value = float(self.numerator.sum()) / total
        return value, (self.numerator - value * self.denominator) / total


def estimates(traffic: Traffic, *, clip: float | None = None) -> dict[Estimator, Estimate]:
    """What the target would have earned, by estimator. ``clip``: the most that a weight counts."""
    return {estimator: terms.estimate() for estimator, terms in all_terms(traffic, clip=clip).items()}


def differences(first: Traffic, second: Traffic, *, clip: float | None = None) -> dict[Estimator, Estimate]:
    """The first target's value minus the second's on the same traffic, by estimator.

    Both weigh the same rewards, so the error of the difference is that of the retrievals' differences.
    """
    ones, others = all_terms(first, clip=clip), all_terms(second, clip=clip)
    return {estimator: _difference(ones[estimator], others[estimator]) for estimator in Estimator}


def all_terms(traffic: Traffic, *, clip: float | None = None) -> Mapping[Estimator, Terms]:
    """What each rated retrieval adds, by estimator.

    IPS and DR divide by the impressions that the target would have shown, times the share of the retrieval's
    impressions that are rated; with every impression rated, that is the target's expected slate size.
    """
    weights = traffic.weights if clip is None else np.minimum(traffic.weights, clip)
    weights = np.where(traffic.is_rated, weights, 0.0)
    rewards = np.where(traffic.is_rated, traffic.reward, 0.0)
    share = traffic.rated / np.maximum(traffic.shown, 1)
    kept = traffic.rated > 0
    earned = traffic.by_retrieval(weights * rewards)[kept]
    corrected = traffic.by_retrieval(weights * (rewards - traffic.modelled))[kept]
    expected = (share * traffic.expected)[kept]
    return {
        Estimator.IPS: Terms(earned, expected),
        Estimator.SNIPS: Terms(earned, traffic.by_retrieval(weights)[kept]),
        Estimator.DR: Terms((share * traffic.direct)[kept] + corrected, expected),
    }


def _difference(first: Terms, second: Terms) -> Estimate:
    value, residuals = first.residuals()
    other, others = second.residuals()
    return Estimate(value=value - other, standard_error=_error(residuals - others))


def _error(residuals: Floats) -> float:
    if residuals.size < 2:
        return math.nan
    return math.sqrt(residuals.size / (residuals.size - 1) * float(np.square(residuals).sum()))
