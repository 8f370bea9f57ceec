"""The trial of a model before its use: a comparison with relevance alone on held-out searches. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from retrieval.domain.learning.arm import ItemArms
from retrieval.domain.search.profile_parts import Combination, Learned
from retrieval.learning.arm_table import Floats
from retrieval.learning.examples import Examples, Slate, columns, cosine
from retrieval.learning.learned_model import Fitted, LearnedModel, fit
from retrieval.learning.logistic import RELEVANCE
from retrieval.learning.logit import EDGE
from retrieval.learning.stack import AFFINITY, LEARNED, LENGTH, LogitStack, affinity_signal, fit_stack, length_signal

FOLDS = 5
LEAST_QUESTIONS = 50

ONE_SIDED_975, ONE_SIDED_995 = 1.96, 2.58
"""The standard errors of one-sided bounds; the rewards of single items need the stronger evidence (decision 0051)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutcome:
    """The result of one combination in the trial."""

    passed: bool
    """True if it may be used: it is surely better than relevance alone, or in use and better on average."""
    reason: str
    metrics: Mapping[str, float] = field(default_factory=dict)
    is_shared: bool = False
    """True if the outcome is that of the stack without the signals of single items."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"passed": self.passed, "reason": self.reason, "is_shared": self.is_shared, **self.metrics}


class _Ranked(NamedTuple):
    """The items of a slate under one ranking; arrays of shape (items,)."""

    scores: Floats
    verdicts: Floats


_Tally = dict[str, list[tuple[float, float]]]
"""Differences between two rankings by question, for each search: less log-loss, more discounted unexpected reward."""


def trial(examples: Examples, *, share: float, in_use: LearnedModel | None = None) -> dict[Combination, TrialOutcome]:
    """Fit on four fifths of the questions and evaluate on the rest, five times; returns each combination's outcome.

    A candidate is compared with the ranking by relevance alone. The shown items are ranked again, and a verdict counts
    (1 / log2(1 + new rank) - 1 / log2(1 + old rank)) × (reward - the reward expected from relevance and old rank).
    A combination passes if the 97.5 % lower bounds over questions of both differences, this one and that of log-loss,
    are above 0, or the means if the model in use passed in the same combination. ``share``: of the learned reward in
    the sum.
    """
    sums, shared, stacks, additions = (_Tally() for _ in range(4))
    for questions in _folds(examples):
        training, held_out = examples.of(questions, inside=False), examples.of(questions, inside=True)
        fitted, by_relevance = fit(training), relevance_alone(training)
        for slate in held_out.slates:
            signals = _signals(fitted, training.octets, slate)
            alone = _stack(by_relevance, {RELEVANCE: signals[RELEVANCE]})
            by_stack, by_shared = _stack(fitted.stack, signals), _stack(fitted.shared, signals)
            for tally, candidate, other in (
                (sums, _sum(fitted, share, slate), alone),
                (shared, by_shared, alone),
                (stacks, by_stack, alone),
                (additions, by_stack, by_shared),
            ):
                _compare(tally, slate, alone.verdicts, candidate, other)
    tried = {each: Learned(combination=each, share=share) for each in (Combination.SUM, Combination.LOGIT_STACK)}
    used = {each for each, learned in tried.items() if in_use is not None and in_use.has_passed(learned)}
    is_whole_used = in_use is not None and in_use.stack.weighs_items and Combination.LOGIT_STACK in used
    whole = _outcome(stacks, is_used=is_whole_used)
    addition = _outcome(additions, ONE_SIDED_975 if is_whole_used else ONE_SIDED_995)
    by_shared_stack = replace(_outcome(shared, is_used=Combination.LOGIT_STACK in used), is_shared=True)
    return {
        Combination.SUM: _outcome(sums, is_used=Combination.SUM in used),
        Combination.LOGIT_STACK: whole if whole.passed and addition.passed else by_shared_stack,
    }


def relevance_alone(examples: Examples) -> LogitStack:
    """The stack that predicts rewards from relevance alone."""
    shown = [event for event in examples.rated if event.relevance is not None]
    if not shown:
        return LogitStack(weights={RELEVANCE: 1.0})
    return fit_stack({RELEVANCE: np.array([event.relevance or 0.0 for event in shown])}, *columns(shown))


def _folds(examples: Examples) -> list[frozenset[str]]:
    questions = sorted({slate.question for slate in examples.slates})
    np.random.default_rng(1).shuffle(questions)  # always the same folds
    return [frozenset(questions[start::FOLDS]) for start in range(min(FOLDS, len(questions)))]


def _sum(fitted: Fitted, share: float, slate: Slate) -> _Ranked:
    predict = partial(fitted.reward.predict, slate.buckets, _items(slate, fitted.arms), slate.relevance)
    scores = (1 - share) * np.array(slate.relevance) + share * predict(signals=slate.legs).mean
    return _Ranked(scores, predict(signals=slate.legs, ranks=range(1, len(slate.item_ids) + 1)).mean)


def _stack(stack: LogitStack, signals: Mapping[str, Floats]) -> _Ranked:
    ranks = np.arange(1, len(signals[RELEVANCE]) + 1.0)
    return _Ranked(stack.score(signals), stack.verdict(signals, ranks))


def _signals(fitted: Fitted, octets: Mapping[str, int], slate: Slate) -> dict[str, Floats]:
    rewarded = fitted.directions
    totals = [rewarded[item].total if item in rewarded else None for item in slate.item_ids]
    return {
        RELEVANCE: np.array(slate.relevance),
        LEARNED: fitted.by_item.predict(slate.buckets, _items(slate, fitted.arms)).logit_mean,
        AFFINITY: affinity_signal([cosine(slate.vector, total) for total in totals]),
        LENGTH: length_signal([octets.get(item_id, 0) for item_id in slate.item_ids]),
    } | {leg: np.array(scores) for leg, scores in slate.legs.items()}


def _items(slate: Slate, arms: Mapping[str, ItemArms]) -> list[ItemArms]:
    return [arms.get(item) or ItemArms(item_id=item) for item in slate.item_ids]


def _compare(tally: _Tally, slate: Slate, expected: Floats, candidate: _Ranked, other: _Ranked) -> None:
    rated = [position for position, reward in enumerate(slate.rewards) if reward is not None]
    if not rated:
        return
    rewards = np.array([slate.rewards[position] or 0.0 for position in rated])
    losses = log_losses(other.verdicts[rated], rewards) - log_losses(candidate.verdicts[rated], rewards)
    change = _discounts(candidate.scores) - _discounts(other.scores)
    gain = float((rewards - expected[rated]) @ change[rated])
    tally.setdefault(slate.question, []).append((float(np.mean(losses)), gain))


def log_losses(predicted: Floats, rewards: Floats) -> Floats:
    """-(r ln p + (1 - r) ln(1 - p)) of each pair, (n,); p is clipped to a millionth from 0 and 1."""
    clipped = np.clip(predicted, EDGE, 1 - EDGE)
    return np.asarray(-(rewards * np.log(clipped) + (1 - rewards) * np.log1p(-clipped)), dtype=np.float64)


def _discounts(scores: Floats) -> Floats:
    """1 / log2(1 + rank) of each item, ranked by score; equal scores keep their order."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    discounts: Floats = 1 / np.log2(1 + ranks)
    return discounts


def _outcome(tally: _Tally, errors: float = ONE_SIDED_975, *, is_used: bool = False) -> TrialOutcome:
    if len(tally) < LEAST_QUESTIONS:
        reason = f"{len(tally)} rated questions are too few to tell; {LEAST_QUESTIONS} are needed"
        return TrialOutcome(passed=False, reason=reason)
    means = np.array([np.mean(differences, axis=0) for differences in tally.values()])
    loss, gain = means.mean(axis=0).tolist()
    # The lower bounds of the means over questions, ``errors`` standard errors below.
    loss_bound, gain_bound = (means.mean(axis=0) - errors * means.std(axis=0, ddof=1) / math.sqrt(len(means))).tolist()
    metrics = {
        "questions": float(len(tally)),
        "log_loss_less": loss,
        "log_loss_less_at_least": loss_bound,
        "value_more": gain,
        "value_more_at_least": gain_bound,
    }
    if min(loss_bound, gain_bound) > 0:
        reason = "better than by relevance alone on held-out log-loss and off-policy value"
        return TrialOutcome(passed=True, reason=reason, metrics=metrics)
    if is_used and min(loss, gain) > 0:
        reason = "better than by relevance alone on average, though not surely: enough to stay in use"
        return TrialOutcome(passed=True, reason=reason, metrics=metrics)
    worst = "held-out log-loss" if (loss if is_used else loss_bound) <= 0 else "the off-policy value"
    is_not = "is on average no longer better" if is_used else "is not surely better"
    return TrialOutcome(passed=False, reason=f"{worst} {is_not} than by relevance alone", metrics=metrics)
