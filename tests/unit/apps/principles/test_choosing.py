"""The principles that a session is started with: by tags, by score, and explored with exact propensities."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from retrieval.apps.principles.principle import (
    MOST_DRAWN,
    Principle,
    boosted,
    choose,
    frequent_tags,
    is_eligible,
    normalised_tags,
    rivals,
    thompson,
)
from retrieval.apps.probation import CANDIDATE
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.learning.arm import Standing

NOW = datetime(2026, 3, 1, tzinfo=UTC)
OLD = NOW - timedelta(days=30)


def old_principle(name: str, uses: int, successes: int, *tags: str) -> Principle:
    """A principle that was there for a month."""
    return Principle(id=name, title=name, tags=tags, created_at=OLD, use_count=uses, success_count=successes)


MANY = [old_principle(f"good{number}", 20, 18 - number) for number in range(12)]


def test_each_shared_tag_adds_a_tenth() -> None:
    """To the mean of Beta(successes + 1, failures + 1)."""
    assert boosted(old_principle("a", 8, 8, "sql", "git", "css"), {"sql", "git"}) == pytest.approx(0.9 + 0.2)


def test_explored_ones_have_their_places_within_the_page() -> None:
    """A store full of good principles still shows new ones; they come last, and are marked."""
    new = Principle(id="new", title="new", status=CANDIDATE, created_at=NOW)
    choices = choose([*MANY, new, old_principle("untested", 0, 0)], set(), random.Random(1), now=NOW, most=5)

    assert [choice.principle.id for choice in choices[:3]] == ["good0", "good1", "good2"]
    assert {choice.principle.id for choice in choices[3:]} == {"new", "untested"}
    assert [choice.is_exploratory for choice in choices] == [False, False, False, True, True]


def test_nothing_is_shown_twice_and_the_page_is_full() -> None:
    """A principle shown by score is not explored too; if few can be explored, the score fills the page."""
    every = [old_principle("top", 4, 4), *MANY]
    choices = choose(every, set(), random.Random(1), now=NOW, most=4)
    names = [choice.principle.id for choice in choices]

    assert len(names) == len(set(names)) == 4
    assert not any(choice.is_exploratory for choice in choices)


def test_neither_sunk_ones_nor_archived_ones_are_shown() -> None:
    """Not for their score, and not to explore them; a candidate is shown to explore it alone."""
    every = [
        old_principle("sunk", 10, 0, "sql", "git", "css", "api"),
        Principle(id="failed", title="failed", status="archived", created_at=NOW),
        Principle(id="young and sunk", title="x", created_at=NOW, use_count=5, success_count=0),
        Principle(id="candidate", title="x", status=CANDIDATE, created_at=OLD, use_count=6, success_count=3),
    ]

    assert choose(every, {"sql", "git", "css", "api"}, random.Random(1), now=NOW) == []


def newcomers(fitting: int, others: int) -> list[Principle]:
    """Candidates without verdicts; the first ones have the tag ``sql``."""
    return [
        Principle(id=f"new{number}", title="x", tags=("sql",) * (number < fitting), status=CANDIDATE, created_at=NOW)
        for number in range(fitting + others)
    ]


def explored(new: list[Principle], slots: int, seed: int) -> list[str]:
    """The principles that are explored in a session about SQL."""
    choices = choose([*MANY, *new], {"sql"}, random.Random(seed), now=NOW, slots=slots, rows=1)
    return [choice.principle.id for choice in choices if choice.is_exploratory]


def test_half_of_the_places_are_for_those_that_fit_the_session() -> None:
    """The first places; all compete for the others, so that a principle without matching tags is rated too."""
    new = newcomers(3, 11)
    pairs = [explored(new, 2, seed) for seed in range(300)]

    assert all(first in ("new0", "new1", "new2") for first, _ in pairs)
    assert {second for _, second in pairs} == {principle.id for principle in new}


def test_an_only_place_is_for_those_that_fit_half_of_the_time() -> None:
    """Each principle that does not fit is still drawn at times."""
    alone = [explored(newcomers(1, 9), 1, seed)[0] for seed in range(600)]

    assert set(alone) == {f"new{number}" for number in range(10)}
    assert alone.count("new0") / 600 == pytest.approx(1 / 2 + 1 / 2 / 10, abs=0.08)


def test_where_none_fits_all_compete() -> None:
    """The places are not left empty."""
    assert {principle_id for seed in range(40) for principle_id in explored(newcomers(0, 4), 2, seed)} == {
        f"new{number}" for number in range(4)
    }


def test_little_known_principles_that_are_not_shown_compete() -> None:
    """Principles that the score shows, and well-known ones, do not compete."""
    top = Principle(id="top", title="x", created_at=NOW, use_count=4, success_count=4)
    failed = Principle(id="failed", title="x", created_at=NOW, use_count=9, success_count=0)

    assert rivals([top, failed, *MANY[5:], *newcomers(1, 2)], {"sql"}, now=NOW, most=4, slots=1) == newcomers(1, 2)


def test_places_by_score_are_certain_and_explored_places_are_not() -> None:
    """Two certain places, and two of chance among three."""
    new = [Principle(id=f"new{number}", title="x", created_at=NOW) for number in range(3)]
    rows = [choose([*MANY, *new], set(), random.Random(seed), now=NOW, most=4, rows=50) for seed in range(3)]

    for row in rows:
        assert [choice.propensity for choice in row[:2]] == [1.0, 1.0]
        assert all(0 < choice.propensity < 1 for choice in row[2:])


def tried(item_id: str, uses: int = 0, successes: int = 0) -> Standing:
    """A principle with these verdicts."""
    return Standing(item_id=item_id, created_at=NOW, uses=uses, successes=successes, last_used_at=None)


FEW = [tried("new"), tried("good", 4, 4), tried("fair", 6, 3), tried("bad", 4, 0)]


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
    """Failed principles are not explored, at any age."""
    assert is_eligible(uses, successes, NOW - timedelta(days=days), NOW) is eligible


def _direct(candidates: list[Standing], count: int, rng: random.Random) -> list[str]:
    """A draw of Beta(successes + 1, failures + 1) of each, and the highest."""
    scores = {
        principle.item_id: rng.betavariate(principle.successes + 1, principle.uses - principle.successes + 1)
        for principle in candidates
    }
    return sorted(scores, key=lambda principle_id: -scores[principle_id])[:count]


@pytest.mark.parametrize("count", [1, 2])
def test_picks_are_as_frequent_as_those_of_direct_sampling(count: int) -> None:
    """A chi-square test of 3,000 draws of each way, by the picked principles and their order."""
    from scipy.stats import chi2_contingency

    ours, direct = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    rng = random.Random(7)
    for _ in range(3000):
        ours[tuple(pick.item_id for pick in thompson(FEW, count, rng, rows=3))] += 1
        direct[tuple(_direct(FEW, count, rng))] += 1
    orders = [principle_id for principle_id in {*ours, *direct} if ours[principle_id] + direct[principle_id] >= 10]

    table = [[counts[order] for order in orders] for counts in (ours, direct)]
    assert chi2_contingency(table).pvalue > 0.001


def test_the_order_of_the_list_does_not_count() -> None:
    """Each of two untested principles is picked half of the time."""
    rng = random.Random(3)
    firsts = Counter(thompson([tried("a"), tried("b")], 1, rng, rows=1)[0].item_id for _ in range(2000))

    assert 900 < firsts["a"] < 1100


def test_propensities_are_exact() -> None:
    """Given the rows: what each way of choosing a row picks, counted over all rows, is what the propensities say."""
    rows = 10
    frequencies, propensities = Counter[str](), dict[str, float]()
    for choice in range(rows):
        rng = _ChoosesRow(5)
        rng.row = choice
        for pick in thompson(FEW, 2, rng, rows=rows):
            frequencies[pick.item_id] += 1
            propensities[pick.item_id] = pick.propensity

    assert sum(propensities.values()) == pytest.approx(2)
    assert {principle_id: times / rows for principle_id, times in frequencies.items()} == pytest.approx(propensities)


@pytest.mark.parametrize("fitting", [frozenset[str](), frozenset({"new", "bad"})])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_propensities_of_places_are_exact(count: int, fitting: frozenset[str]) -> None:
    """Given the rows, counted over all of them: also where all are picked, and where some have places of their own."""
    rows = 20
    frequencies, propensities = Counter[tuple[int, str]](), dict[tuple[int, str], float]()
    ever, total = Counter[str](), dict[str, float]()
    for choice in range(rows):
        rng = _ChoosesRow(5)
        rng.row = choice
        for place, pick in enumerate(thompson(FEW, count, rng, rows=rows, fitting=fitting)):
            frequencies[place, pick.item_id] += 1
            ever[pick.item_id] += 1
            propensities[place, pick.item_id], total[pick.item_id] = pick.rank_propensity, pick.propensity

    assert {principle_id: times / rows for principle_id, times in frequencies.items()} == pytest.approx(propensities)
    assert {principle_id: times / rows for principle_id, times in ever.items()} == pytest.approx(total)


class _ChoosesRow(random.Random):
    """A generator that draws by its seed, and chooses a fixed row."""

    row = 0

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:  # noqa: ARG002 - random's signature
        """The row."""
        return self.row


def test_all_are_picked_where_there_are_no_more() -> None:
    """They are certain; without places or principles, none is picked."""
    assert {pick.item_id: pick.propensity for pick in thompson(FEW, 9, random.Random(1))} == {
        principle.item_id: 1.0 for principle in FEW
    }
    assert thompson(FEW, 0, random.Random(1)) == []
    assert thompson([], 2, random.Random(1)) == []


def test_of_very_many_a_part_competes_and_the_propensities_say_so() -> None:
    """Drawn anew each time, half of them here: no propensity is above one half, and many are picked in turn."""
    many = [tried(str(number), 2, number % 3) for number in range(2 * MOST_DRAWN)]
    picks = [thompson(many, 2, random.Random(seed), rows=5) for seed in range(20)]

    assert all(0 < pick.propensity <= 0.5 for pair in picks for pick in pair)
    assert len({pick.item_id for pair in picks for pick in pair}) > 20


def test_the_same_state_of_chance_gives_the_same_picks() -> None:
    """With the same propensities."""
    assert thompson(FEW, 2, random.Random(11)) == thompson(FEW, 2, random.Random(11))


def test_tags_are_stripped_and_casefolded_each_once() -> None:
    """In the order given; none for None."""
    assert normalised_tags([" SQL", "straße", "STRASSE", "sql"]) == ("sql", "strasse")
    assert normalised_tags(None) == ()


@pytest.mark.parametrize("tags", ["sql", [""], ["  "], [1], ["a\x00b"], 3, [str(number) for number in range(51)]])
def test_an_invalid_list_of_tags_is_refused(tags: Any) -> None:
    """A single text too, of which each character would be one."""
    with pytest.raises(InvalidRequestError, match="tag"):
        normalised_tags(tags)


def test_the_most_frequent_come_first_then_the_first() -> None:
    """Each of a trace counts once."""
    assert frequent_tags([["a", "b", "b"], ["c", "b"], ["c", "d"]], 3) == ["b", "c", "a"]
