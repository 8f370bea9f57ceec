"""Draws of the candidates' scores from what is believed of their rewards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from retrieval.domain.exploration import Posterior
from retrieval.learning.propensity import Floats
from retrieval.learning.ranked import Ranked

LEAST = 1e-6
"""A parameter of a Beta distribution is at least this: a mean of 0 or 1 has none."""


def score_draws(candidates: Sequence[Ranked], posterior: Posterior, rows: int, rng: np.random.Generator) -> Floats:
    """Shape (rows, candidates): (1 - learned share) × relevance + learned share × a reward drawn from its posterior."""
    relevance = np.array([one.relevance for one in candidates], dtype=float)
    share = np.array([one.learned_share for one in candidates], dtype=float)
    drawn: Floats = (1 - share) * relevance + share * reward_draws(candidates, posterior, rows, rng)
    return drawn


def reward_draws(candidates: Sequence[Ranked], posterior: Posterior, rows: int, rng: np.random.Generator) -> Floats:
    """Shape (rows, candidates), rewards from 0 to 1.

    The shrunk posterior is the Beta distribution of the learned reward. A candidate of which nothing is learned has
    that of its raw counts instead, so exploration begins with the first item and not with the first model.
    """
    pairs = [_learned(one) if posterior is Posterior.SHRUNK else _counted(one) for one in candidates]
    first, second = np.array(pairs, dtype=float).reshape(-1, 2).T
    return rng.beta(first, second, (rows, len(candidates)))


def beta_draws(successes: Floats, failures: Floats, rows: int, rng: np.random.Generator) -> Floats:
    """Shape (rows, *successes.shape), from Beta(successes + 1, failures + 1)."""
    return rng.beta(successes + 1, failures + 1, (rows, *successes.shape))


def _learned(one: Ranked) -> tuple[float, float]:
    mean, size = one.reward_mean, one.effective_sample_size
    if mean is None:
        return _counted(one)
    return max(mean * size, LEAST), max((1 - mean) * size, LEAST)


def _counted(one: Ranked) -> tuple[float, float]:
    # Counters that have drifted are for their alarm to tell; a search must not fail of them.
    return one.arm.raw_successes + 1.0, max(one.arm.uses - one.arm.raw_successes, 0) + 1.0
