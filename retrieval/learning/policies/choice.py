"""The exploration policies, and which of them a profile means. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from retrieval.domain.records.slate import Slot
from retrieval.domain.search.profile_parts import Exploration, PolicyName, PosteriorKind
from retrieval.learning.policies.policy import Drawn, Places, Policy, SlatePlan
from retrieval.learning.propensity import ROWS, Floats, Lottery, finite_rows, score_draws
from retrieval.learning.ranked import Ranked


@dataclass(frozen=True, slots=True)
class Off(Policy):
    """Shows the candidates in their order, each with probability 1."""

    name = PolicyName.OFF.value

    def plan(self, candidates: Sequence[Ranked], limit: int, rng: np.random.Generator) -> Places:  # noqa: ARG002 - the role's signature
        """All places settled."""
        return Places(len(candidates), tuple(range(min(limit, len(candidates)))))


@dataclass(frozen=True, slots=True)
class AdjacentSwaps(Policy):
    """Swaps one pair of neighbours, drawn uniformly, with the probability ``share``.

    Only pairs that the inner policy settled by score take part, so who is in the slate stays as it is, and the chance
    of each place is exact. Clicks on the same items at two places are what position bias is estimated from (Agarwal
    et al., WSDM 2019).
    """

    inner: Policy
    share: float = 0.02
    """The share of slates with a swap, 0 to 1."""

    @property
    def name(self) -> str:
        """The inner policy's, with its version, and its own."""
        return f"{self.inner.recorded_as}+adjacent_swaps"

    def plan(self, candidates: Sequence[Ranked], limit: int, rng: np.random.Generator) -> SlatePlan:
        """The inner policy's plan, with swaps where there are pairs."""
        plan = self.inner.plan(candidates, limit, rng)
        return Swapped(plan, self.share) if plan.pairs else plan


@dataclass(frozen=True, slots=True, eq=False)
class Swapped:
    """A plan with at least one pair."""

    inner: SlatePlan
    share: float

    @property
    def propensities(self) -> Floats:
        """See ``SlatePlan``; a swap brings nobody in and puts nobody out."""
        return self.inner.propensities

    @property
    def chances(self) -> Floats:
        """See ``SlatePlan``: each pair moves an equal part of what is at its two places."""
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
        """See ``SlatePlan``: none is settled any more."""
        return ()

    def draw(self, rng: np.random.Generator) -> Drawn:
        """See ``SlatePlan``."""
        drawn = self.inner.draw(rng)
        if rng.random() >= self.share:
            return drawn
        first = int(rng.choice(self.inner.pairs))
        return Drawn(_exchanged(drawn.picked, first), _marked(drawn.slots, first))


def _exchanged(picked: tuple[int, ...], first: int) -> tuple[int, ...]:
    return (*picked[:first], picked[first + 1], picked[first], *picked[first + 2 :])


def _marked(slots: tuple[Slot, ...], first: int) -> tuple[Slot, ...]:
    return (*slots[:first], Slot.SWAP, Slot.SWAP, *slots[first + 2 :])


@dataclass(frozen=True, slots=True)
class ThompsonSlots(Policy):
    """Draws the last ``slots`` places among eligible candidates beyond the slate and those placed there by score.

    A posterior draw of all their scores decides (Thompson 1933), or chance alone, with the probability ``floor``. So
    an item is tried while it may be better than what it would replace, and not for being new; and who may be replaced
    keeps a propensity above 0, without which no other policy could be evaluated on what was recorded.

    All other places are those of the score, the first one always. There are no more slots than eligible candidates
    beyond the slate: where there are none, the slate is that of the score.
    """

    slots: int = 1
    """1 or 2."""
    posterior: PosteriorKind = PosteriorKind.SHRUNK
    floor: float = 0.1
    """The probability that the slots are filled uniformly, 0 to 1."""
    most_eligible: int = 30
    """The number of candidates, best by score first, that compete; at least 1."""
    rows: int = ROWS
    """Posterior draws, at least 1."""

    name = PolicyName.THOMPSON_SLOTS.value

    @classmethod
    def of(cls, exploration: Exploration) -> ThompsonSlots:
        """Makes the policy with the numbers of a profile."""
        return cls(exploration.slots, exploration.posterior, exploration.floor, exploration.most_eligible)

    def plan(self, candidates: Sequence[Ranked], limit: int, rng: np.random.Generator) -> Places:
        """The first places settled, the posterior drawn."""
        places = min(limit, len(candidates))
        beyond = [place for place in range(places, len(candidates)) if candidates[place].eligible][: self.most_eligible]
        slots = min(self.slots, places - 1, len(beyond))
        if slots < 1:
            return Places(len(candidates), tuple(range(places)))
        settled = tuple(range(places - slots))
        pool = (*range(places - slots, places), *beyond)
        draws = score_draws([candidates[place] for place in pool], self.posterior, self.rows, rng)
        return Places(len(candidates), settled, pool, finite_rows(draws, slots, self.floor))


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
    """The number of candidates among which the uniform choice is made, at least 1."""

    name = PolicyName.UNCERTAINTY_BONUS.value

    @classmethod
    def of(cls, exploration: Exploration) -> UncertaintyBonus:
        """Makes the policy with the numbers of a profile."""
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
        raised = np.array(
            [candidate.score + self.rate * candidate.uncertainty for candidate in candidates], dtype=float
        )
        return tuple(np.argsort(-raised, kind="stable").tolist())


def policy_for(exploration: Exploration) -> Policy:
    """The policy with the profile's numbers, and swaps around it where it asks for them."""
    policy = _named(exploration)
    return AdjacentSwaps(policy, exploration.swaps) if exploration.swaps else policy


def _named(exploration: Exploration) -> Policy:
    match exploration.policy:
        case PolicyName.OFF:
            return Off()
        case PolicyName.UNCERTAINTY_BONUS:
            return UncertaintyBonus.of(exploration)
        case PolicyName.THOMPSON_SLOTS:
            return ThompsonSlots.of(exploration)
