"""Simulated traffic whose truth is known: one place or slates, recorded under one policy, asked about another.

Each run draws a world (contexts, items, the reward rate of each item in each context), a recorded policy, a target that
overlaps with it, and searches. The truth is the target's mean reward of an impression in that world, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from off_policy_numpy import Floats, Ints, Traffic, differences, estimates, weigh

from retrieval.domain.learning.off_policy import CLIP, LEAST_SAMPLE, Estimate, Estimator
from retrieval.learning.off_policy import PSEUDO_USES

CONTEXTS, ITEMS, PLACES = 12, 20, 5


class Run(NamedTuple):
    """One simulated log."""

    traffic: Traffic
    truth: float
    recorded: float
    """The truth of the recorded policy itself."""


Scenario = Callable[[np.random.Generator, int, float], Run]
"""A run by generator, number of searches, and the recorded policy's floor."""


def one_place(rng: np.random.Generator, searches: int, floor: float) -> Run:
    """One item a search, by softmax of a noisy idea of the quality; the target's idea is better, and sharper."""
    quality = rng.beta(2, 4, size=(CONTEXTS, ITEMS))
    recorded = _softmax(quality + rng.normal(0, 0.25, quality.shape), 0.1, floor)
    target = _softmax(quality + rng.normal(0, 0.12, quality.shape), 0.08, floor)
    context = rng.integers(CONTEXTS, size=searches)
    item = _draw(recorded[context], rng)
    reward = (rng.random(searches) < quality[context, item]).astype(np.float64)
    model = _left_out(item, item, reward)
    others = _left_out(np.broadcast_to(np.arange(ITEMS), (searches, ITEMS)), item, reward)
    traffic = Traffic.of_rows(
        propensity=recorded[context, item],
        target=target[context, item],
        reward=reward,
        modelled=model,
        direct=(target[context] * others).sum(axis=1),
    )
    return Run(traffic, *(float((policy * quality).sum(axis=1).mean()) for policy in (target, recorded)))


def slates(rng: np.random.Generator, searches: int, floor: float) -> Run:
    """Five places, the last one explored, and only two hits in five are rated, whatever they are worth."""
    quality = rng.beta(2, 4, size=(CONTEXTS, ITEMS))
    sure, last = np.arange(PLACES - 1), np.arange(PLACES - 1, ITEMS)
    recorded = _softmax(quality[:, last] + rng.normal(0, 0.25, (CONTEXTS, last.size)), 0.1, floor)
    target = _softmax(quality[:, last] + rng.normal(0, 0.12, (CONTEXTS, last.size)), 0.08, floor)
    context = rng.integers(CONTEXTS, size=searches)
    explored = _draw(recorded[context], rng)
    item = np.column_stack([np.broadcast_to(sure, (searches, sure.size)), last[explored]]).ravel()
    numbers = np.repeat(np.arange(searches), PLACES)
    is_explored = np.tile(np.arange(PLACES) == PLACES - 1, searches)
    reward = (rng.random(item.size) < quality[context[numbers], item]).astype(np.float64)
    reward[rng.random(item.size) > 0.4] = np.nan
    chances = np.zeros((searches, ITEMS))
    chances[:, sure], chances[:, last] = 1.0, target[context]
    model = _rates(item, reward)  # so many that leaving out one changes nothing
    traffic = Traffic.of_rows(
        retrieval=numbers,
        propensity=np.where(is_explored, np.repeat(recorded[context, explored], PLACES), 1.0),
        target=chances[numbers, item],
        reward=reward,
        expected=chances.sum(axis=1),
        modelled=model[item],
        direct=chances @ model,
    )
    means = [quality[:, sure].sum(axis=1) + (policy * quality[:, last]).sum(axis=1) for policy in (target, recorded)]
    return Run(traffic, *(float(rewards.mean()) / PLACES for rewards in means))


def adaptive(rng: np.random.Generator, searches: int, floor: float) -> Run:
    """Eight items by Thompson sampling that learns from each 25 searches, asked about a policy that shows all alike.

    Propensities depend on what was earned before, so the searches are not independent of one another.
    """
    rates, rows, batch = rng.beta(2, 4, size=8), 256, 25
    wins, losses = np.ones(8), np.ones(8)
    propensity, item, reward = np.empty(searches), np.empty(searches, dtype=np.int64), np.empty(searches)
    for start in range(0, searches, batch):
        part = slice(start, min(start + batch, searches))
        best = rng.beta(wins, losses, size=(rows, 8)).argmax(axis=1)
        chances = (1 - floor) * np.bincount(best, minlength=8) / rows + floor / 8
        item[part] = rng.choice(8, size=part.stop - start, p=chances)
        propensity[part], reward[part] = chances[item[part]], rng.random(part.stop - start) < rates[item[part]]
        wins += np.bincount(item[part], weights=reward[part], minlength=8)
        losses += np.bincount(item[part], weights=1 - reward[part], minlength=8)
    model = _rates(item, reward)
    traffic = Traffic.of_rows(
        propensity=propensity,
        target=np.full(searches, 1 / 8),
        reward=reward,
        modelled=model[item],
        direct=np.full(searches, model[:8].mean()),
    )
    return Run(traffic, float(rates.mean()), math.nan)  # its mean reward is unknown


@dataclass
class Coverage:
    """The share of runs in which the 95 % interval of one estimator held the truth, and its width."""

    held: list[bool] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)

    def add(self, estimate: Estimate, truth: float) -> None:
        """One run's interval."""
        self.held.append(bool(estimate.low <= truth <= estimate.high))
        self.errors.append(estimate.value - truth)
        self.widths.append(estimate.high - estimate.low)

    def as_dict(self) -> dict[str, float]:
        """Coverage, bias, root mean squared error, mean width."""
        errors = np.array(self.errors)
        return {
            "coverage": float(np.mean(self.held)),
            "bias": float(errors.mean()),
            "rmse": float(np.sqrt(np.square(errors).mean())),
            "width": float(np.mean(self.widths)),
        }


@dataclass
class Result:
    """The results of some runs of one scenario."""

    by_estimator: dict[tuple[Estimator, bool], Coverage]
    """By estimator and whether it is clipped."""
    difference: Coverage
    """The difference by SNIPS, the target minus the recorded policy."""
    sample_sizes: list[float]
    refused: int
    """Runs in which nothing would be concluded."""


def measure(scenario: Scenario, *, runs: int, searches: int, floor: float, seed: int) -> Result:
    """The coverage of the intervals over seeded runs."""
    result = Result(
        {(estimator, clipped): Coverage() for estimator in Estimator for clipped in (False, True)}, Coverage(), [], 0
    )
    for generator in _generators(seed, runs):
        traffic, truth, recorded = scenario(generator, searches, floor)
        weighing = weigh(traffic)
        result.sample_sizes.append(weighing.effective_sample_size)
        result.refused += bool(weighing.objections())
        result.difference.add(differences(traffic, _as_recorded(traffic))[Estimator.SNIPS], truth - recorded)
        for clipped in (False, True):
            for estimator, estimate in estimates(traffic, clip=CLIP if clipped else None).items():
                result.by_estimator[estimator, clipped].add(estimate, truth)
    return result


def _as_recorded(traffic: Traffic) -> Traffic:
    """The same traffic, asked about the policy that it was recorded under."""
    return replace(traffic, target=traffic.propensity, expected=traffic.shown)


def is_enough(result: Result) -> bool:
    """Whether the runs had, at their median, a sample to conclude from."""
    return float(np.median(result.sample_sizes)) >= LEAST_SAMPLE


def _generators(seed: int, runs: int) -> Iterator[np.random.Generator]:
    return (np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(runs))


def _softmax(scores: Floats, temperature: float, floor: float) -> Floats:
    """Shape as the scores: probabilities by row, each at least floor / columns."""
    raised = np.exp((scores - scores.max(axis=1, keepdims=True)) / temperature)
    mixed: Floats = (1 - floor) * raised / raised.sum(axis=1, keepdims=True) + floor / scores.shape[1]
    return mixed


def _draw(chances: Floats, rng: np.random.Generator) -> Ints:
    """One column a row, by the row's probabilities."""
    picks: Ints = (chances.cumsum(axis=1) > rng.random(len(chances))[:, None]).argmax(axis=1)
    return picks


def _rates(item: Ints, reward: Floats) -> Floats:
    """Shape (items,): shrunk mean rewards."""
    rated = ~np.isnan(reward)
    uses = np.bincount(item[rated], minlength=ITEMS)
    earned = np.bincount(item[rated], weights=reward[rated], minlength=ITEMS)
    rates: Floats = (earned + PSEUDO_USES * reward[rated].mean()) / (uses + PSEUDO_USES)
    return rates


def _left_out(contexts: Ints, item: Ints, reward: Floats) -> Floats:
    """The rates of the items asked about, a row a search, as the other searches tell them."""
    uses, earned = np.bincount(item, minlength=ITEMS), np.bincount(item, weights=reward, minlength=ITEMS)
    own, its = (item, reward) if contexts.ndim == 1 else (item[:, None], reward[:, None])
    is_own = contexts == own
    mean = (reward.sum() - its) / (reward.size - 1)
    rates: Floats = (earned[contexts] - is_own * its + PSEUDO_USES * mean) / (uses[contexts] - is_own + PSEUDO_USES)
    return rates
