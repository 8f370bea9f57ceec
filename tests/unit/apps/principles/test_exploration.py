"""Who is explored: by Thompson sampling, with propensities that are exact."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from scipy.stats import chi2_contingency

from retrieval.apps.principles.choosing import MOST_DRAWN, Tried, is_eligible, thompson

NOW = datetime(2026, 3, 1, tzinfo=UTC)
FEW = [Tried("new"), Tried("good", 4, 4), Tried("fair", 6, 3), Tried("bad", 4, 0)]


@pytest.mark.parametrize(
    ("uses", "successes", "days", "eligible"),
    [
        (4, 0, 100, True),
        (5, 5, 100, False),
        (50, 50, 6.9, True),
        (50, 50, 7, False),
        (5, 1, 1, False),
    ],
)
def test_little_is_known_below_five_uses_or_seven_days(
    uses: int, successes: int, days: float, *, eligible: bool
) -> None:
    """What has failed is explored no more, however young."""
    assert is_eligible(uses, successes, NOW - timedelta(days=days), NOW) is eligible


def _direct(candidates: list[Tried], count: int, rng: random.Random) -> list[str]:
    """A draw of Beta(successes + 1, failures + 1) of each, and the highest."""
    drawn = {one.id: rng.betavariate(one.successes + 1, one.uses - one.successes + 1) for one in candidates}
    return sorted(drawn, key=lambda one: -drawn[one])[:count]


@pytest.mark.parametrize("count", [1, 2])
def test_picks_are_as_frequent_as_those_of_direct_sampling(count: int) -> None:
    """Chi-square of 3,000 draws of each way, by who is picked and in which order."""
    ours, direct = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    rng = random.Random(7)
    for _ in range(3000):
        ours[tuple(pick.id for pick in thompson(FEW, count, rng, rows=3))] += 1
        direct[tuple(_direct(FEW, count, rng))] += 1
    orders = [one for one in {*ours, *direct} if ours[one] + direct[one] >= 10]

    table = [[found[one] for one in orders] for found in (ours, direct)]
    assert chi2_contingency(table).pvalue > 0.001


def test_the_order_of_the_list_does_not_count() -> None:
    """Of two untested ones each is picked half of the time."""
    rng = random.Random(3)
    firsts = Counter(thompson([Tried("a"), Tried("b")], 1, rng, rows=1)[0].id for _ in range(2000))

    assert 900 < firsts["a"] < 1100


def test_propensities_are_exact() -> None:
    """Given the rows: what each way of choosing a row picks, counted over all rows, is what the propensities say."""
    rows = 10
    picked, said = Counter[str](), dict[str, float]()
    for choice in range(rows):
        rng = _ChoosesRow(5)
        rng.row = choice
        for pick in thompson(FEW, 2, rng, rows=rows):
            picked[pick.id] += 1
            said[pick.id] = pick.propensity

    assert sum(said.values()) == pytest.approx(2)
    assert {one: times / rows for one, times in picked.items()} == pytest.approx(said)


@pytest.mark.parametrize("fitting", [frozenset[str](), frozenset({"new", "bad"})])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_propensities_of_places_are_exact(count: int, fitting: frozenset[str]) -> None:
    """Given the rows, counted over all of them: also where all are picked, and where some have places of their own."""
    rows = 20
    picked, said = Counter[tuple[int, str]](), dict[tuple[int, str], float]()
    ever, total = Counter[str](), dict[str, float]()
    for choice in range(rows):
        rng = _ChoosesRow(5)
        rng.row = choice
        for place, pick in enumerate(thompson(FEW, count, rng, rows=rows, fitting=fitting)):
            picked[place, pick.id] += 1
            ever[pick.id] += 1
            said[place, pick.id], total[pick.id] = pick.rank_propensity, pick.propensity

    assert {one: times / rows for one, times in picked.items()} == pytest.approx(said)
    assert {one: times / rows for one, times in ever.items()} == pytest.approx(total)


class _ChoosesRow(random.Random):
    """A generator that draws by its seed, and chooses the row it is told."""

    row = 0

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:  # noqa: ARG002 - random's signature
        """The row."""
        return self.row


def test_all_are_picked_where_there_are_no_more() -> None:
    """For certain; and none where none is wanted, or there is none."""
    assert {pick.id: pick.propensity for pick in thompson(FEW, 9, random.Random(1))} == {one.id: 1.0 for one in FEW}
    assert thompson(FEW, 0, random.Random(1)) == []
    assert thompson([], 2, random.Random(1)) == []


def test_of_very_many_a_part_competes_and_the_propensities_say_so() -> None:
    """Drawn anew each time, half of them here: no propensity is above one half, and many are picked in turn."""
    many = [Tried(str(number), 2, number % 3) for number in range(2 * MOST_DRAWN)]
    picks = [thompson(many, 2, random.Random(seed), rows=5) for seed in range(20)]

    assert all(0 < pick.propensity <= 0.5 for pair in picks for pick in pair)
    assert len({pick.id for pair in picks for pick in pair}) > 20


def test_the_same_state_of_chance_gives_the_same_picks() -> None:
    """With the same propensities."""
    assert thompson(FEW, 2, random.Random(11)) == thompson(FEW, 2, random.Random(11))
