"""Optimism: what is uncertain is scored a little higher."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from retrieval.domain.exploration import Exploration, PolicyName
from retrieval.learning.policies.places import Places
from retrieval.learning.policies.policy import Policy
from retrieval.learning.propensity import Lottery
from retrieval.learning.ranked import Ranked


@dataclass(frozen=True, slots=True)
class UncertaintyBonus(Policy):
    """Orders by score + ``rate`` × uncertainty of the learned reward; equal sums keep their order.

    The uncertainty falls with every event on the item, so no failure raises an item's place.

    The last place has a floor: with the probability ``floor`` it goes to one of the ``most_eligible`` candidates from
    there on, uniformly. So the one whose place it is has 1 - floor + floor / n there, each other one floor / n, and all
    above are certain. A slate of one place has no floor.
    """

    rate: float = 0.1
    """Added to the score for each unit of uncertainty, at least 0."""
    floor: float = 0.1
    """The probability of a uniform choice, 0 to 1."""
    most_eligible: int = 30
    """How many the uniform choice is among, at least 1."""

    name = PolicyName.UNCERTAINTY_BONUS.value

    @classmethod
    def of(cls, exploration: Exploration) -> UncertaintyBonus:
        """With the numbers of a profile."""
        return cls(exploration.rate, exploration.floor, exploration.most_eligible)

    def plan(self, candidates: Sequence[Ranked], limit: int, rng: np.random.Generator) -> Places:  # noqa: ARG002 - the role's signature
        """All places but the last settled."""
        places = min(limit, len(candidates))
        order = self._order(candidates)
        pool = order[places - 1 : places - 1 + self.most_eligible]
        if places < 2 or len(pool) < 2 or not self.floor:
            return Places(len(candidates), order[:places])
        lottery = Lottery(len(pool), np.zeros((1, 1), dtype=np.intp), self.floor)
        return Places(len(candidates), order[: places - 1], pool, lottery)

    def _order(self, candidates: Sequence[Ranked]) -> tuple[int, ...]:
        raised = np.array([one.score + self.rate * one.uncertainty for one in candidates], dtype=float)
        return tuple(np.argsort(-raised, kind="stable").tolist())
