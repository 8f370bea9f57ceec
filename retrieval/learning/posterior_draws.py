"""Draws of the candidates' scores from what is believed of their rewards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from retrieval.domain.exploration import Posterior
from retrieval.learning.propensity import Floats
from retrieval.learning.ranked import Ranked


def score_draws(candidates: Sequence[Ranked], posterior: Posterior, rows: int, rng: np.random.Generator) -> Floats:
    """Shape (rows, candidates): (1 - learned share) × relevance + learned share × a reward drawn from its posterior."""
    relevance = np.array([one.relevance for one in candidates], dtype=float)
    share = np.array([one.learned_share for one in candidates], dtype=float)
    drawn: Floats = (1 - share) * relevance + share * reward_draws(candidates, posterior, rows, rng)
    return drawn


def reward_draws(candidates: Sequence[Ranked], posterior: Posterior, rows: int, rng: np.random.Generator) -> Floats:
    """Shape (rows, candidates), rewards from 0 to 1.

    The shrunk posterior is logit-normal. A candidate of which nothing is learned has the Beta posterior instead, so
    exploration begins with the first item and not with the first model.
    """
    draws = np.empty((rows, len(candidates)))
    learned = np.array([posterior is Posterior.SHRUNK and _is_learned(one) for one in candidates], dtype=bool)
    if learned.any():
        means = np.array([one.logit_mean for one in candidates if _is_learned(one)], dtype=float)
        deviations = np.array([one.logit_sd for one in candidates if _is_learned(one)], dtype=float)
        draws[:, learned] = _expit(logit_normal_draws(means, deviations, rows, rng))
    if not learned.all():
        arms = [one.arm for one, is_learned in zip(candidates, learned, strict=True) if not is_learned]
        successes = np.array([arm.raw_successes for arm in arms], dtype=float)
        uses = np.array([arm.uses for arm in arms], dtype=float)
        # Counters that have drifted are for their alarm to tell; a search must not fail of them.
        draws[:, ~learned] = beta_draws(successes, np.maximum(uses - successes, 0.0), rows, rng)
    return draws


def beta_draws(successes: Floats, failures: Floats, rows: int, rng: np.random.Generator) -> Floats:
    """Shape (rows, *successes.shape), from Beta(successes + 1, failures + 1)."""
    return rng.beta(successes + 1, failures + 1, (rows, *successes.shape))


def logit_normal_draws(means: Floats, deviations: Floats, rows: int, rng: np.random.Generator) -> Floats:
    """Shape (rows, *means.shape), on the logit scale."""
    return means + deviations * rng.standard_normal((rows, *means.shape))


def _is_learned(one: Ranked) -> bool:
    return one.logit_mean is not None and one.logit_sd is not None


def _expit(logits: Floats) -> Floats:
    """1 / (1 + e^-x), which does not overflow."""
    return 0.5 * (1 + np.tanh(logits / 2))
