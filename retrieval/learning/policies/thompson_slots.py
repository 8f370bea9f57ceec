"""Thompson sampling in one or two places at the end of a slate, among items that were hardly used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from retrieval.domain.exploration import Exploration, PolicyName, Posterior
from retrieval.learning.policies.places import Places
from retrieval.learning.policies.policy import Policy
from retrieval.learning.posterior_draws import posterior_draws
from retrieval.learning.propensity import ROWS, finite_rows
from retrieval.learning.ranked import Ranked


@dataclass(frozen=True, slots=True)
class ThompsonSlots(Policy):
    """The last ``slots`` places go to the eligible candidates on top of a posterior draw (Thompson 1933).

    The other places are those of the score. An eligible candidate that has one of them keeps it; one that loses its
    place to a slot may win the slot back. The first place is never a slot. Where there is nobody to learn about beyond
    those who would be shown anyway, there is no slot, and the slate is that of the score.
    """

    slots: int = 1
    """1 or 2."""
    posterior: Posterior = Posterior.SHRUNK
    floor: float = 0.1
    """The probability that the slots are filled uniformly, 0 to 1."""
    most_eligible: int = 30
    """Only the best so many by score are eligible, at least 1."""
    rows: int = ROWS
    """Posterior draws, at least 1."""

    name = PolicyName.THOMPSON_SLOTS.value

    @classmethod
    def of(cls, exploration: Exploration) -> ThompsonSlots:
        """With the numbers of a profile."""
        return cls(exploration.slots, exploration.posterior, exploration.floor, exploration.most_eligible)

    def plan(self, candidates: Sequence[Ranked], limit: int, rng: np.random.Generator) -> Places:
        """The first places settled, the posterior drawn."""
        places = min(limit, len(candidates))
        slots, pool = self._pool(candidates, places)
        if not pool:
            return Places(len(candidates), tuple(range(places)))
        draws = posterior_draws([candidates[one] for one in pool], self.posterior, self.rows, rng)
        lottery = finite_rows(draws, slots, self.floor)
        return Places(len(candidates), tuple(range(places - slots)), pool, lottery, frozenset(pool))

    def _pool(self, candidates: Sequence[Ranked], places: int) -> tuple[int, tuple[int, ...]]:
        """How many slots there are, and the eligible candidates behind the settled places; nobody: no slot."""
        eligible = [one for one, candidate in enumerate(candidates) if candidate.eligible]
        beyond = sum(one >= places for one in eligible)
        slots = min(self.slots, places - 1, beyond, self.most_eligible)
        pool = tuple([one for one in eligible if one >= places - slots][: self.most_eligible])
        return (slots, pool) if slots > 0 and pool[-1] >= places else (0, ())
