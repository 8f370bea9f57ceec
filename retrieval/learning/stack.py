"""The logit stack: a logistic model of few signals, including the learned reward, with weights fitted to feedback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from retrieval.domain.serialization import Serializable
from retrieval.learning.arm_table import Floats
from retrieval.learning.logistic import RELEVANCE
from retrieval.learning.logit import EDGE, sigmoid

LEARNED, AFFINITY, LENGTH = "learned", "affinity", "length"
"""The logit of an item's expected reward; the similarity of the query to the queries for which the item was rewarded
(cosine above 0.5); the logarithm of its length."""

OF_ITEMS = frozenset({LEARNED})
"""Signals of the rewards of single items, independent of the question. Other signals depend on the question, or are
properties of all items."""

AFFINITY_FROM = 0.5
"""Cosines up to this carry no information: two questions of a collection are so similar by chance."""

MOST_WRONG = 0.4
"""The largest share of wrong verdicts; if half of them were wrong, they would carry no information."""

LEAST_VARIANCE = 1e-9
"""The variance if the learned reward has no weight: the probability is practically certain."""


class _Prior(NamedTuple):
    mean: float
    sd: float
    least: float | None


# Without feedback, relevance decides the order, with little influence of other signals. The means are about those of
# fits to the judgements of whole pools; leaving out any of six tasks hardly changes them. Verdicts alone say little on
# the weight of relevance, because they are about the first hits, all of which are relevant.
_PRIORS = {
    RELEVANCE: _Prior(10.0, 1.0, 0.0),
    LEARNED: _Prior(0.2, 0.2, 0.0),
    AFFINITY: _Prior(3.0, 2.0, 0.0),
    LENGTH: _Prior(0.0, 0.5, None),
}
_LEG = _Prior(0.0, 0.7, None)
_INTERCEPT = _Prior(-1.5, 2.0, None)
_POSITION = _Prior(0.0, 0.5, None)
_WRONG_AT_FIRST = 0.1
"""The share of wrong verdicts with which the fit starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogitStack(Serializable):
    """logit P(helps) = intercept + Σ weight × signal + position × ln(rank); a ranking omits the last term.

    Some verdicts are wrong: P(verdict says so) = (1 - wrong) × P(helps) + wrong × (1 - P(helps)).
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    intercept: float = 0.0
    position: float = 0.0
    """The slope of ln(rank): it corrects for the rank of a rated item, and is not a part of the score."""
    wrong: float = 0.0
    """The share of wrong verdicts, 0 to 0.4."""

    @property
    def weighs_items(self) -> bool:
        """True if the rewards of single items are a part of the score."""
        return any(self.weights.get(name) for name in OF_ITEMS)

    def parts(self, signals: Mapping[str, Floats]) -> dict[str, Floats]:
        """The part of each weighted signal in the score, by name; arrays of shape (items,)."""
        return {name: self.weights[name] * values for name, values in signals.items() if name in self.weights}

    def score(self, signals: Mapping[str, Floats]) -> Floats:
        """The score to rank by, shape (items,): the sum of the parts."""
        parts = self.parts(signals)
        return np.sum(list(parts.values()), axis=0) if parts else np.zeros(len(next(iter(signals.values()))))

    def probability(self, signals: Mapping[str, Floats], ranks: Floats) -> Floats:
        """The probabilities that items shown at those ranks help, shape (items,)."""
        logits = self.intercept + self.score(signals) + self.position * np.log(ranks)
        return sigmoid(logits)

    def verdict(self, signals: Mapping[str, Floats], ranks: Floats) -> Floats:
        """The expected verdict on items shown at those ranks, shape (items,)."""
        return verdict_probability(self.probability(signals, ranks), self.wrong)

    def sample_sizes(self, probabilities: Floats, means: Floats, sizes: Floats) -> Floats:
        """The effective sample size of each probability, shape (items,), by mean and size of its learned reward."""
        scaled = self.weights.get(LEARNED, 0.0) ** 2 * probabilities * (1.0 - probabilities)
        return np.asarray(sizes * means * (1.0 - means) / np.maximum(scaled, LEAST_VARIANCE), dtype=np.float64)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """Reads the result of ``as_dict``."""
        return cls(
            weights={name: float(weight) for name, weight in stored["weights"].items()},
            intercept=float(stored["intercept"]),
            position=float(stored["position"]),
            wrong=float(stored["wrong"]),
        )


def verdict_probability(helps: Floats, wrong: float) -> Floats:
    """The probability that a verdict says that an item helps, from the probability that it helps; shape (items,)."""
    return (1.0 - 2.0 * wrong) * helps + wrong


def fit_stack(signals: Mapping[str, Floats], rewards: Floats, weights: Floats, ranks: Floats) -> LogitStack:
    """The most probable weights (MAP, normal priors) and share of wrong verdicts, given rated items.

    Arrays of shape (events,): ``rewards``, 0 to 1; ``weights`` of the events; ``ranks`` of the items, from 1. The share
    of wrong verdicts keeps them from reducing every weight (forward correction: Patrini et al., CVPR 2017).
    """
    from scipy.optimize import minimize

    names = list(signals)
    design = np.column_stack([np.ones(len(rewards)), *signals.values(), np.log(ranks)])
    priors = [_INTERCEPT, *(_PRIORS.get(name, _LEG) for name in names), _POSITION]
    mean = np.array([prior.mean for prior in priors])
    precision = np.array([prior.sd for prior in priors]) ** -2.0

    def loss(parameters: Floats) -> tuple[float, Floats]:
        coefficients, wrong = parameters[:-1], parameters[-1]
        helps = sigmoid(design @ coefficients)
        expected = np.clip(verdict_probability(helps, wrong), EDGE, 1 - EDGE)
        deviation, steepness = coefficients - mean, weights * (expected - rewards) / (expected * (1 - expected))
        likelihood = float(weights @ -(rewards * np.log(expected) + (1 - rewards) * np.log1p(-expected)))
        slope = design.T @ (steepness * (1 - 2 * wrong) * helps * (1 - helps)) + precision * deviation
        return likelihood + 0.5 * float(precision @ deviation**2), np.append(slope, steepness @ (1 - 2 * helps))

    limits = [*((prior.least, None) for prior in priors), (0.0, MOST_WRONG)]
    best = minimize(loss, np.append(mean, _WRONG_AT_FIRST), jac=True, method="L-BFGS-B", bounds=limits).x
    return LogitStack(
        weights=dict(zip(names, map(float, best[1:-2]), strict=True)),
        intercept=float(best[0]),
        position=float(best[-2]),
        wrong=float(best[-1]),
    )


def affinity_signal(cosines: Sequence[float]) -> Floats:
    """The excess of each cosine over chance, shape (items,); 0 for an item without rewards."""
    return np.maximum(np.array(cosines, dtype=np.float64) - AFFINITY_FROM, 0.0)


def length_signal(octets: Sequence[int]) -> Floats:
    """ln(octets / 1000) of each item's text, shape (items,); 0 if the length is unknown, or there is no text."""
    lengths = np.array(octets, dtype=np.float64)
    return np.log(np.where(lengths > 0, lengths, 1000.0) / 1000.0)
