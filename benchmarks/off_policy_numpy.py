"""Off-policy estimates in NumPy: what another policy would have earned on recorded traffic.

The product computes them in the database (``sql/learning/off_policy.sql``). The tests compare its SQL with this module,
and the simulations call this module, because they have no database.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.learning.off_policy import CLIP, Estimate, Estimator, Weighing

Floats = NDArray[np.float64]


Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Impressions with what they earned, and what the target thinks of them.

    Raises ``InvalidRequestError`` for shapes that do not fit, a propensity outside 0 to 1 (0 excluded), a target
    probability outside 0 to 1, or a retrieval number without a place in ``expected``.
    """

    retrieval: Ints
    """Shape (impressions,): the number of its retrieval, from 0."""
    propensity: Floats
    """Shape (impressions,): the probability with which it was shown."""
    target: Floats
    """Shape (impressions,): the probability with which the target shows it; 0: never."""
    reward: Floats
    """Shape (impressions,): 0 to 1; NaN: no feedback, which is not a failure."""
    expected: Floats
    """Shape (retrievals,): how many items the target shows, on average."""
    modelled: Floats
    """Shape (impressions,): a model's guess of the reward, made without looking at this retrieval."""
    direct: Floats
    """Shape (retrievals,): Σ over all the target may show of its probability × the modelled reward."""

    def __post_init__(self) -> None:
        each = (self.retrieval, self.propensity, self.target, self.reward, self.modelled)
        if any(column.shape != self.retrieval.shape or column.ndim != 1 for column in each):
            raise InvalidRequestError("traffic needs one retrieval, propensity, target, reward and model an impression")
        if self.expected.ndim != 1 or self.expected.shape != self.direct.shape:
            raise InvalidRequestError("traffic needs one expected slate size and one direct estimate a retrieval")
        if self.retrieval.size and not 0 <= self.retrieval.min() <= self.retrieval.max() < self.expected.size:
            raise InvalidRequestError(f"retrievals are numbered from 0 to {self.expected.size - 1}")
        if not ((self.propensity > 0) & (self.propensity <= 1)).all():
            raise InvalidRequestError("a propensity is not above 0 and at most 1; record it when the slate is drawn")
        if not ((self.target >= 0) & (self.target <= 1)).all():
            raise InvalidRequestError("a target probability is not within 0 to 1")

    @classmethod
    def of_rows(
        cls,
        *,
        propensity: Sequence[float] | Floats,
        target: Sequence[float] | Floats,
        reward: Sequence[float] | Floats,
        retrieval: Sequence[int] | Ints | None = None,
        expected: Sequence[float] | Floats | None = None,
        modelled: Sequence[float] | Floats | None = None,
        direct: Sequence[float] | Floats | None = None,
    ) -> Traffic:
        """The traffic in those columns; without ``retrieval``, each row is one of its own that shows one item.

        Without ``expected`` the target shows as many items as were shown; without a model, it guesses 0.
        """
        propensities = np.asarray(propensity, dtype=np.float64)
        numbers = np.arange(propensities.size) if retrieval is None else np.asarray(retrieval, dtype=np.int64)
        sizes = np.bincount(numbers).astype(np.float64) if expected is None else np.asarray(expected, dtype=np.float64)
        return cls(
            retrieval=numbers,
            propensity=propensities,
            target=np.asarray(target, dtype=np.float64),
            reward=np.asarray(reward, dtype=np.float64),
            expected=sizes,
            modelled=np.zeros(propensities.shape) if modelled is None else np.asarray(modelled, dtype=np.float64),
            direct=np.zeros(sizes.shape) if direct is None else np.asarray(direct, dtype=np.float64),
        )

    def with_default(self, reward: float | None) -> Traffic:
        """The same traffic, an impression that nobody rated counting as that reward; None: as nothing."""
        if reward is None:
            return self
        if not 0 <= reward <= 1:
            raise InvalidRequestError(f"the default reward is {reward}; it must be 0 to 1, or None for none")
        return replace(self, reward=np.where(self.is_rated, self.reward, reward))

    @property
    def weights(self) -> Floats:
        """Shape (impressions,): how much more often the target shows it."""
        return self.target / self.propensity

    @property
    def is_rated(self) -> NDArray[np.bool_]:
        """Shape (impressions,): whether there is a reward."""
        return ~np.isnan(self.reward)

    @property
    def shown(self) -> Floats:
        """Shape (retrievals,): how many impressions each has."""
        return self.by_retrieval(np.ones(self.retrieval.shape))

    @property
    def rated(self) -> Floats:
        """Shape (retrievals,): how many of them have a reward."""
        return self.by_retrieval(self.is_rated.astype(np.float64))

    def by_retrieval(self, values: Floats) -> Floats:
        """The sums of the impressions' values, shape (retrievals,)."""
        return np.bincount(self.retrieval, weights=values, minlength=self.expected.size).astype(np.float64)


def weigh(traffic: Traffic) -> Weighing:
    """The weights of the traffic's target."""
    weights, rated = traffic.weights, traffic.by_retrieval(np.where(traffic.is_rated, traffic.weights, 0.0))
    is_shown = traffic.shown > 0
    sums, expected = traffic.by_retrieval(weights)[is_shown], traffic.expected[is_shown]
    squares = float(np.square(rated).sum())
    return Weighing(
        retrievals=int(is_shown.sum()),
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


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of an estimate by retrieval: the value is Σ numerator / Σ denominator."""

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
    """Estimates what the target would have earned, by estimator. ``clip``: the most that a weight counts."""
    return {estimator: terms.estimate() for estimator, terms in all_terms(traffic, clip=clip).items()}


def differences(first: Traffic, second: Traffic, *, clip: float | None = None) -> dict[Estimator, Estimate]:
    """The first target's value minus the second's on the same traffic, by estimator.

    Both weigh the same rewards, so the error of the difference is that of the retrievals' differences.
    """
    ones, others = all_terms(first, clip=clip), all_terms(second, clip=clip)
    return {estimator: _difference(ones[estimator], others[estimator]) for estimator in Estimator}


def all_terms(traffic: Traffic, *, clip: float | None = None) -> Mapping[Estimator, Terms]:
    """Gives each rated retrieval's terms, by estimator.

    IPS and DR divide by the impressions that the target would have shown, times the share of the retrieval's
    impressions that are rated; with every impression rated, that is the target's expected slate size.
    """
    weights = traffic.weights if clip is None else np.minimum(traffic.weights, clip)
    weights = np.where(traffic.is_rated, weights, 0.0)
    rewards = np.where(traffic.is_rated, traffic.reward, 0.0)
    share = traffic.rated / np.maximum(traffic.shown, 1)
    is_rated = traffic.rated > 0
    earned = traffic.by_retrieval(weights * rewards)[is_rated]
    corrected = traffic.by_retrieval(weights * (rewards - traffic.modelled))[is_rated]
    expected = (share * traffic.expected)[is_rated]
    return {
        Estimator.IPS: Terms(earned, expected),
        Estimator.SNIPS: Terms(earned, traffic.by_retrieval(weights)[is_rated]),
        Estimator.DR: Terms((share * traffic.direct)[is_rated] + corrected, expected),
    }


def _difference(first: Terms, second: Terms) -> Estimate:
    value, residuals = first.residuals()
    other, others = second.residuals()
    return Estimate(value=value - other, standard_error=_error(residuals - others))


def _error(residuals: Floats) -> float:
    if residuals.size < 2:
        return math.nan
    return math.sqrt(residuals.size / (residuals.size - 1) * float(np.square(residuals).sum()))
