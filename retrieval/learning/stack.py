"""Relevance and learned reward as one score: by a fixed share, or by a logistic model over both, the logit stack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from retrieval.domain.errors import InvalidRequestError
from retrieval.learning.arm_table import Floats
from retrieval.learning.event import Event
from retrieval.learning.logistic import RELEVANCE, number_of
from retrieval.learning.logit import sigmoid

KIND = "logit_stack"

LEARNED = "learned"


class Combined(NamedTuple):
    """A score with what it is made of."""

    score: float
    """0 to 1."""
    parts: Mapping[str, float]
    """By name. In the sum they add up to the score; in the stack, to its logit."""


def combine(relevance: Sequence[float], learned: Sequence[float], share: float) -> list[Combined]:
    """(1 - share) × relevance + share × learned, of numbers from 0 to 1. Raises ``InvalidRequestError`` for others."""
    if not 0 <= share <= 1:
        raise InvalidRequestError(f"the share of the learned reward is {share}; it must be from 0 to 1")
    _check(relevance, learned)
    pairs = [((1 - share) * fit, share * reward) for fit, reward in zip(relevance, learned, strict=True)]
    return [Combined(fit + reward, {RELEVANCE: fit, LEARNED: reward}) for fit, reward in pairs]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogitStack:
    """A logistic model over the logits of relevance, learned mean and legs' scores. Before a fit the two weigh 1."""

    intercept: float = 0.0
    weights: Mapping[str, float] = field(default_factory=lambda: {RELEVANCE: 1.0, LEARNED: 1.0})
    """By name, at least 0: what is better by one measure never scores lower."""
    rank_weight: float = 0.0
    """Of ln(rank) in what was logged; a score is that of rank 1."""
    events: int = 0

    def combine(
        self,
        relevance: Sequence[float],
        learned: Sequence[float],
        signals: Mapping[str, Sequence[float]] | None = None,
    ) -> list[Combined]:
        """One score an item, in order; a signal that is not given adds nothing.

        Raises ``InvalidRequestError`` for numbers outside 0 to 1 or lengths that differ.
        """
        given = {RELEVANCE: relevance, LEARNED: learned, **(signals or {})}
        _check(*given.values())
        names = [name for name in self.weights if name in given]
        logits = [self.weights[name] * number_of(np.asarray(given[name], dtype=np.float64)) for name in names]
        table = np.column_stack([np.full(len(relevance), self.intercept), *logits])
        scores = sigmoid(table.sum(axis=1)).tolist()
        return [
            Combined(score, dict(zip(["intercept", *names], row, strict=True)))
            for score, row in zip(scores, table.tolist(), strict=True)
        ]

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values; see ``from_dict``."""
        return {
            "kind": KIND,
            "intercept": self.intercept,
            "weights": dict(self.weights),
            "rank_weight": self.rank_weight,
            "events": self.events,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """What ``as_dict`` gave. Raises ``InvalidRequestError`` for anything else."""
        if stored.get("kind") != KIND:
            raise InvalidRequestError(f"a stored stack is of kind {stored.get('kind')!r:.80}; fit it anew")
        try:
            return cls(**{name: value for name, value in stored.items() if name != "kind"})
        except TypeError as error:
            raise InvalidRequestError(f"a stored stack cannot be read ({error!s:.80}); fit it anew") from error


def fit_stack(events: Sequence[Event], learned: Sequence[float], *, legs: Sequence[str] = ()) -> LogitStack:
    """Weights by logged events with a relevance; those without are left out.

    ``learned`` is the mean that was predicted for each event *before* it happened: a mean that knows the reward would
    take all the weight. ``legs`` names the signals to weigh beside; a missing one counts as one half. Weights have the
    prior normal(1, 1), or normal(0, 1) for legs, the intercept and ln(rank): after few events both weigh alike.
    """
    if len(events) != len(learned):
        raise InvalidRequestError(f"there are {len(events)} events and {len(learned)} predictions; give one for each")
    used = [(event, mean) for event, mean in zip(events, learned, strict=True) if event.relevance is not None]
    if not used:
        return LogitStack()
    names = [RELEVANCE, LEARNED, *legs]
    numbers = _numbers([event for event, _ in used], [mean for _, mean in used], legs)
    reward = np.array([event.reward for event, _ in used])
    weight = np.array([event.weight for event, _ in used])
    centre = np.array([0.0, 1.0, 1.0, *[0.0] * len(legs), 0.0])
    found = _fit(numbers, reward, weight, centre)
    weights = dict(zip(names, found[1:-1].tolist(), strict=True))
    return LogitStack(intercept=float(found[0]), weights=weights, rank_weight=float(found[-1]), events=len(used))


def _numbers(events: Sequence[Event], learned: Sequence[float], legs: Sequence[str]) -> Floats:
    """(events, 2 + names): ones, the logits, and ln(rank)."""
    columns = [[event.relevance for event in events], learned]
    columns += [[event.signals.get(leg, 0.5) for event in events] for leg in legs]
    logits = [number_of(np.array(column, dtype=np.float64)) for column in columns]
    ranks = np.log([event.rank or 1 for event in events])
    return np.column_stack([np.ones(len(events)), *logits, ranks])


def _fit(numbers: Floats, reward: Floats, weight: Floats, centre: Floats) -> Floats:
    from scipy.optimize import minimize

    def cost(weights: Floats) -> tuple[float, Floats]:
        scores = numbers @ weights
        lost = weight @ (np.logaddexp(0.0, scores) - reward * scores)
        slope = numbers.T @ (weight * (sigmoid(scores) - reward))
        off = weights - centre
        return float(lost + off @ off / 2), slope + off

    bounds = [(None, None), *[(0.0, None)] * (len(centre) - 2), (None, None)]
    return np.asarray(minimize(cost, centre, jac=True, method="L-BFGS-B", bounds=bounds).x, dtype=np.float64)


def _check(*columns: Sequence[float]) -> None:
    if len({len(column) for column in columns}) > 1:
        raise InvalidRequestError(
            "relevance, learned reward and signals differ in length; give one number for each item"
        )
    values = np.concatenate([np.asarray(column, dtype=np.float64) for column in columns])
    if not ((values >= 0) & (values <= 1)).all():
        raise InvalidRequestError("relevance, learned reward and signals must be numbers from 0 to 1")
