"""Exact propensities of Thompson sampling: one of finitely many rows of posterior draws is served.

How probable it is that an item is on top of a fresh posterior draw has no closed form. So ``ROWS`` rows are drawn, and
one of them, by chance, decides. Given the rows, the probability of an item is the share of rows that have it on top:
exact for what was done, whatever the posterior and the number of slots, and no estimate. A uniform choice, mixed in
with the probability ``floor``, makes every candidate possible and bounds the weights of off-policy estimates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retrieval.domain.errors import InvalidRequestError

ROWS = 1024
"""Rows of posterior draws: a probability is a multiple of one part in so many, the floor aside."""

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Lottery:
    """A drawing of a few among ``size`` candidates whose probabilities are known exactly before it is held."""

    size: int
    tops: Indices
    """Shape (rows, slots): the candidates that each row has on top, none twice in a row."""
    floor: float
    """The probability of a uniform choice, 0 to 1."""

    @property
    def slots(self) -> int:
        """How many are drawn, at most ``size``."""
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
