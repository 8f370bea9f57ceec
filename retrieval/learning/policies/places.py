"""The plan that the policies share: the first places are settled, the last ones may be drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from retrieval.domain.slate import Slot
from retrieval.learning.policies.policy import Drawn
from retrieval.learning.propensity import Floats, Lottery


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Settled places, then those that a lottery fills in an order of chance."""

    size: int
    """Candidates."""
    settled: tuple[int, ...]
    """Who stands at the first places, for certain."""
    pool: tuple[int, ...] = ()
    """Whom the lottery is about."""
    lottery: Lottery | None = None

    @property
    def propensities(self) -> Floats:
        """See ``Plan``."""
        found = np.zeros(self.size)
        found[list(self.settled)] = 1.0
        if self.lottery is not None:
            found[list(self.pool)] = self.lottery.propensities
        return found

    @property
    def chances(self) -> Floats:
        """See ``Plan``."""
        drawn = 0 if self.lottery is None else self.lottery.slots
        found = np.zeros((self.size, len(self.settled) + drawn))
        found[list(self.settled), range(len(self.settled))] = 1.0
        if self.lottery is not None:
            found[list(self.pool), len(self.settled) :] = (self.lottery.propensities / drawn)[:, None]
        return found

    @property
    def pairs(self) -> tuple[int, ...]:
        """See ``Plan``."""
        by_score = [self._slot(one) is Slot.EXPLOIT for one in self.settled]
        return tuple(place for place in range(len(by_score) - 1) if by_score[place] and by_score[place + 1])

    def draw(self, rng: np.random.Generator) -> Drawn:
        """See ``Plan``."""
        picked = self.settled
        if self.lottery is not None:
            picked += tuple(self.pool[place] for place in self.lottery.draw(rng).tolist())
        return Drawn(picked, tuple(map(self._slot, picked)))

    def _slot(self, candidate: int) -> Slot:
        """Candidates are numbered by score: one that a slate by score has no place for is explored."""
        places = len(self.settled) + (0 if self.lottery is None else self.lottery.slots)
        return Slot.EXPLORE if candidate >= places else Slot.EXPLOIT
