"""Exploration policies: the items that a slate shows beyond the best by score, and their probabilities. Pure.

Thompson sampling makes ``ROWS`` rows of posterior draws, one of which, chosen at random, decides: given the rows, the
probability of an item is exactly the share of rows with it on top.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retrieval.domain.learning.arm import NO_ARM, Arm
from retrieval.domain.records.slate import Placed, Slot
from retrieval.domain.search.profile_parts import Exploration, PolicyName, PosteriorKind
from retrieval.learning.arm_table import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A candidate in a list in the order of scores, the best first."""

    item_id: str
    score: float = 0.0
    """The score that determines its rank; 0 to 1 for the uncertainty bonus, which is added to it."""
    relevance: float = 0.0
    """The part of the score that is not learned, 0 to 1."""
    learned_share: float = 1.0
    """The share of the learned reward in the score, 0 to 1: score = (1 - share) × relevance + share × reward."""
    eligible: bool = False
    arm: Arm = NO_ARM
    """The raw counts that determine the Beta posterior."""
    reward_mean: float | None = None
    """The mean of the learned reward's Beta distribution, 0 to 1; None: there are only raw counts."""
    effective_sample_size: float = 0.0
    """The sum of that distribution's two parameters, above 0 with a learned reward."""
    uncertainty: float = 0.0
    """The uncertainty of the learned reward, 0 to 0.5, for the uncertainty bonus; see ``Posterior.uncertainty``."""


def is_eligible(arm: Arm, created_at: datetime | None, now: datetime, exploration: Exploration) -> bool:
    """True if an item has few uses, counted over all contexts, or is young, so that Thompson slots may pick it."""
    if arm.uses < exploration.fewer_uses_than:
        return True
    return created_at is not None and now - created_at < timedelta(days=exploration.younger_than_days)


ROWS = 1024
"""Rows of posterior draws: without the floor, a probability is a multiple of 1 / 1024."""

Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Lottery:
    """A draw of ``slots`` among ``size`` candidates, with exact probabilities before the draw."""

    size: int
    tops: Indices
    """Shape (rows, slots): the candidates on top of each row, without repetitions in a row."""
    floor: float

    @property
    def slots(self) -> int:
        """The number of draws, at most ``size``."""
        return int(self.tops.shape[1])

    @property
    def propensities(self) -> Floats:
        """Shape (size,): the probability that each candidate is drawn; they add up to ``slots``."""
        share = np.bincount(self.tops.ravel(), minlength=self.size) / len(self.tops)
        probabilities = (1 - self.floor) * share + self.floor * self.slots / self.size
        return np.minimum(probabilities, 1.0)

    def draw(self, rng: np.random.Generator) -> Indices:
        """Shape (slots,): the drawn candidates in random order."""
        if rng.random() < self.floor:
            return rng.choice(self.size, self.slots, replace=False)
        return rng.permutation(self.tops[rng.integers(len(self.tops))])


def finite_rows(draws: Floats, slots: int, floor: float) -> Lottery:
    """The lottery of Thompson sampling: ``draws`` has the shape (rows, candidates), higher is better."""
    tops = np.argpartition(-draws, slots - 1, axis=1)[:, :slots]
    return Lottery(draws.shape[1], tops, floor)


LEAST = 1e-6
"""The least parameter of a Beta distribution, which a mean of 0 or 1 would make 0."""


def score_draws(
    candidates: Sequence[Ranked], posterior: PosteriorKind, rng: np.random.Generator, rows: int = ROWS
) -> Floats:
    """Shape (rows, candidates): (1 - learned share) × relevance + learned share × a reward drawn from its posterior.

    Without a learned reward the posterior is that of the raw counts: exploration begins before the first model.
    """
    relevance = np.array([candidate.relevance for candidate in candidates], dtype=float)
    share = np.array([candidate.learned_share for candidate in candidates], dtype=float)
    pairs = [_posterior(candidate, posterior) for candidate in candidates]
    first, second = np.array(pairs, dtype=float).reshape(-1, 2).T
    scores: Floats = (1 - share) * relevance + share * rng.beta(first, second, (rows, len(candidates)))
    return scores


def _posterior(candidate: Ranked, kind: PosteriorKind) -> tuple[float, float]:
    mean, size, arm = candidate.reward_mean, candidate.effective_sample_size, candidate.arm
    if kind is PosteriorKind.SHRUNK and mean is not None:
        return max(mean * size, LEAST), max((1 - mean) * size, LEAST)
    # A search must not fail because of inconsistent counters, which the doctor reports.
    return arm.raw_successes + 1.0, max(arm.uses - arm.raw_successes, 0) + 1.0


class Drawn(NamedTuple):
    """The items at their places."""

    picked: tuple[int, ...]
    """Indexes of candidates, from the first place of the slate to the last, without repetitions."""
    slots: tuple[Slot, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Pull:
    """A slate with the probabilities of the policy that drew it."""

    drawn: Drawn
    propensities: Floats
    """Shape (candidates,): each candidate's probability of being in the slate, shown or not."""
    rank_propensities: Floats
    """Shape (places,): each shown item's probability of being at its place."""


@dataclass(frozen=True, slots=True, eq=False)
class SlatePlan:
    """All of a slate but the draw, so that the probabilities are exact.

    Certain places are followed by places that a lottery fills in random order. Then, with the probability ``swaps``,
    one pair of neighbours changes places, drawn uniformly among the pairs that certainly have items placed by score:
    clicks on the same items at two places measure position bias (Agarwal et al., WSDM 2019).
    """

    size: int
    settled: tuple[int, ...]
    pool: tuple[int, ...] = ()
    lottery: Lottery | None = None
    swaps: float = 0.0

    @property
    def propensities(self) -> Floats:
        """Shape (candidates,): the probability of being in the slate; they add up to the number of places."""
        probabilities = np.zeros(self.size)
        probabilities[list(self.settled)] = 1.0
        if self.lottery is not None:
            probabilities[list(self.pool)] = self.lottery.propensities
        return probabilities

    @property
    def chances(self) -> Floats:
        """Shape (candidates, places): the probability of being at each place; each column adds up to 1."""
        drawn = 0 if self.lottery is None else self.lottery.slots
        before = np.zeros((self.size, len(self.settled) + drawn))
        before[list(self.settled), range(len(self.settled))] = 1.0
        if self.lottery is not None:
            before[list(self.pool), len(self.settled) :] = (self.lottery.propensities / drawn)[:, None]
        first = np.array(self._pairs(), dtype=np.intp)
        if not len(first):
            return before
        # Each pair exchanges an equal part of the probabilities of its places. A place may be in two pairs, so the
        # parts are added one by one, which plain indexing would not do.
        probabilities = before.copy()
        change = self.swaps / len(first) * (before[:, first + 1] - before[:, first])
        np.add.at(probabilities.T, first, change.T)
        np.add.at(probabilities.T, first + 1, -change.T)
        return np.maximum(probabilities, 0.0)

    def draw(self, rng: np.random.Generator) -> Drawn:
        """Draw the slate."""
        picked = list(self.settled)
        if self.lottery is not None:
            picked += [self.pool[index] for index in self.lottery.draw(rng).tolist()]
        slots = [self._slot(candidate) for candidate in picked]
        pairs = self._pairs()
        if pairs and rng.random() < self.swaps:
            first = int(rng.choice(pairs))
            picked[first : first + 2] = picked[first + 1], picked[first]
            slots[first : first + 2] = Slot.SWAP, Slot.SWAP
        return Drawn(tuple(picked), tuple(slots))

    def _pairs(self) -> tuple[int, ...]:
        """The places r such that the items at r and r + 1 may be swapped."""
        by_score = [self._slot(candidate) is Slot.EXPLOIT for candidate in self.settled]
        places = range(len(by_score) - 1) if self.swaps else ()
        return tuple(place for place in places if by_score[place] and by_score[place + 1])

    def _slot(self, candidate: int) -> Slot:
        """Candidates are numbered by score; those beyond the slate by score are explored."""
        places = len(self.settled) + (0 if self.lottery is None else self.lottery.slots)
        return Slot.EXPLORE if candidate >= places else Slot.EXPLOIT


@dataclass(frozen=True, slots=True)
class Policy(ABC):
    """A policy of exploration, without state or randomness of its own. Subclasses define ``name`` and ``plan``."""

    name: ClassVar[str]
    """The policy's name in a profile."""
    version: ClassVar[int] = 1
    """Raised with every change that gives another slate or other probabilities for the same input and seed."""
    exploration: Exploration = field(default_factory=Exploration)

    @abstractmethod
    def plan(self, candidates: Sequence[Ranked], limit: int, rng: np.random.Generator) -> SlatePlan:
        """Plan a slate of up to ``limit`` candidates, best first, with all draws that the probabilities need."""

    def planned(self, candidates: Sequence[Ranked], limit: int, rng: np.random.Generator) -> SlatePlan:
        """The plan, with the swaps of the profile."""
        return replace(self.plan(candidates, limit, rng), swaps=self.exploration.swaps)

    def pull(self, candidates: Sequence[Ranked], limit: int, rng: np.random.Generator) -> Pull:
        """A slate of ``limit`` candidates, or of all if there are fewer, with exact propensities."""
        plan = self.planned(candidates, limit, rng)
        propensities, chances = plan.propensities, plan.chances
        drawn = plan.draw(rng)
        rank_chances = chances[list(drawn.picked), range(len(drawn.picked))]
        return Pull(drawn, propensities, np.minimum(rank_chances, propensities[list(drawn.picked)]))

    @property
    def recorded_as(self) -> str:
        """Name and version, as recorded with each retrieval: ``thompson_slots/1``, or with ``+adjacent_swaps/1``."""
        return f"{self.name}/{self.version}{'+adjacent_swaps/1' if self.exploration.swaps else ''}"


class Off(Policy):
    """Shows the candidates in their order, each with probability 1."""

    __slots__ = ()

    name = PolicyName.OFF.value

    def plan(self, candidates: Sequence[Ranked], limit: int, rng: np.random.Generator) -> SlatePlan:  # noqa: ARG002 - the role's signature
        """A plan with all places settled."""
        return SlatePlan(len(candidates), tuple(range(min(limit, len(candidates)))))


class ThompsonSlots(Policy):
    """Draws the last ``slots`` places among eligible candidates beyond the slate and the items placed there by score.

    A posterior draw of all their scores decides (Thompson 1933), or with probability ``floor`` a uniform choice, so
    that no item that may be replaced is impossible. The other places, always including the first, are by score; so are
    all of them without eligible candidates beyond the slate.
    """

    __slots__ = ()

    name = PolicyName.THOMPSON_SLOTS.value

    def plan(self, candidates: Sequence[Ranked], limit: int, rng: np.random.Generator) -> SlatePlan:
        """A plan with the first places settled and the posterior drawn."""
        places, numbers = min(limit, len(candidates)), self.exploration
        beyond = [index for index in range(places, len(candidates)) if candidates[index].eligible]
        beyond = beyond[: numbers.most_eligible]
        slots = min(numbers.slots, places - 1, len(beyond))
        if slots < 1:
            return SlatePlan(len(candidates), tuple(range(places)))
        pool = (*range(places - slots, places), *beyond)
        draws = score_draws([candidates[index] for index in pool], numbers.posterior, rng)
        return SlatePlan(len(candidates), tuple(range(places - slots)), pool, finite_rows(draws, slots, numbers.floor))


class UncertaintyBonus(Policy):
    """Orders by score + ``rate`` × uncertainty of the learned reward; equal sums keep their order.

    With probability ``floor`` the last place goes to one of ``most_eligible`` candidates from there on, uniformly.
    """

    __slots__ = ()

    name = PolicyName.UNCERTAINTY_BONUS.value

    def plan(self, candidates: Sequence[Ranked], limit: int, rng: np.random.Generator) -> SlatePlan:  # noqa: ARG002 - the role's signature
        """A plan with all places but the last settled."""
        places, numbers = min(limit, len(candidates)), self.exploration
        sums = np.array([each.score + numbers.rate * each.uncertainty for each in candidates], dtype=float)
        order = tuple(np.argsort(-sums, kind="stable").tolist())
        pool = order[places - 1 : places - 1 + numbers.most_eligible]
        if places < 2 or len(pool) < 2 or not numbers.floor:
            return SlatePlan(len(candidates), order[:places])
        lottery = Lottery(len(pool), np.zeros((1, 1), dtype=np.intp), numbers.floor)
        return SlatePlan(len(candidates), order[: places - 1], pool, lottery)


_POLICIES: dict[str, type[Policy]] = {policy.name: policy for policy in (Off, ThompsonSlots, UncertaintyBonus)}


def policy_for(exploration: Exploration) -> Policy:
    """The policy of the profile."""
    return _POLICIES[exploration.policy](exploration)


def drawn_slate(
    candidates: Sequence[Ranked], limit: int, exploration: Exploration, rng: np.random.Generator
) -> tuple[list[Placed], dict[str, float]]:
    """The slate of ``limit`` candidates, given best first, or of all, and every candidate's probability to be in it."""
    pull = policy_for(exploration).pull(candidates, max(limit, 0), rng)
    placed = [
        Placed(candidates[index].item_id, slot, float(pull.propensities[index]), float(rank_chance))
        for index, slot, rank_chance in zip(*pull.drawn, pull.rank_propensities, strict=True)
    ]
    return placed, _by_item(candidates, pull.propensities)


def slate_probabilities(
    candidates: Sequence[Ranked], limit: int, exploration: Exploration, rng: np.random.Generator
) -> dict[str, float]:
    """Every candidate's probability of being in the slate, by item, as ``drawn_slate`` gives it, without a draw."""
    return _by_item(candidates, policy_for(exploration).plan(candidates, max(limit, 0), rng).propensities)


def _by_item(candidates: Sequence[Ranked], propensities: Floats) -> dict[str, float]:
    return {candidate.item_id: chance for candidate, chance in zip(candidates, propensities.tolist(), strict=True)}
