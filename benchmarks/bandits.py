"""Bandit policies on independent arms, many runs at once: Thompson sampling beside what it is compared with.

The arms' numbers have the shape (runs, arms). Thompson sampling draws from the product's own posterior. It serves one
fresh row: one of 1,024 independent rows, taken by chance, has the same law, and what the rows are for, the
propensities, plays no part in regret.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Picks = NDArray[np.intp]


@dataclass
class Counts:
    """The observations of each arm."""

    successes: Floats
    failures: Floats
    decay: float = 1.0
    """The share of all evidence that remains after one pull."""

    @classmethod
    def nothing(cls, runs: int, arms: int, half_life: float | None) -> Counts:
        """No evidence yet; ``half_life`` in pulls, None: it stays."""
        decay = 1.0 if half_life is None else 0.5 ** (1 / half_life)
        return cls(np.zeros((runs, arms)), np.zeros((runs, arms)), decay)

    def add(self, picks: Picks, rewards: Floats) -> None:
        """One event in each run."""
        if self.decay < 1:
            self.successes *= self.decay
            self.failures *= self.decay
        runs = np.arange(len(picks))
        self.successes[runs, picks] += rewards
        self.failures[runs, picks] += 1 - rewards

    def copy(self) -> Counts:
        """As they are now."""
        return Counts(self.successes.copy(), self.failures.copy(), self.decay)


Policy = Callable[[Counts, int, np.random.Generator], Picks]
"""From counts and the number of pulls so far to one arm in each run."""


def thompson(counts: Counts, _pulls: int, rng: np.random.Generator) -> Picks:
    """The arm on top of a posterior draw."""
    return np.asarray(rng.beta(counts.successes + 1, counts.failures + 1).argmax(axis=1))


PRIOR_USES = 8.0
"""The weight of the mean of all arms, in uses: what shrinkage gives a collection, which caps it at 10."""


def shrunk_thompson(counts: Counts, _pulls: int, rng: np.random.Generator) -> Picks:
    """The same, each arm shrunk towards the mean rate of all: what is shipped, where arms share their collection only.

    Arms count alike in that mean, whatever their pulls; else the arm that is pulled most would be everybody's prior.
    """
    pulled = counts.successes + counts.failures
    mean = ((counts.successes + 1) / (pulled + 2)).mean(axis=1, keepdims=True)
    won, failures = counts.successes + PRIOR_USES * mean, counts.failures + PRIOR_USES * (1 - mean)
    return np.asarray(rng.beta(won, failures).argmax(axis=1))


def ucb1(counts: Counts, pulls: int, _rng: np.random.Generator) -> Picks:
    """Mean + √(2 ln t / n) (Auer, Cesa-Bianchi, Fischer 2002); an arm that was never pulled comes first."""
    pulled = counts.successes + counts.failures
    bound = counts.successes / np.maximum(pulled, 1e-9) + np.sqrt(2 * np.log(pulls + 1) / np.maximum(pulled, 1e-9))
    return np.asarray(np.where(pulled > 0, bound, np.inf).argmax(axis=1))


def greedy(counts: Counts, _pulls: int, rng: np.random.Generator) -> Picks:
    """The best mean of Beta(1, 1) posteriors, ties at random."""
    means = (counts.successes + 1) / (counts.successes + counts.failures + 2)
    return np.asarray((means + 1e-9 * rng.random(means.shape)).argmax(axis=1))


def uniform(counts: Counts, _pulls: int, rng: np.random.Generator) -> Picks:
    """Any arm."""
    return rng.integers(counts.successes.shape[1], size=len(counts.successes))


def mixed(policy: Policy, share: float) -> Policy:
    """The policy, but with that probability any arm: ε-greedy, or Thompson sampling with a floor."""

    def pull(counts: Counts, pulls: int, rng: np.random.Generator) -> Picks:
        anyhow = rng.random(len(counts.successes)) < share
        return np.where(anyhow, uniform(counts, pulls, rng), policy(counts, pulls, rng))

    return pull


@dataclass(frozen=True)
class World:
    """Arms with a gap: one has ``best``, all others ``other``; the best arm changes every ``change_every`` pulls."""

    arms: int = 10
    best: float = 0.5
    other: float = 0.4
    horizon: int = 10_000
    change_every: int | None = None

    def best_arms(self, runs: int, rng: np.random.Generator) -> Picks:
        """Shape (phases, runs): which arm is the best in each phase, another one each time."""
        phases = 1 if self.change_every is None else -(-self.horizon // self.change_every)
        steps = rng.integers(1, self.arms, (phases, runs))
        steps[0] = rng.integers(0, self.arms, runs)
        return np.asarray(steps.cumsum(axis=0) % self.arms)


def simulate(
    world: World, policy: Policy, runs: int, seed: int, *, half_life: float | None = None, batch: int = 1
) -> Floats:
    """Pull ``world.horizon`` times in each run; the policy sees the observations up to the last full batch.

    Gives the regret of each run, shape (runs,): the sum of gaps over all pulls.
    """
    rng = np.random.default_rng(seed)
    best = world.best_arms(runs, rng)
    counts = Counts.nothing(runs, world.arms, half_life)
    visible = counts
    regret = np.zeros(runs)
    for pull in range(world.horizon):
        if pull % batch == 0:
            visible = counts.copy() if batch > 1 else counts
        picks = policy(visible, pull, rng)
        is_best = picks == best[pull // world.change_every if world.change_every else 0]
        rewards = (rng.random(runs) < np.where(is_best, world.best, world.other)).astype(float)
        counts.add(picks, rewards)
        regret += np.where(is_best, 0.0, world.best - world.other)
    return regret
