"""Team draft: fair to both rankings, with chances that are exact."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.domain.errors import InvalidLimitError
from retrieval.learning.interleaving import Team, check_draft, preference, team_draft

RANKINGS = st.permutations("abcdef").map(lambda items: items[:4])


def drafted(first: str, second: str, limit: int, seed: int = 0) -> list[tuple[str, str]]:
    """Items with their teams."""
    draft = team_draft(first, second, limit, np.random.default_rng(seed))
    return [(pick.item_id, pick.team.value) for pick in draft]


@given(RANKINGS, RANKINGS, st.integers(1, 6), st.integers(0, 99))
def test_each_round_gives_both_teams_their_best_that_is_left(
    first: list[str], second: list[str], limit: int, seed: int
) -> None:
    """No item comes twice, teams differ by at most one, and each picks what its ranking has next."""
    draft = team_draft(first, second, limit, np.random.default_rng(seed))
    assert len({pick.item_id for pick in draft}) == len(draft) == min(limit, len({*first, *second}))
    for place, pick in enumerate(draft):
        item_ids = {other.item_id for other in draft[:place]}
        ranking = first if pick.team is Team.FIRST else second
        assert pick.item_id == next(item for item in ranking if item not in item_ids)
    whole = draft[: 2 * (min(limit, 4) // 2)]
    teams = Counter(pick.team for pick in whole)
    assert abs(teams[Team.FIRST] - teams[Team.SECOND]) <= 1


def test_the_propensities_are_how_often_it_happens() -> None:
    """4,000 drafts agree with the chances that come with them, by item and by rank."""
    first, second, draws = "xyzwq", "xwvyu", 4_000
    rng, frequencies, propensities = (
        np.random.default_rng(1),
        Counter[tuple[str, int]](),
        dict[tuple[str, int], float](),
    )
    chances = dict[str, float]()
    for _ in range(draws):
        for place, pick in enumerate(team_draft(first, second, 4, rng)):
            frequencies[pick.item_id, place] += 1
            propensities[pick.item_id, place] = pick.rank_propensity
            chances[pick.item_id] = pick.propensity
    assert math.fsum(chances.values()) == 4
    for key, chance in propensities.items():
        assert frequencies[key] / draws == pytest.approx(chance, abs=4 * math.sqrt(0.25 / draws))


def test_where_one_ranking_ends_the_other_goes_on() -> None:
    """The other ranking fills the rest."""
    assert {item for item, _ in drafted("a", "abc", 3)} == {"a", "b", "c"}
    assert drafted("", "ab", 5) == [("a", "b"), ("b", "b")]
    assert drafted("", "", 5) == []


def test_equal_seeds_draw_equal_slates() -> None:
    """Twenty seeds do not all draw the same slate."""
    slates = [drafted("abcd", "dcba", 4, seed) for seed in range(20)]
    assert slates == [drafted("abcd", "dcba", 4, seed) for seed in range(20)]
    assert len({tuple(slate) for slate in slates}) > 1


@pytest.mark.parametrize("limit", [0, 21])
def test_a_slate_is_one_to_twenty_long(limit: int) -> None:
    """Longer ones have more ways to fall than can be gone through."""
    with pytest.raises(InvalidLimitError, match="1 to 20"):
        check_draft(limit)


@pytest.mark.parametrize(
    ("won", "losses", "p_value", "low", "high"),
    [
        (0, 1, 1.000000000000, 0.000000000000, 0.793450685623),
        (3, 9, 0.145996093750, 0.088941668394, 0.532305334934),
        (10, 10, 1.000000000000, 0.299298008198, 0.700701991802),
        (500, 601, 0.002564772798, 0.424933207750, 0.483650961324),
    ],
)
def test_the_sign_test_and_the_interval_are_the_textbooks(
    won: int, losses: int, p_value: float, low: float, high: float
) -> None:
    """The figures are those of SciPy's ``binomtest`` with ``proportion_ci(method="wilson")``."""
    preferred = preference([(0.75, 0.5)] * won + [(0.0, 1.0)] * losses + [(0.5, 0.5)])
    assert (preferred.first, preferred.second, preferred.even) == (won, losses, 1)
    assert (preferred.p_value, preferred.low, preferred.high) == pytest.approx((p_value, low, high), abs=1e-10)


def test_sums_that_differ_in_their_last_bits_are_even() -> None:
    """0.1 + 0.2 is 0.3."""
    assert preference([(0.1 + 0.2, 0.3)]).even == 1


def test_without_decided_searches_there_is_no_preference() -> None:
    """In JSON it is null."""
    preferred = preference([])
    assert (preferred.p_value, preferred.as_dict()["share"]) == (1.0, None)
