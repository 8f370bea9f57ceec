"""Two neighbours change places now and then, around any policy: what a place alone is worth becomes visible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from retrieval.domain.slate import Slot
from retrieval.learning.policies.policy import Drawn, Plan, Policy
from retrieval.learning.propensity import Floats
from retrieval.learning.ranked import Ranked


@dataclass(frozen=True, slots=True)
class AdjacentSwaps(Policy):
    """With the probability ``share``, one pair of neighbours, drawn uniformly, changes places.

    Only pairs that the inner policy settled by score take part, so who is in the slate stays as it is, and the chance
    of each place is exact. Clicks on the same items at two places are what position bias is estimated from (Agarwal
    et al., WSDM 2019).
    """

    inner: Policy
    share: float = 0.02
    """Of the slates, 0 to 1."""

    @property
    def name(self) -> str:
        """The inner policy's, with its version, and its own."""
        return f"{self.inner.recorded_as}+adjacent_swaps"

    def plan(self, candidates: Sequence[Ranked], limit: int, rng: np.random.Generator) -> Plan:
        """The inner policy's plan, with swaps where there are pairs."""
        plan = self.inner.plan(candidates, limit, rng)
        return Swapped(plan, self.share) if plan.pairs else plan


@dataclass(frozen=True, slots=True, eq=False)
class Swapped:
    """A plan with at least one pair."""

    inner: Plan
    share: float

    @property
    def propensities(self) -> Floats:
        """See ``Plan``; a swap brings nobody in and puts nobody out."""
        return self.inner.propensities

    @property
    def chances(self) -> Floats:
        """See ``Plan``: each pair moves an equal part of what is at its two places."""
        before = self.inner.chances
        found = before.copy()
        first = np.array(self.inner.pairs)
        part = self.share / len(first)
        # A place is in up to two pairs, so the parts are added one by one, which plain indexing would not do.
        moved = part * (before[:, first + 1] - before[:, first])
        np.add.at(found.T, first, moved.T)
        np.add.at(found.T, first + 1, -moved.T)
        return np.maximum(found, 0.0)

    @property
    def pairs(self) -> tuple[int, ...]:
        """See ``Plan``: none is settled any more."""
        return ()

    def draw(self, rng: np.random.Generator) -> Drawn:
        """See ``Plan``."""
        drawn = self.inner.draw(rng)
        if rng.random() >= self.share:
            return drawn
        first = int(rng.choice(self.inner.pairs))
        return Drawn(_exchanged(drawn.picked, first), _marked(drawn.slots, first))


def _exchanged(picked: tuple[int, ...], first: int) -> tuple[int, ...]:
    return (*picked[:first], picked[first + 1], picked[first], *picked[first + 2 :])


def _marked(slots: tuple[Slot, ...], first: int) -> tuple[Slot, ...]:
    return (*slots[:first], Slot.SWAP, Slot.SWAP, *slots[first + 2 :])
