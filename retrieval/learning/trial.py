"""The trial of a model before its use: a comparison with relevance alone on held-out searches. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from retrieval.domain.learning.arm import ItemArms
from retrieval.domain.search.profile_parts import Combination
from retrieval.learning.arm_table import Floats
from retrieval.learning.calibration import log_losses
from retrieval.learning.examples import Direction, Examples, Slate, columns, cosine
from retrieval.learning.learned_model import LearnedReward, fit
from retrieval.learning.logistic import RELEVANCE
from retrieval.learning.stack import (
    AFFINITY,
    LEARNED,
    LENGTH,
    LogitStack,
    affinity_signal,
    fit_stack,
    length_signal,
)

FOLDS = 5
LEAST_QUESTIONS = 50
"""The fewest questions with a verdict that a trial needs."""

ONE_SIDED_995 = 2.58
"""The standard errors of a one-sided bound of 99.5 %, strict because every fit has a trial, and each may err."""

LEAST_ERROR = 1e-12
"""The least standard error, so that equal differences can be divided by it."""

BETTER = "better than by relevance alone on held-out log-loss and off-policy value"
NOT_BETTER = "held-out log-loss and off-policy value are not surely better than by relevance alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutcome:
    """The result of one combination in the trial."""

    passed: bool
    reason: str
    metrics: Mapping[str, float] = field(default_factory=dict)
    is_shared: bool = False
    """True if the stack passed without the signals of single items."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"passed": self.passed, "reason": self.reason, "is_shared": self.is_shared, **self.metrics}


class _Ranked(NamedTuple):
    """The items of a slate under one ranking; arrays of shape (items,)."""

    scores: Floats
    verdicts: Floats
    """The expected verdict on each item at the rank at which it was shown."""


_Ranking = Callable[[Slate], _Ranked]
"""A function that ranks a slate."""


@dataclass(slots=True)
class _Tally:
    """Differences between two rankings by held-out question, one per search.

    Searches for the same question are not independent, so they count as one.
    """

    losses: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Log-loss of the other ranking minus that of the candidate."""
    gains: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Discounted unexpected reward in the candidate's order minus that in the other order."""

    def tests(self) -> _Tests:
        """The results of the two tests, and of both together."""
        losses, gains = (_means(differences) for differences in (self.losses, self.gains))
        return _Tests(_Test(losses), _Test(gains), _Test(losses / _error(losses) + gains / _error(gains)))


@dataclass(frozen=True, slots=True)
class _Test:
    differences: Floats
    """The mean of each question, shape (questions,)."""

    @property
    def mean(self) -> float:
        """The mean over questions."""
        return float(np.mean(self.differences))

    def bound(self, errors: float) -> float:
        """The lower bound of the mean, ``errors`` standard errors below."""
        return self.mean - errors * _error(self.differences)


class _Tests(NamedTuple):
    loss: _Test
    gain: _Test
    together: _Test
    """The sum of both, each in its standard errors."""

    def are_won(self, errors: float) -> bool:
        """True if both means are so many standard errors above 0."""
        return min(self.loss.bound(errors), self.gain.bound(errors)) > 0


def trial(examples: Examples, *, share: float, seed: int = 1) -> dict[Combination, TrialOutcome]:
    """Fit on four fifths of the questions and evaluate on the rest, five times; returns each combination's outcome.

    Two tests compare a candidate with the ranking by relevance alone: the log-loss of the expected verdicts, and the
    value of the order. For the value, the shown items are ranked again, and a verdict counts (1 / log2(1 + new rank) -
    1 / log2(1 + old rank)) × (reward - the reward expected from relevance and old rank). Without that expectation as a
    control variate, attention and relevance would decide, not the items that are better than expected. A combination
    passes if both are better on average, and the 99.5 % lower bound of their sum, each in its standard errors, is above
    0 (Stouffer). The rewards of single items are added if both tests are won by 99.5 %: these rewards also raise items
    that were never shown for such a question, which no trial can evaluate. ``share``: of the learned reward in the sum.
    """
    sums, shared, stacks, additions = _Tally(), _Tally(), _Tally(), _Tally()
    for questions in _folds(examples, seed):
        training, held_out = examples.of(questions, inside=False), examples.of(questions, inside=True)
        fitted, by_relevance = fit(training), partial(_by_relevance, relevance_alone(training))
        by_sum = _sum_ranking(fitted.reward, fitted.arms, share)
        signals_of = partial(_signals, fitted.by_item, fitted.arms, fitted.directions, training.octets)
        for slate in held_out.slates:
            signals, alone = signals_of(slate), by_relevance(slate)
            by_stack, by_shared = _stack(fitted.stack, signals), _stack(fitted.shared, signals)
            for tally, candidate, other in (
                (sums, by_sum(slate), alone),
                (shared, by_shared, alone),
                (stacks, by_stack, alone),
                (additions, by_stack, by_shared),
            ):
                _compare(tally, slate, alone.verdicts, candidate, other)
    return {Combination.SUM: _outcome(sums), Combination.LOGIT_STACK: _stack_outcome(shared, stacks, additions)}


def relevance_alone(examples: Examples) -> LogitStack:
    """The stack that predicts rewards from relevance alone."""
    shown = [example for example in examples.rated if example.event.relevance is not None]
    if not shown:
        return LogitStack(weights={RELEVANCE: 1.0})
    return fit_stack({RELEVANCE: np.array([example.event.relevance or 0.0 for example in shown])}, *columns(shown))


def _folds(examples: Examples, seed: int) -> list[frozenset[str]]:
    questions = sorted({slate.question for slate in examples.slates})
    np.random.default_rng(seed).shuffle(questions)
    return [frozenset(questions[start::FOLDS]) for start in range(min(FOLDS, len(questions)))]


def _by_relevance(alone: LogitStack, slate: Slate) -> _Ranked:
    relevance = np.array(slate.relevance)
    return _Ranked(relevance, alone.verdict({RELEVANCE: relevance}, _ranks(len(relevance))))


def _sum_ranking(reward: LearnedReward, arms: Mapping[str, ItemArms], share: float) -> _Ranking:
    def means(slate: Slate, *, shown: bool) -> Floats:
        predicted = reward.predict(
            slate.buckets,
            _items(slate, arms),
            slate.relevance,
            signals=slate.legs,
            ranks=range(1, len(slate.item_ids) + 1) if shown else None,
        )
        return np.array([outcome.mean for outcome in predicted])

    return lambda slate: _Ranked(
        (1 - share) * np.array(slate.relevance) + share * means(slate, shown=False), means(slate, shown=True)
    )


def _stack(stack: LogitStack, signals: Mapping[str, Floats]) -> _Ranked:
    return _Ranked(stack.score(signals), stack.verdict(signals, _ranks(len(signals[RELEVANCE]))))


def _signals(
    by_item: LearnedReward,
    arms: Mapping[str, ItemArms],
    rewarded: Mapping[str, Direction],
    octets: Mapping[str, int],
    slate: Slate,
) -> dict[str, Floats]:
    predicted = by_item.predict(slate.buckets, _items(slate, arms))
    totals = [rewarded[item].total if item in rewarded else None for item in slate.item_ids]
    return {
        RELEVANCE: np.array(slate.relevance),
        LEARNED: np.array([prediction.logit_mean for prediction in predicted]),
        AFFINITY: affinity_signal([cosine(slate.vector, total) for total in totals]),
        LENGTH: length_signal([octets.get(item_id, 0) for item_id in slate.item_ids]),
    } | {leg: np.array(scores) for leg, scores in slate.legs.items()}


def _ranks(items: int) -> Floats:
    return np.arange(1, items + 1.0)


def _items(slate: Slate, arms: Mapping[str, ItemArms]) -> list[ItemArms]:
    return [arms.get(item) or ItemArms(item_id=item) for item in slate.item_ids]


def _compare(tally: _Tally, slate: Slate, expected: Floats, candidate: _Ranked, other: _Ranked) -> None:
    rated = [place for place, reward in enumerate(slate.rewards) if reward is not None]
    if not rated:
        return
    rewards = np.array([slate.rewards[place] or 0.0 for place in rated])
    losses = log_losses(other.verdicts[rated], rewards) - log_losses(candidate.verdicts[rated], rewards)
    tally.losses[slate.question].append(float(np.mean(losses)))
    change = _discounts(candidate.scores) - _discounts(other.scores)
    tally.gains[slate.question].append(float((rewards - expected[rated]) @ change[rated]))


def _discounts(scores: Floats) -> Floats:
    """1 / log2(1 + rank) of each item, ranked by score; equal scores keep their order."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    discounts: Floats = 1 / np.log2(1 + ranks)
    return discounts


def _stack_outcome(shared: _Tally, stacks: _Tally, additions: _Tally) -> TrialOutcome:
    """The outcome of the whole stack if the signals of single items reliably improve it; else of the shared stack."""
    whole = _outcome(stacks)
    if whole.passed and additions.tests().are_won(ONE_SIDED_995):
        return whole
    outcome = _outcome(shared)
    return replace(outcome, is_shared=outcome.passed)


def _outcome(tally: _Tally) -> TrialOutcome:
    questions = len(tally.gains)
    if questions < LEAST_QUESTIONS:
        reason = f"{questions} rated questions are too few to tell; {LEAST_QUESTIONS} are needed"
        return TrialOutcome(passed=False, reason=reason)
    tests = tally.tests()
    metrics = {
        "questions": float(questions),
        "log_loss_less": tests.loss.mean,
        "log_loss_less_at_least": tests.loss.bound(ONE_SIDED_995),
        "value_more": tests.gain.mean,
        "value_more_at_least": tests.gain.bound(ONE_SIDED_995),
        "together_at_least": tests.together.bound(ONE_SIDED_995),
    }
    if not tests.are_won(0.0) or tests.together.bound(ONE_SIDED_995) <= 0:
        return TrialOutcome(passed=False, reason=NOT_BETTER, metrics=metrics)
    return TrialOutcome(passed=True, reason=BETTER, metrics=metrics)


def _means(differences: Mapping[str, Sequence[float]]) -> Floats:
    """The mean of each question, shape (questions,)."""
    return np.array([np.mean(of_question) for of_question in differences.values()])


def _error(differences: Floats) -> float:
    """The standard error of the mean, above 0."""
    return max(float(np.std(differences, ddof=1)) / math.sqrt(len(differences)), LEAST_ERROR)
