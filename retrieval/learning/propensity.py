"""Ranked candidates, draws of their scores, and the exact propensities of Thompson sampling by them. Pure.

The probability that an item is on top of a posterior draw has no closed form. So ``ROWS`` rows are drawn, and one of
them, chosen at random, decides. Given the rows, the probability of an item is the share of rows that have it on top:
exact, not estimated, for any posterior and any number of slots. A uniform choice, mixed in with the probability
``floor``, makes every candidate possible and bounds the weights of off-policy estimates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.learning.arm import NO_ARM, Arm
from retrieval.domain.search.profile_parts import Exploration, PosteriorKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A candidate among others, which stand in the order of their scores, the best first."""

    item_id: str
    score: float = 0.0
    """The score that it is ranked by; 0 to 1 where the uncertainty bonus is used, which is added to it."""
    relevance: float = 0.0
    """The part of the score that is not learned, 0 to 1."""
    learned_share: float = 1.0
    """The share of the learned reward in the score, 0 to 1: score = (1 - share) × relevance + share × reward."""
    eligible: bool = False
    """True if Thompson slots may pick it; see ``is_eligible``."""
    arm: Arm = NO_ARM
    """The raw counts that determine the Beta posterior."""
    reward_mean: float | None = None
    """The mean of the learned reward's Beta distribution, 0 to 1; None: only raw counts are known."""
    effective_sample_size: float = 0.0
    """The sum of that distribution's two parameters: above 0 where something is learned."""
    uncertainty: float = 0.0
    """The uncertainty of the learned reward, 0 to 0.5, for the uncertainty bonus; see ``Prediction.uncertainty``."""


def is_eligible(arm: Arm, created_at: datetime | None, now: datetime, exploration: Exploration) -> bool:
    """True if an item has few uses, or is young: Thompson slots are for such items.

    Uses are raw counts over all contexts, without decay. An item without a time of storage is
    not young.
    """
    if arm.uses < exploration.fewer_uses_than:
        return True
    return created_at is not None and now - created_at < timedelta(days=exploration.younger_than_days)


ROWS = 1024
"""Rows of posterior draws: without the floor, a probability is a multiple of 1 / 1024."""

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Lottery:
    """A drawing of a few among ``size`` candidates whose probabilities are known exactly before the draw."""

    size: int
    tops: Indices
    """Shape (rows, slots): the candidates that each row has on top, none twice in a row."""
    floor: float
    """The probability of a uniform choice, 0 to 1."""

    @property
    def slots(self) -> int:
        """The number of draws, at most ``size``."""
        return int(self.tops.shape[1])

    @property
    def propensities(self) -> Floats:
        """Shape (size,): the probability that each is among those drawn; they add up to ``slots``."""
        share = np.bincount(self.tops.ravel(), minlength=self.size) / len(self.tops)
        mixed = (1 - self.floor) * share + self.floor * self.slots / self.size
        return np.minimum(mixed, 1.0)

    def draw(self, rng: np.random.Generator) -> Indices:
        """Shape (slots,): those drawn, in an order of chance."""
        if rng.random() < self.floor:
            return rng.choice(self.size, self.slots, replace=False)
        return rng.permutation(self.tops[rng.integers(len(self.tops))])


def finite_rows(draws: Floats, slots: int, floor: float) -> Lottery:
    """The lottery of Thompson sampling: ``draws`` has the shape (rows, candidates), higher is better.

    Raises ``InvalidRequestError`` unless there are rows, and 1 to as many slots as candidates.
    """
    rows, size = draws.shape
    if not rows or not 1 <= slots <= size:
        raise InvalidRequestError(f"{slots} slots of {size} candidates by {rows} rows; ask for 1 to {size} by a row")
    tops = np.argpartition(-draws, slots - 1, axis=1)[:, :slots]
    return Lottery(size, tops, floor)


LEAST = 1e-6
"""A parameter of a Beta distribution is at least this: a mean of 0 or 1 has none."""


def score_draws(candidates: Sequence[Ranked], posterior: PosteriorKind, rows: int, rng: np.random.Generator) -> Floats:
    """Shape (rows, candidates): (1 - learned share) × relevance + learned share × a reward drawn from its posterior."""
    relevance = np.array([candidate.relevance for candidate in candidates], dtype=float)
    share = np.array([candidate.learned_share for candidate in candidates], dtype=float)
    drawn: Floats = (1 - share) * relevance + share * reward_draws(candidates, posterior, rows, rng)
    return drawn


def reward_draws(candidates: Sequence[Ranked], posterior: PosteriorKind, rows: int, rng: np.random.Generator) -> Floats:
    """Shape (rows, candidates), rewards from 0 to 1.

    The shrunk posterior is the Beta distribution of the learned reward. A candidate without one has
    that of its raw counts instead, so exploration begins with the first item and not with the first model.
    """
    pairs = [
        _learned_posterior(candidate) if posterior is PosteriorKind.SHRUNK else _counted_posterior(candidate)
        for candidate in candidates
    ]
    first, second = np.array(pairs, dtype=float).reshape(-1, 2).T
    return rng.beta(first, second, (rows, len(candidates)))


def beta_draws(successes: Floats, failures: Floats, rows: int, rng: np.random.Generator) -> Floats:
    """Shape (rows, *successes.shape), from Beta(successes + 1, failures + 1)."""
    return rng.beta(successes + 1, failures + 1, (rows, *successes.shape))


def _learned_posterior(candidate: Ranked) -> tuple[float, float]:
    mean, size = candidate.reward_mean, candidate.effective_sample_size
    if mean is None:
        return _counted_posterior(candidate)
    return max(mean * size, LEAST), max((1 - mean) * size, LEAST)


def _counted_posterior(candidate: Ranked) -> tuple[float, float]:
    # The doctor reports counters that have drifted; a search must not fail because of them.
    return candidate.arm.raw_successes + 1.0, max(candidate.arm.uses - candidate.arm.raw_successes, 0) + 1.0
