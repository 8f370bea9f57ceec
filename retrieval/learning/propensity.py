"""Ranked candidates, draws of their scores, and the exact propensities of Thompson sampling. Pure.

``ROWS`` rows of posterior draws are made, and one of them, chosen at random, decides. Given the rows, the probability
of an item is the share of rows with the item on top. A uniform choice with probability ``floor`` bounds it from below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from retrieval.domain.learning.arm import NO_ARM, Arm
from retrieval.domain.search.profile_parts import Exploration, PosteriorKind
from retrieval.learning.arm_table import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A candidate in a list in the order of scores, the best first."""

    item_id: str
    score: float = 0.0
    """The score that determines its rank; 0 to 1 for the uncertainty bonus, which is added to it."""
    relevance: float = 0.0
    """The part of the score that is not learned, 0 to 1."""
    learned_share: float = 1.0
    """The share of the learned reward in the score, 0 to 1: score = (1 - share) × relevance + share × reward."""
    eligible: bool = False
    """True if Thompson slots may pick it; see ``is_eligible``."""
    arm: Arm = NO_ARM
    """The raw counts that determine the Beta posterior."""
    reward_mean: float | None = None
    """The mean of the learned reward's Beta distribution, 0 to 1; None: there are only raw counts."""
    effective_sample_size: float = 0.0
    """The sum of that distribution's two parameters, above 0 with a learned reward."""
    uncertainty: float = 0.0
    """The uncertainty of the learned reward, 0 to 0.5, for the uncertainty bonus; see ``Prediction.uncertainty``."""


def is_eligible(arm: Arm, created_at: datetime | None, now: datetime, exploration: Exploration) -> bool:
    """True if an item has few uses or is young, so that Thompson slots may pick it.

    Uses are raw counts over all contexts, without decay. An item without a time of storing is not young.
    """
    if arm.uses < exploration.fewer_uses_than:
        return True
    return created_at is not None and now - created_at < timedelta(days=exploration.younger_than_days)


ROWS = 1024
"""Rows of posterior draws: without the floor, a probability is a multiple of 1 / 1024."""

Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Lottery:
    """A draw of ``slots`` among ``size`` candidates, with exact probabilities before the draw."""

    size: int
    tops: Indices
    """Shape (rows, slots): the candidates on top of each row, without repetitions in a row."""
    floor: float
    """The probability of a uniform choice, 0 to 1."""

    @property
    def slots(self) -> int:
        """The number of draws, at most ``size``."""
        return int(self.tops.shape[1])

    @property
    def propensities(self) -> Floats:
        """Shape (size,): the probability that each candidate is drawn; they add up to ``slots``."""
        share = np.bincount(self.tops.ravel(), minlength=self.size) / len(self.tops)
        probabilities = (1 - self.floor) * share + self.floor * self.slots / self.size
        return np.minimum(probabilities, 1.0)

    def draw(self, rng: np.random.Generator) -> Indices:
        """Shape (slots,): the drawn candidates in random order."""
        if rng.random() < self.floor:
            return rng.choice(self.size, self.slots, replace=False)
        return rng.permutation(self.tops[rng.integers(len(self.tops))])


def finite_rows(draws: Floats, slots: int, floor: float) -> Lottery:
    """The lottery of Thompson sampling: ``draws`` has the shape (rows, candidates), higher is better."""
    tops = np.argpartition(-draws, slots - 1, axis=1)[:, :slots]
    return Lottery(draws.shape[1], tops, floor)


LEAST = 1e-6
"""The least parameter of a Beta distribution, which a mean of 0 or 1 would make 0."""


def score_draws(
    candidates: Sequence[Ranked], posterior: PosteriorKind, rng: np.random.Generator, rows: int = ROWS
) -> Floats:
    """Shape (rows, candidates): (1 - learned share) × relevance + learned share × a reward drawn from its posterior.

    The shrunk posterior is the Beta distribution of the learned reward. For a candidate without a learned reward it is
    that of its raw counts, so that exploration begins with the first item and not with the first model.
    """
    relevance = np.array([candidate.relevance for candidate in candidates], dtype=float)
    share = np.array([candidate.learned_share for candidate in candidates], dtype=float)
    pairs = [_posterior(candidate, posterior) for candidate in candidates]
    first, second = np.array(pairs, dtype=float).reshape(-1, 2).T
    scores: Floats = (1 - share) * relevance + share * rng.beta(first, second, (rows, len(candidates)))
    return scores


def _posterior(candidate: Ranked, kind: PosteriorKind) -> tuple[float, float]:
    mean, size, arm = candidate.reward_mean, candidate.effective_sample_size, candidate.arm
    if kind is PosteriorKind.SHRUNK and mean is not None:
        return max(mean * size, LEAST), max((1 - mean) * size, LEAST)
    # A search must not fail because of inconsistent counters, which the doctor reports.
    return arm.raw_successes + 1.0, max(arm.uses - arm.raw_successes, 0) + 1.0
