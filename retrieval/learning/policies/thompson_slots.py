"""Thompson sampling for the last one or two places of a slate, between who has them and items that were hardly used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from retrieval.domain.exploration import Exploration, PolicyName, Posterior
from retrieval.learning.policies.places import Places
from retrieval.learning.policies.policy import Policy
from retrieval.learning.posterior_draws import score_draws
from retrieval.learning.propensity import ROWS, finite_rows
from retrieval.learning.ranked import Ranked


@dataclass(frozen=True, slots=True)
class ThompsonSlots(Policy):
    """For the last ``slots`` places, eligible candidates beyond the slate compete with those who have them by score.

    A posterior draw of all their scores decides (Thompson 1933), or chance alone, with the probability ``floor``. So
    an item is tried while it may be better than what it would replace, and not for being new; and who may be replaced
    keeps a propensity above 0, without which no other policy could be evaluated on what was recorded.

    All other places are those of the score, the first one always. There are no more slots than eligible candidates
    beyond the slate: where there are none, the slate is that of the score.
    """

    slots: int = 1
    """1 or 2."""
    posterior: Posterior = Posterior.SHRUNK
    floor: float = 0.1
    """The probability that the slots are filled uniformly, 0 to 1."""
    most_eligible: int = 30
    """Only the best so many by score compete, at least 1."""
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
        beyond = [one for one in range(places, len(candidates)) if candidates[one].eligible][: self.most_eligible]
        slots = min(self.slots, places - 1, len(beyond))
        if slots < 1:
            return Places(len(candidates), tuple(range(places)))
        settled = tuple(range(places - slots))
        pool = (*range(places - slots, places), *beyond)
        draws = score_draws([candidates[one] for one in pool], self.posterior, self.rows, rng)
        return Places(len(candidates), settled, pool, finite_rows(draws, slots, self.floor))
