"""The fusion of scores, the triggers of generation, and the consequences of a failed metaphor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.apps.metaphors import Metaphor, combine_scores
from retrieval.apps.metaphors.metaphor import CONCRETENESS, RICHNESS, away_from, preferred_after, why_generate
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.embedding import Vector
from retrieval.domain.records.search_record import score_spread

A, B, C = (Metaphor(id=name, name=name) for name in "abc")


def test_learning_weighs_more_than_similarity() -> None:
    """0.4 × the first + 0.6 × the second, best first."""
    combined = combine_scores([(A, 0.9), (B, 0.5)], [(B, 0.8), (A, 0.1)])
    assert [metaphor.id for metaphor, _ in combined] == ["b", "a"]
    assert [score for _, score in combined] == pytest.approx([0.4 * 0.5 + 0.6 * 0.8, 0.4 * 0.9 + 0.6 * 0.1])


def test_an_item_missing_from_a_ranking_gets_no_score_from_it() -> None:
    """It keeps the other's part."""
    assert combine_scores([(A, 1.0)], [(C, 1.0)]) == [(C, 0.6), (A, 0.4)]


def test_equal_sums_are_ordered_by_id() -> None:
    """The order of the input does not matter."""
    assert [metaphor.id for metaphor, _ in combine_scores([(C, 0.5), (A, 0.5), (B, 0.5)], [])] == ["a", "b", "c"]


@given(st.lists(st.tuples(st.sampled_from([A, B, C]), st.floats(0, 1)), max_size=3, unique_by=lambda pair: pair[0].id))
def test_scores_from_0_to_1_stay_there(ranking: list[tuple[Metaphor, float]]) -> None:
    """No metaphor comes twice."""
    combined = combine_scores(ranking, ranking)
    assert all(-1e-9 <= score <= 1 + 1e-9 for _, score in combined)
    assert sorted(metaphor.id for metaphor, _ in combined) == sorted(metaphor.id for metaphor, _ in ranking)


@pytest.mark.parametrize(
    "weights", [(1.0,), (0.4, -0.1), (math.nan, 1.0), (0.2, 0.3, 0.5), 3, 5, ("a", "b"), (10**400, 1), None]
)
def test_weights_that_cannot_be_are_refused(weights: Any) -> None:
    """One, negative, NaN, three, none, texts, one that no float holds."""
    with pytest.raises(InvalidRequestError, match="weights"):
        combine_scores([(A, 1.0)], [], weights)


@pytest.mark.parametrize("ranking", [None, "ab", [None], [("a", 1.0)], [(A, "1")], [(A, float("nan"))], {A: 1.0}])
def test_invalid_rankings_are_refused(ranking: Any) -> None:
    """In one line, on either side."""
    with pytest.raises(InvalidRequestError, match="ranking"):
        combine_scores(ranking, [])
    with pytest.raises(InvalidRequestError, match="ranking"):
        combine_scores([], ranking)


@pytest.mark.parametrize(
    ("scores", "expected"), [([0.9, 0.8, 0.7, 0.6, 0.4, 0.1], 0.5), ([0.9, 0.6], 0.3), ([0.9], 0.0), ([], None)]
)
def test_the_spread_reaches_to_the_fifth(scores: list[float], expected: float | None) -> None:
    """With fewer scores, it reaches to the last."""
    assert score_spread(scores) == pytest.approx(expected)


FINE = 0.8


@pytest.mark.parametrize(("score", "expected"), [(0.0, True), (0.299, True), (0.3, False), (0.9, False)])
def test_a_top_score_below_three_tenths_calls_for_it(score: float, expected: bool) -> None:  # noqa: FBT001
    """Three tenths itself does not."""
    assert (why_generate(score) is not None) == expected


@pytest.mark.parametrize(
    ("context", "expected"),
    [("No Good Candidates so far", True), ("there were no good candidates", True), ("good", False), ("", False)],
)  # fmt: skip
def test_a_context_that_says_so_calls_for_it(context: str, expected: bool) -> None:  # noqa: FBT001
    """In any case of letters, anywhere in it."""
    assert (why_generate(FINE, context) is not None) == expected


@pytest.mark.parametrize(
    ("backtracks", "after", "expected"), [(1, 2, False), (2, 2, True), (3, 2, True), (3, 4, False)]
)
def test_enough_backtracks_trigger_generation(backtracks: int, after: int, expected: bool) -> None:  # noqa: FBT001
    """The number is the caller's."""
    why = why_generate(FINE, backtracks=backtracks, after_backtracks=after)
    assert (why is not None) == expected


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("it was too abstract to act on", (CONCRETENESS,)),
        ("Too Abstract", (CONCRETENESS,)),
        ("missing concept: time", (RICHNESS,)),
        ("too abstract, and a missing concept", (CONCRETENESS,)),
        ("it contradicts itself", ()),
        ("", ()),
    ],
)
def test_the_reason_says_what_to_prefer(reason: str, expected: tuple[str, ...]) -> None:
    """Concrete ones, rich ones, or nothing in particular."""
    assert preferred_after(reason) == expected


def vector(seed: int) -> Vector:
    """A direction."""
    numbers = np.random.default_rng(seed).normal(size=16)
    return (numbers / np.linalg.norm(numbers)).astype(np.float32)


@given(st.integers(0, 1000), st.integers(0, 1000), st.floats(0.05, 0.9))
def test_the_question_moves_away_from_what_failed(first: int, second: int, strength: float) -> None:
    """It is less like it than before, of length 1, and the more so the stronger."""
    question, failed = vector(first), vector(second + 2000)
    moved = away_from(question, failed, strength)
    assert np.linalg.norm(moved) == pytest.approx(1, abs=1e-5)
    assert moved @ failed < question @ failed + 1e-6
    assert away_from(question, failed, strength + 0.1) @ failed < moved @ failed + 1e-6


def test_a_question_that_is_the_failed_metaphor_stays() -> None:
    """The moved vector would be zero."""
    same = vector(1)
    assert away_from(same, same, 1.0) is same
