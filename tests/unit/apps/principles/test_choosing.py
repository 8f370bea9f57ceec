"""What a session is started with."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from retrieval.apps.principles.choosing import boosted, choose, rivals
from retrieval.apps.principles.principle import CANDIDATE, Principle

NOW = datetime(2026, 3, 1, tzinfo=UTC)
OLD = NOW - timedelta(days=30)


def known(name: str, uses: int, successes: int, *tags: str) -> Principle:
    """A principle that was there for a month."""
    return Principle(id=name, title=name, tags=tags, created_at=OLD, use_count=uses, success_count=successes)


MANY = [known(f"good{number}", 20, 18 - number) for number in range(12)]


def test_each_shared_tag_adds_a_tenth() -> None:
    """To the mean of Beta(successes + 1, failures + 1)."""
    assert boosted(known("a", 8, 8, "sql", "git", "css"), {"sql", "git"}) == pytest.approx(0.9 + 0.2)


def test_explored_ones_have_their_places_within_the_page() -> None:
    """A store full of good principles still shows new ones; they come last, and are marked."""
    new = Principle(id="new", title="new", status=CANDIDATE, created_at=NOW)
    chosen = choose([*MANY, new, known("untested", 0, 0)], set(), random.Random(1), now=NOW, most=5)

    assert [one.principle.id for one in chosen[:3]] == ["good0", "good1", "good2"]
    assert {one.principle.id for one in chosen[3:]} == {"new", "untested"}
    assert [one.is_exploratory for one in chosen] == [False, False, False, True, True]


def test_nothing_is_shown_twice_and_the_page_is_full() -> None:
    """One that the score shows is not explored beside that; where few can be explored, the score fills the page."""
    every = [known("top", 4, 4), *MANY]
    chosen = choose(every, set(), random.Random(1), now=NOW, most=4)
    names = [one.principle.id for one in chosen]

    assert len(names) == len(set(names)) == 4
    assert not any(one.is_exploratory for one in chosen)


def test_neither_sunk_ones_nor_archived_ones_are_shown() -> None:
    """Not for their score, and not to explore them; a candidate is shown to explore it alone."""
    every = [
        known("sunk", 10, 0, "sql", "git", "css", "api"),
        Principle(id="failed", title="failed", status="archived", created_at=NOW),
        Principle(id="young and sunk", title="x", created_at=NOW, use_count=5, success_count=0),
        Principle(id="candidate", title="x", status=CANDIDATE, created_at=OLD, use_count=6, success_count=3),
    ]

    assert choose(every, {"sql", "git", "css", "api"}, random.Random(1), now=NOW) == []


def newcomers(fitting: int, others: int) -> list[Principle]:
    """Candidates that nothing is known of; the first ones have the tag ``sql``."""
    return [
        Principle(id=f"new{one}", title="x", tags=("sql",) * (one < fitting), status=CANDIDATE, created_at=NOW)
        for one in range(fitting + others)
    ]


def explored(new: list[Principle], slots: int, seed: int) -> list[str]:
    """Who is explored in a session about SQL."""
    chosen = choose([*MANY, *new], {"sql"}, random.Random(seed), now=NOW, slots=slots, rows=1)
    return [one.principle.id for one in chosen if one.is_exploratory]


def test_half_of_the_places_are_for_those_that_fit_the_session() -> None:
    """The first ones; for the others all compete, so that one that never fits is judged too."""
    new = newcomers(3, 11)
    pairs = [explored(new, 2, seed) for seed in range(300)]

    assert all(first in ("new0", "new1", "new2") for first, _ in pairs)
    assert {second for _, second in pairs} == {one.id for one in new}


def test_an_only_place_is_for_those_that_fit_half_of_the_time() -> None:
    """And each one that does not fit still comes."""
    alone = [explored(newcomers(1, 9), 1, seed)[0] for seed in range(600)]

    assert set(alone) == {f"new{number}" for number in range(10)}
    assert alone.count("new0") / 600 == pytest.approx(1 / 2 + 1 / 2 / 10, abs=0.08)


def test_where_none_fits_all_compete() -> None:
    """The places are not left empty."""
    assert {one for seed in range(40) for one in explored(newcomers(0, 4), 2, seed)} == {
        f"new{one}" for one in range(4)
    }


def test_those_that_compete_are_known_little_and_not_shown_anyway() -> None:
    """What the score shows is no rival, nor what is known."""
    top = Principle(id="top", title="x", created_at=NOW, use_count=4, success_count=4)
    failed = Principle(id="failed", title="x", created_at=NOW, use_count=9, success_count=0)

    assert rivals([top, failed, *MANY[5:], *newcomers(1, 2)], {"sql"}, now=NOW, most=4, slots=1) == newcomers(1, 2)


def test_what_the_score_shows_is_certain_and_what_is_explored_is_not() -> None:
    """Two certain places, and two of chance among three."""
    new = [Principle(id=f"new{number}", title="x", created_at=NOW) for number in range(3)]
    rows = [choose([*MANY, *new], set(), random.Random(seed), now=NOW, most=4, rows=50) for seed in range(3)]

    for chosen in rows:
        assert [one.propensity for one in chosen[:2]] == [1.0, 1.0]
        assert all(0 < one.propensity < 1 for one in chosen[2:])
