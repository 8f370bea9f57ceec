"""The role of an exploration policy: two verbs, and probabilities that are known before anything is drawn. Pure."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

import numpy as np

from retrieval.domain.learning.arm import Arm
from retrieval.domain.records.slate import Slot
from retrieval.learning.arm_table import updated
from retrieval.learning.propensity import Floats, Lottery
from retrieval.learning.ranked import Ranked


class SlatePlan(Protocol):
    """The plan of a policy: everything but chance is settled, so the probabilities are exact."""

    @property
    def propensities(self) -> Floats:
        """Shape (candidates,): the probability of each to be in the slate; they add up to the number of places."""

    @property
    def chances(self) -> Floats:
        """Shape (candidates, places): the probability of each to stand at each place; each column adds up to 1."""

    @property
    def pairs(self) -> tuple[int, ...]:
        """The places r for which r and r + 1 both hold, in any case, an item that its score brought there."""

    def draw(self, rng: np.random.Generator) -> Drawn:
        """Hold the drawing."""


class Drawn(NamedTuple):
    """The items at their places."""

    picked: tuple[int, ...]
    """Places in the list of candidates, from the first place of the slate to the last; none twice."""
    slots: tuple[Slot, ...]
    """The reason for each place."""


@dataclass(frozen=True, slots=True, eq=False)
class Pull:
    """A slate with the probabilities of the policy that drew it."""

    drawn: Drawn
    propensities: Floats
    """Shape (candidates,): the probability of each candidate, shown or not, to be in the slate."""
    rank_propensities: Floats
    """Shape (places,): the probability of each item shown to stand where it stands."""


class Policy(Protocol):
    """A policy of exploration. Implementations inherit from this class and define ``name`` and ``plan``.

    A policy has no state and no randomness of its own: the generator is passed in, and the same seed gives the same
    slate. What it learns is in the arms.
    """

    version: int = 1
    """Raised whenever the same numbers and the same seed would give another slate or other probabilities."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The policy's name in a profile."""

    @abstractmethod
    def plan(self, candidates: Sequence[Ranked], limit: int, rng: np.random.Generator) -> SlatePlan:
        """Plans a slate of up to ``limit`` of these candidates, the best first and none twice.

        Whatever the probabilities depend on is drawn here, and nothing else is.
        """

    def pull(self, candidates: Sequence[Ranked], limit: int, rng: np.random.Generator) -> Pull:
        """A slate of ``limit`` candidates, or of all where there are fewer, with exact propensities."""
        plan = self.plan(candidates, limit, rng)
        propensities, chances = plan.propensities, plan.chances
        drawn = plan.draw(rng)
        stood = chances[list(drawn.picked), range(len(drawn.picked))]
        return Pull(drawn, propensities, np.minimum(stood, propensities[list(drawn.picked)]))

    def update(
        self, arm: Arm, reward: float, *, weight: float = 1.0, decay: float = 1.0, at: datetime | None = None
    ) -> Arm:
        """The arm with one more event; see ``retrieval.learning.arm_table.updated``."""
        return updated(arm, reward, weight=weight, decay=decay, at=at)

    @property
    def recorded_as(self) -> str:
        """Name and version, as they stand beside each recorded retrieval: ``thompson_slots/1``."""
        return f"{self.name}/{self.version}"


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Settled places, then those that a lottery fills in an order of chance."""

    size: int
    """Candidates."""
    settled: tuple[int, ...]
    """The candidates at the first places, for certain."""
    pool: tuple[int, ...] = ()
    """The candidates of the lottery."""
    lottery: Lottery | None = None

    @property
    def propensities(self) -> Floats:
        """See ``SlatePlan``."""
        found = np.zeros(self.size)
        found[list(self.settled)] = 1.0
        if self.lottery is not None:
            found[list(self.pool)] = self.lottery.propensities
        return found

    @property
    def chances(self) -> Floats:
        """See ``SlatePlan``."""
        drawn = 0 if self.lottery is None else self.lottery.slots
        found = np.zeros((self.size, len(self.settled) + drawn))
        found[list(self.settled), range(len(self.settled))] = 1.0
        if self.lottery is not None:
            found[list(self.pool), len(self.settled) :] = (self.lottery.propensities / drawn)[:, None]
        return found

    @property
    def pairs(self) -> tuple[int, ...]:
        """See ``SlatePlan``."""
        by_score = [self._slot(candidate) is Slot.EXPLOIT for candidate in self.settled]
        return tuple(place for place in range(len(by_score) - 1) if by_score[place] and by_score[place + 1])

    def draw(self, rng: np.random.Generator) -> Drawn:
        """See ``SlatePlan``."""
        picked = self.settled
        if self.lottery is not None:
            picked += tuple(self.pool[place] for place in self.lottery.draw(rng).tolist())
        return Drawn(picked, tuple(map(self._slot, picked)))

    def _slot(self, candidate: int) -> Slot:
        """Candidates are numbered by score: one that a slate by score has no place for is explored."""
        places = len(self.settled) + (0 if self.lottery is None else self.lottery.slots)
        return Slot.EXPLORE if candidate >= places else Slot.EXPLOIT
