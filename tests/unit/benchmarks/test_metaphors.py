"""The figures of the benchmark of metaphors, and the properties of its world."""

from __future__ import annotations

import json

import pytest
from metaphors import (
    HERE,
    QUARTERS,
    Again,
    away_row,
    by_quarter,
    by_thompson,
    page,
    rises,
    search_loop,
    uses_until_right,
)


def test_only_the_first_attempt_counts_quarter_by_quarter() -> None:
    """A problem that the second metaphor solved, or none, does not."""
    assert by_quarter([1, 0, 1, 1, 2, 3, 0, 1]) == [0.5, 1.0, 0.0, 0.5]


def test_moving_away_is_held_against_the_question_that_stayed() -> None:
    """Problem by problem."""
    usual = [Again(0.4, 0.3, 1.0), Again(0.2, 0.3, 1.0)]
    row = away_row(0.4, [Again(0.2, 0.2, 0.5), Again(0.2, 0.3, 0.7)], usual)
    assert (row["to the failed one"], row["to the problem"], row["of the same five"]) == (0.2, 0.25, 0.6)
    assert row["less like it"] == 0.5


def test_the_page_is_made_of_the_figures() -> None:
    """The one in the repository too; over ten worlds retrieval rose in each."""
    folder = HERE / "results"
    result = json.loads((folder / "metaphors.json").read_text(encoding="utf-8"))
    assert (folder / "metaphors.md").read_text(encoding="utf-8") == page(result)
    learned = next(iter(result["loop"].values()))
    assert (len(learned), rises(learned)[0]) == (10, 10)
    assert all(len(row["learning"]) == QUARTERS for row in learned)


def test_outcomes_are_counted_until_the_first_metaphor_is_right() -> None:
    """A problem that the second one solved took two, and one that none solved took three."""
    assert uses_until_right([2, 0, *[1] * 10]) == 0
    assert uses_until_right([2, 0, 0, *[1] * 10]) == 2
    assert uses_until_right([0] * 20) is None


def test_plain_thompson_sampling_finds_what_works_where_there_is_little_to_choose_from() -> None:
    """It finds the working one of two metaphors, domain by domain."""
    example = search_loop()
    world = example.World(7, {domain: frozenset({"plumbing"}) for domain in example.WHERE})
    attempts = by_thompson(world, [example.Metaphor(id=key, name=key) for key in ("plumbing", "chess")], 1)
    assert by_quarter(attempts)[-1] > 0.7


def test_a_world_has_the_same_problems_and_answers_each_time() -> None:
    """Problems of every domain; their solution depends only on which metaphors work."""
    example = search_loop()
    world = example.World(7, {domain: frozenset({"plumbing"}) for domain in example.WHERE})
    problems = world.problems()
    assert problems == example.World(7, world.works).problems()
    assert (len(problems), {problem.domain for problem in problems}) == (100, set(example.WHERE))
    plumbing, chess = (example.Metaphor(id=key, name=key) for key in ("plumbing", "chess"))
    solved = [sum(world.is_solved(problem, metaphor) for problem in problems) / 100 for metaphor in (plumbing, chess)]
    assert solved == pytest.approx([example.SOLVES, example.SOLVES_ANYWAY], abs=0.1)
