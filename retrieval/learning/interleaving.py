"""Interleaving of two rankings by team draft (Radlinski, Kurup and Joachims, CIKM 2008), and its verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from retrieval.domain.errors import InvalidLimitError
from retrieval.domain.serialization import SerializableFigures

MOST = 20
"""The longest slate: each item's probabilities are computed exactly, over at most 2^10 outcomes of the coins."""


class Team(StrEnum):
    """The profile whose ranking contributed an item."""

    FIRST = "a"
    SECOND = "b"


class Drafted(NamedTuple):
    """An item at its place in an interleaved slate."""

    item_id: str
    team: Team
    propensity: float
    """The probability that the item is in the slate, for either team."""
    rank_propensity: float
    """The probability that the item is at this rank."""


class _Pick(NamedTuple):
    item_id: str
    team: Team


def team_draft(first: Sequence[str], second: Sequence[str], limit: int, rng: np.random.Generator) -> list[Drafted]:
    """One slate of at most ``limit`` (1 to 20) items from two rankings without repeats, best first."""
    picks: list[_Pick] = []
    while len(picks) < limit and (rounds := _rounds(first, second, frozenset(pick.item_id for pick in picks))):
        picks += rounds[int(rng.integers(2))]
    chances = _chances(first, second, limit)
    return [
        Drafted(pick.item_id, pick.team, math.fsum(chances[pick.item_id]), chances[pick.item_id][index])
        for index, pick in enumerate(picks[:limit])
    ]


def check_draft(limit: int) -> None:
    """Raise ``InvalidLimitError`` for a slate that cannot be drafted."""
    if not 1 <= limit <= MOST:
        raise InvalidLimitError(f"limit is {limit}; an interleaved search shows 1 to {MOST} hits")


def _rounds(first: Sequence[str], second: Sequence[str], taken: frozenset[str]) -> list[list[_Pick]]:
    """The picks of a round for both outcomes of the coin; none: no ranking has an item left."""
    rounds = []
    for order in ((Team.FIRST, first), (Team.SECOND, second)), ((Team.SECOND, second), (Team.FIRST, first)):
        picks: list[_Pick] = []
        for team, ranking in order:
            unavailable = taken.union(pick.item_id for pick in picks)
            best = next((item_id for item_id in ranking if item_id not in unavailable), None)
            if best is not None:
                picks.append(_Pick(best, team))
        rounds.append(picks)
    return rounds if rounds[0] else []


def _chances(first: Sequence[str], second: Sequence[str], limit: int) -> dict[str, list[float]]:
    """The probability of each item at each rank, over all outcomes of the coins; those of the same items are merged."""
    chances: dict[str, list[float]] = {}
    outcomes: list[dict[frozenset[str], float]] = [{} for _ in range(limit)]
    outcomes[0][frozenset()] = 1.0
    for filled, level in enumerate(outcomes):
        for taken, chance in level.items():
            for picks in _rounds(first, second, taken):
                for rank, pick in enumerate(picks[: limit - filled], filled):
                    chances.setdefault(pick.item_id, [0.0] * limit)[rank] += chance / 2
                if filled + len(picks) < limit:
                    after, key = outcomes[filled + len(picks)], taken.union(pick.item_id for pick in picks)
                    after[key] = after.get(key, 0.0) + chance / 2
    return chances


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference(SerializableFigures):
    """The comparison of two profiles by the rewards of their hits, search by search."""

    first: int
    second: int
    even: int
    p_value: float
    """The p-value of the two-sided sign test: how often fair coins are as uneven; 1 without a decided search."""
    share: float
    """The share of decided searches that the first profile won; NaN without one."""
    low: float
    """Ends of the share's 95 % interval (Wilson 1927)."""
    high: float

    @property
    def decided(self) -> int:
        """The number of searches that either profile won."""
        return self.first + self.second


def preference(rewards: Iterable[tuple[float, float]]) -> Preference:
    """The preference by the rewards of both profiles' hits, one pair per search with feedback."""
    first = second = even = 0
    for reward, other in rewards:
        # Sums of the same rewards in another order may differ in their last bits.
        if math.isclose(reward, other, rel_tol=1e-12, abs_tol=1e-12):
            even += 1
        elif reward > other:
            first += 1
        else:
            second += 1
    p_value, share, low, high = 1.0, math.nan, math.nan, math.nan
    if first + second:
        from scipy.stats import binomtest

        test = binomtest(first, first + second)
        (low, high), p_value, share = test.proportion_ci(method="wilson"), test.pvalue, test.statistic
    return Preference(
        first=first, second=second, even=even, p_value=float(p_value), share=share, low=float(low), high=float(high)
    )
