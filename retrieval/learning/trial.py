"""Before a model is used: would it have done better than what is in use, on searches it was not fitted on? Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from retrieval.domain.learning.arm import ItemArms
from retrieval.domain.search.profile_parts import Combination
from retrieval.learning.arm_table import Floats
from retrieval.learning.calibration import log_losses
from retrieval.learning.examples import Direction, Examples, Slate, columns, cosine, directions
from retrieval.learning.fitting import Fitted, fit
from retrieval.learning.learned_model import LearnedModel, LearnedReward
from retrieval.learning.stack import (
    AFFINITY,
    LEARNED,
    LENGTH,
    RELEVANCE,
    LogitStack,
    affinity_signal,
    fit_stack,
    length_signal,
)

FOLDS = 5
LEAST_QUESTIONS = 30
"""Questions with something rewarded; fewer say too little."""

ONE_SIDED_975 = 1.96
"""The standard errors of a one-sided 97.5 % bound: a trial is held again with every fit, and each may err."""

_EXAMINATION = -0.5, 1.0
"""Mean and precision of the prior of the exponent by which attention sinks with the rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutcome:
    """The result of one combination in the trial."""

    passed: bool
    reason: str
    metrics: Mapping[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"passed": self.passed, "reason": self.reason, **self.metrics}


class Incumbent(NamedTuple):
    """The model that is in use."""

    model: LearnedModel
    statistics_at: datetime
    """The moment as of which its verdicts were read."""


@dataclass(frozen=True, slots=True)
class _Way:
    """A way to rank a slate, and to say what each of its items will earn."""

    scores: Callable[[Slate], Floats]
    probabilities: Callable[[Slate], Floats]


@dataclass(slots=True)
class _Tally:
    """Differences between candidate and incumbent by question that was not fitted on, one a search.

    Searches for the same are not independent of each other: they count together, as one.
    """

    losses: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Log-loss of the incumbent less that of the candidate."""
    gains: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Discounted reward of the candidate's order less that of the incumbent's."""


def trial(
    examples: Examples, incumbent: Incumbent | None, *, share: float, seed: int = 1
) -> dict[Combination, TrialOutcome]:
    """Fit on four fifths of the questions, try on the rest, five times; gives how each combination did.

    The off-policy estimate is that of ranking what was shown anew: each reward counts 1 / log2(1 + new rank), and as
    much more as its old rank made it less likely to be seen (inverse propensities of the position, Joachims et al.,
    WSDM 2017). A combination passes when the 97.5 % lower bounds of both differences, over questions, are above 0.
    ``incumbent``: None: relevance alone. ``share`` is that of the learned reward in the sum.
    """
    tallies = {Combination.SUM: _Tally(), Combination.LOGIT_STACK: _Tally()}
    attention = examination(examples.slates)
    for questions in _folds(examples, seed):
        known, unseen = examples.of(questions, wanted=False), examples.of(questions, wanted=True)
        fitted, alone = fit(known), relevance_alone(known)
        ways = _ways(fitted, share)
        for combination, tally in tallies.items():
            before = _before(incumbent, combination, known, fitted.arms, share)
            before = before or _Way(_relevance, partial(_chances, alone))
            _compare(tally, ways[combination], before, unseen.slates, attention)
    return {combination: _outcome(tally) for combination, tally in tallies.items()}


def relevance_alone(examples: Examples) -> LogitStack:
    """Predicts rewards from relevance alone."""
    shown = [example for example in examples.rated if example.event.relevance is not None]
    if not shown:
        return LogitStack(weights={RELEVANCE: 1.0})
    return fit_stack({RELEVANCE: np.array([example.event.relevance or 0.0 for example in shown])}, *columns(shown))


def _folds(examples: Examples, seed: int) -> list[frozenset[str]]:
    questions = sorted({slate.question for slate in examples.slates})
    np.random.default_rng(seed).shuffle(questions)
    return [frozenset(questions[start::FOLDS]) for start in range(min(FOLDS, len(questions)))]


def _ways(fitted: Fitted, share: float) -> dict[Combination, _Way]:
    return {
        Combination.SUM: _sum_way(fitted.reward, fitted.arms, share),
        Combination.LOGIT_STACK: _stack_way(fitted.stack, fitted.by_item, fitted.arms, fitted.directions),
    }


def _before(
    incumbent: Incumbent | None,
    combination: Combination,
    known: Examples,
    arms: Mapping[str, ItemArms],
    share: float,
) -> _Way | None:
    """The incumbent as it searches now: its arms go on counting, and the queries it knows are those of its time."""
    if incumbent is None or combination not in incumbent.model.passed:
        return None
    if combination is Combination.SUM:
        return _sum_way(incumbent.model.reward, arms, share)
    rewarded = directions(known.rated, incumbent.statistics_at)
    return _stack_way(incumbent.model.stack, incumbent.model.by_item, arms, rewarded)


def _relevance(slate: Slate) -> Floats:
    return np.array(slate.relevance)


def _sum_way(reward: LearnedReward, arms: Mapping[str, ItemArms], share: float) -> _Way:
    def means(slate: Slate, *, shown: bool) -> Floats:
        found = reward.predict(
            slate.buckets,
            _items(slate, arms),
            slate.relevance,
            signals=slate.legs,
            ranks=range(1, len(slate.item_ids) + 1) if shown else None,
        )
        return np.array([outcome.mean for outcome in found])

    return _Way(
        lambda slate: (1 - share) * np.array(slate.relevance) + share * means(slate, shown=False),
        lambda slate: means(slate, shown=True),
    )


def _stack_way(
    stack: LogitStack, by_item: LearnedReward, arms: Mapping[str, ItemArms], known: Mapping[str, Direction]
) -> _Way:
    def signals(slate: Slate) -> dict[str, Floats]:
        items = _items(slate, arms)
        predicted = by_item.predict(slate.buckets, items)
        totals = [known[item].total if item in known else None for item in slate.item_ids]
        return {
            RELEVANCE: np.array(slate.relevance),
            LEARNED: np.array([prediction.logit_mean for prediction in predicted]),
            AFFINITY: affinity_signal([cosine(slate.vector, total) for total in totals]),
            LENGTH: length_signal([item.octets for item in items]),
        } | {leg: np.array(scores) for leg, scores in slate.legs.items()}

    return _Way(
        lambda slate: stack.score(signals(slate)),
        lambda slate: stack.probability(signals(slate), np.arange(1, len(slate.item_ids) + 1.0)),
    )


def _chances(alone: LogitStack, slate: Slate) -> Floats:
    return alone.probability({RELEVANCE: np.array(slate.relevance)}, np.arange(1, len(slate.item_ids) + 1.0))


def _items(slate: Slate, arms: Mapping[str, ItemArms]) -> list[ItemArms]:
    return [arms.get(item) or ItemArms(item_id=item) for item in slate.item_ids]


def examination(slates: Sequence[Slate]) -> float:
    """The exponent by which attention sinks with the rank: 1 / rank to this power, 0 to 1.

    It is read from where verdicts fall, not from what they say: ln(verdicts at a rank) = a - exponent × ln(rank) +
    b × relevance, a Poisson regression over all that was shown with a normal prior.
    """
    from scipy.optimize import minimize

    rows = [
        (1.0, math.log(place), relevance, float(reward is not None))
        for slate in slates
        for place, (relevance, reward) in enumerate(zip(slate.relevance, slate.rewards, strict=True), 1)
    ]
    if not rows:
        return 0.0
    design, is_rated = np.array(rows)[:, :3], np.array(rows)[:, 3]
    mean, precision = np.array([0.0, _EXAMINATION[0], 0.0]), np.array([0.0, _EXAMINATION[1], 1.0])

    def loss(coefficients: Floats) -> tuple[float, Floats]:
        logs = np.minimum(design @ coefficients, 3.0)
        rates, off = np.exp(logs), coefficients - mean
        return float(np.sum(rates - is_rated * logs) + 0.5 * precision @ off**2), (
            design.T @ (rates - is_rated) + precision * off
        )

    found = minimize(loss, mean - np.array([0.5, 0.0, 0.0]), jac=True, method="L-BFGS-B").x
    return min(1.0, max(0.0, -float(found[1])))


def _compare(tally: _Tally, candidate: _Way, before: _Way, slates: Sequence[Slate], examination: float) -> None:
    for slate in slates:
        rated = [place for place, reward in enumerate(slate.rewards) if reward is not None]
        rewards = np.array([slate.rewards[place] or 0.0 for place in rated])
        if not rated:
            continue
        own, other = candidate.probabilities(slate)[rated], before.probabilities(slate)[rated]
        tally.losses[slate.question].append(float(np.mean(log_losses(other, rewards) - log_losses(own, rewards))))
        if rewards.any():
            seen = (1.0 + np.array(rated)) ** examination
            gains = rewards * seen
            tally.gains[slate.question].append(
                float(gains @ (_discounts(candidate.scores(slate))[rated] - _discounts(before.scores(slate))[rated]))
            )


def _discounts(scores: Floats) -> Floats:
    """1 / log2(1 + rank) of each, by its score; equal scores keep their order."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    found: Floats = 1 / np.log2(1 + ranks)
    return found


def _outcome(tally: _Tally) -> TrialOutcome:
    if len(tally.gains) < LEAST_QUESTIONS:
        reason = f"{len(tally.gains)} questions with a reward are too few to tell; {LEAST_QUESTIONS} are needed"
        return TrialOutcome(passed=False, reason=reason)
    (loss, loss_bound), (gain, gain_bound) = _bounded(tally.losses), _bounded(tally.gains)
    metrics = {
        "questions": float(len(tally.gains)),
        "log_loss_less": loss,
        "log_loss_less_at_least": loss_bound,
        "value_more": gain,
        "value_more_at_least": gain_bound,
    }
    if loss_bound <= 0:
        return TrialOutcome(passed=False, reason="held-out log-loss is not surely better than before", metrics=metrics)
    if gain_bound <= 0:
        return TrialOutcome(
            passed=False, reason="the off-policy value is not surely better than before", metrics=metrics
        )
    return TrialOutcome(
        passed=True, reason="better than before on held-out log-loss and off-policy value", metrics=metrics
    )


def _bounded(differences: Mapping[str, Sequence[float]]) -> tuple[float, float]:
    """The mean over questions, and its 97.5 % lower bound."""
    means = [float(np.mean(of_question)) for of_question in differences.values()]
    mean = float(np.mean(means))
    error = float(np.std(means, ddof=1)) / math.sqrt(len(means))
    return mean, mean - ONE_SIDED_975 * error
