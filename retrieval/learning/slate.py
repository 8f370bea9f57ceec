"""Exploration policies: the items that a slate shows beyond the best by score, and their probabilities. Pure.

    off                 the best by score
    uncertainty_bonus   the best by score + rate × uncertainty, the last place with a uniform floor
    thompson_slots      one or two places drawn by Thompson sampling among items with few uses
    adjacent_swaps      around any of them: in some slates two neighbours change places

A slate is the list of shown items, which a policy draws from a ranking, with probabilities that are known before the
draw. ``policy_for`` makes the policy of a profile.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from retrieval.domain.records.slate import Placed, Slot
from retrieval.domain.search.profile_parts import Exploration, PolicyName, PosteriorKind
from retrieval.learning.arm_table import Floats
from retrieval.learning.propensity import ROWS, Lottery, Ranked, finite_rows, score_draws


class SlatePlan(Protocol):
    """The plan of a policy: all but the draw is decided, so the probabilities are exact."""

    @property
    def propensities(self) -> Floats:
        """Shape (candidates,): the probability of being in the slate; they add up to the number of places."""

    @property
    def chances(self) -> Floats:
        """Shape (candidates, places): the probability of being at each place; each column adds up to 1."""

    @property
    def pairs(self) -> tuple[int, ...]:
        """The places r such that r and r + 1 certainly have items placed by score."""

    def draw(self, rng: np.random.Generator) -> Drawn:
        """Draw the slate."""


class Drawn(NamedTuple):
    """The items at their places."""

    picked: tuple[int, ...]
    """Indexes of candidates, from the first place of the slate to the last, without repetitions."""
    slots: tuple[Slot, ...]
    """The reason for each place."""


@dataclass(frozen=True, slots=True, eq=False)
class Pull:
    """A slate with the probabilities of the policy that drew it."""

    drawn: Drawn
    propensities: Floats
    """Shape (candidates,): each candidate's probability of being in the slate, shown or not."""
    rank_propensities: Floats
    """Shape (places,): each shown item's probability of being at its place."""


class Policy(Protocol):
    """A policy of exploration. Implementations inherit from this class and define ``name`` and ``plan``.

    A policy has no state and no randomness of its own: the generator is passed in, and the same seed gives the same
    slate. All that is learned is in the arms, which the database counts.
    """

    version: int = 1
    """Raised with every change that gives another slate or other probabilities for the same input and seed."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The policy's name in a profile."""

    @abstractmethod
    def plan(self, candidates: Sequence[Ranked], limit: int, rng: np.random.Generator) -> SlatePlan:
        """Plan a slate of up to ``limit`` of these candidates, given best first without repetitions.

        Draws all that the probabilities depend on, and nothing else.
        """

    def pull(self, candidates: Sequence[Ranked], limit: int, rng: np.random.Generator) -> Pull:
        """A slate of ``limit`` candidates, or of all if there are fewer, with exact propensities."""
        plan = self.plan(candidates, limit, rng)
        propensities, chances = plan.propensities, plan.chances
        drawn = plan.draw(rng)
        rank_chances = chances[list(drawn.picked), range(len(drawn.picked))]
        return Pull(drawn, propensities, np.minimum(rank_chances, propensities[list(drawn.picked)]))

    @property
    def recorded_as(self) -> str:
        """Name and version, as recorded with each retrieval: ``thompson_slots/1``."""
        return f"{self.name}/{self.version}"


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Certain places, followed by places that a lottery fills in random order."""

    size: int
    """The number of candidates."""
    settled: tuple[int, ...]
    """The candidates at the first places, which are certain."""
    pool: tuple[int, ...] = ()
    """The candidates of the lottery."""
    lottery: Lottery | None = None

    @property
    def propensities(self) -> Floats:
        """See ``SlatePlan``."""
        probabilities = np.zeros(self.size)
        probabilities[list(self.settled)] = 1.0
        if self.lottery is not None:
            probabilities[list(self.pool)] = self.lottery.propensities
        return probabilities

    @property
    def chances(self) -> Floats:
        """See ``SlatePlan``."""
        drawn = 0 if self.lottery is None else self.lottery.slots
        probabilities = np.zeros((self.size, len(self.settled) + drawn))
        probabilities[list(self.settled), range(len(self.settled))] = 1.0
        if self.lottery is not None:
            probabilities[list(self.pool), len(self.settled) :] = (self.lottery.propensities / drawn)[:, None]
        return probabilities

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
        """Candidates are numbered by score; those beyond the slate by score are explored."""
        places = len(self.settled) + (0 if self.lottery is None else self.lottery.slots)
        return Slot.EXPLORE if candidate >= places else Slot.EXPLOIT


@dataclass(frozen=True, slots=True)
class Off(Policy):
    """Shows the candidates in their order, each with probability 1."""

    name = PolicyName.OFF.value

    def plan(self, candidates: Sequence[Ranked], limit: int, rng: np.random.Generator) -> Places:  # noqa: ARG002 - the role's signature
        """A plan with all places settled."""
        return Places(len(candidates), tuple(range(min(limit, len(candidates)))))


@dataclass(frozen=True, slots=True)
class AdjacentSwaps(Policy):
    """Swaps one pair of neighbours, drawn uniformly, with the probability ``share``.

    Only pairs that the inner policy placed by score are swapped, so the items of the slate stay the same, and the
    probability of each place is exact. Clicks on the same items at two places measure position bias (Agarwal et al.,
    WSDM 2019).
    """

    inner: Policy
    share: float = 0.02
    """The share of slates with a swap, 0 to 1."""

    @property
    def name(self) -> str:
        """The inner policy's name and version, and the name of this one."""
        return f"{self.inner.recorded_as}+adjacent_swaps"

    def plan(self, candidates: Sequence[Ranked], limit: int, rng: np.random.Generator) -> SlatePlan:
        """The inner policy's plan, with swaps if there are pairs."""
        plan = self.inner.plan(candidates, limit, rng)
        return Swapped(plan, self.share) if plan.pairs else plan


@dataclass(frozen=True, slots=True, eq=False)
class Swapped:
    """A plan with at least one pair."""

    inner: SlatePlan
    share: float

    @property
    def propensities(self) -> Floats:
        """See ``SlatePlan``; a swap changes no item's presence in the slate."""
        return self.inner.propensities

    @property
    def chances(self) -> Floats:
        """See ``SlatePlan``: each pair exchanges an equal part of the probabilities of its two places."""
        before = self.inner.chances
        probabilities = before.copy()
        first = np.array(self.inner.pairs)
        part = self.share / len(first)
        # A place may be in two pairs, so the parts are added one by one, which plain indexing would not do.
        change = part * (before[:, first + 1] - before[:, first])
        np.add.at(probabilities.T, first, change.T)
        np.add.at(probabilities.T, first + 1, -change.T)
        return np.maximum(probabilities, 0.0)

    @property
    def pairs(self) -> tuple[int, ...]:
        """See ``SlatePlan``: no pair is certain any more."""
        return ()

    def draw(self, rng: np.random.Generator) -> Drawn:
        """See ``SlatePlan``."""
        drawn = self.inner.draw(rng)
        if rng.random() >= self.share:
            return drawn
        first = int(rng.choice(self.inner.pairs))
        return Drawn(_swap(drawn.picked, first), _mark(drawn.slots, first))


def _swap(picked: tuple[int, ...], first: int) -> tuple[int, ...]:
    return (*picked[:first], picked[first + 1], picked[first], *picked[first + 2 :])


def _mark(slots: tuple[Slot, ...], first: int) -> tuple[Slot, ...]:
    return (*slots[:first], Slot.SWAP, Slot.SWAP, *slots[first + 2 :])


@dataclass(frozen=True, slots=True)
class ThompsonSlots(Policy):
    """Draws the last ``slots`` places among eligible candidates beyond the slate and the items placed there by score.

    A posterior draw of all their scores decides (Thompson 1933), or with probability ``floor`` a uniform choice. So an
    item is tried as long as it may be better than the one that it would replace, not because it is new; and an item
    that may be replaced keeps a propensity above 0, without which records could not evaluate other policies.

    All other places, always including the first, are by score. There are no more slots than eligible candidates beyond
    the slate; without any, the slate is by score.
    """

    slots: int = 1
    """1 or 2."""
    posterior: PosteriorKind = PosteriorKind.SHRUNK
    floor: float = 0.1
    """The probability of a uniform choice, 0 to 1."""
    most_eligible: int = 30
    """The most eligible candidates that compete, those with the best scores; at least 1."""
    rows: int = ROWS
    """The number of posterior draws, at least 1."""

    name = PolicyName.THOMPSON_SLOTS.value

    @classmethod
    def of(cls, exploration: Exploration) -> ThompsonSlots:
        """The policy with the numbers of a profile."""
        return cls(exploration.slots, exploration.posterior, exploration.floor, exploration.most_eligible)

    def plan(self, candidates: Sequence[Ranked], limit: int, rng: np.random.Generator) -> Places:
        """A plan with the first places settled and the posterior drawn."""
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

    The last place has a floor: with probability ``floor`` it goes to one of the ``most_eligible`` candidates from there
    on, uniformly. So the probability of the candidate next by score is 1 - floor + floor / n, that of each other one
    floor / n, and all places above are certain. A slate of one place has no floor.
    """

    rate: float = 0.1
    """Added to the score per unit of uncertainty, at least 0."""
    floor: float = 0.1
    """The probability of a uniform choice, 0 to 1."""
    most_eligible: int = 30
    """The number of candidates for the uniform choice, at least 1."""

    name = PolicyName.UNCERTAINTY_BONUS.value

    @classmethod
    def of(cls, exploration: Exploration) -> UncertaintyBonus:
        """The policy with the numbers of a profile."""
        return cls(exploration.rate, exploration.floor, exploration.most_eligible)

    def plan(self, candidates: Sequence[Ranked], limit: int, rng: np.random.Generator) -> Places:  # noqa: ARG002 - the role's signature
        """A plan with all places but the last settled."""
        places = min(limit, len(candidates))
        order = self._order(candidates)
        pool = order[places - 1 : places - 1 + self.most_eligible]
        if places < 2 or len(pool) < 2 or not self.floor:
            return Places(len(candidates), order[:places])
        lottery = Lottery(len(pool), np.zeros((1, 1), dtype=np.intp), self.floor)
        return Places(len(candidates), order[: places - 1], pool, lottery)

    def _order(self, candidates: Sequence[Ranked]) -> tuple[int, ...]:
        sums = np.array([candidate.score + self.rate * candidate.uncertainty for candidate in candidates], dtype=float)
        return tuple(np.argsort(-sums, kind="stable").tolist())


def policy_for(exploration: Exploration) -> Policy:
    """The policy of the profile, with swaps around it if the profile has swaps."""
    policy = _policy(exploration)
    return AdjacentSwaps(policy, exploration.swaps) if exploration.swaps else policy


def _policy(exploration: Exploration) -> Policy:
    match exploration.policy:
        case PolicyName.OFF:
            return Off()
        case PolicyName.UNCERTAINTY_BONUS:
            return UncertaintyBonus.of(exploration)
        case PolicyName.THOMPSON_SLOTS:
            return ThompsonSlots.of(exploration)


def drawn_slate(
    candidates: Sequence[Ranked], limit: int, exploration: Exploration, rng: np.random.Generator
) -> tuple[list[Placed], dict[str, float]]:
    """The slate of ``limit`` candidates, or of all if there are fewer, and every candidate's probability to be in it.

    The candidates are given best first, without repetitions. The same state of the generator gives the same slate with
    the same probabilities.
    """
    pull = policy_for(exploration).pull(candidates, max(limit, 0), rng)
    placed = [
        Placed(candidates[place].item_id, slot, float(pull.propensities[place]), float(rank_chance))
        for place, slot, rank_chance in zip(pull.drawn.picked, pull.drawn.slots, pull.rank_propensities, strict=True)
    ]
    return placed, {
        candidate.item_id: float(chance) for candidate, chance in zip(candidates, pull.propensities, strict=True)
    }


def slate_probabilities(
    candidates: Sequence[Ranked], limit: int, exploration: Exploration, rng: np.random.Generator
) -> dict[str, float]:
    """Every candidate's probability of being in the slate, by item, as ``drawn_slate`` gives it, without a draw.

    They add up to the number of places. Another state of the generator gives Thompson sampling other posterior draws,
    and slightly different probabilities.
    """
    plan = policy_for(exploration).plan(candidates, max(limit, 0), rng)
    return {candidate.item_id: float(chance) for candidate, chance in zip(candidates, plan.propensities, strict=True)}
