"""How scores come together."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.apps.metaphors import Metaphor, combine_scores
from retrieval.apps.metaphors.ranking import spread, untried_explanation, untried_score
from retrieval.domain.errors import InvalidRequestError

A, B, C = (Metaphor(id=name, name=name) for name in "abc")


def test_learning_weighs_more_than_similarity() -> None:
    """0.4 × the first + 0.6 × the second, best first."""
    combined = combine_scores([(A, 0.9), (B, 0.5)], [(B, 0.8), (A, 0.1)])
    assert [metaphor.id for metaphor, _ in combined] == ["b", "a"]
    assert [score for _, score in combined] == pytest.approx([0.4 * 0.5 + 0.6 * 0.8, 0.4 * 0.9 + 0.6 * 0.1])


def test_what_one_ranking_leaves_out_has_nothing_from_it() -> None:
    """It keeps the other's part."""
    assert combine_scores([(A, 1.0)], [(C, 1.0)]) == [(C, 0.6), (A, 0.4)]


def test_equal_sums_are_ordered_by_id() -> None:
    """Whatever order they came in."""
    assert [one.id for one, _ in combine_scores([(C, 0.5), (A, 0.5), (B, 0.5)], [])] == ["a", "b", "c"]


@given(st.lists(st.tuples(st.sampled_from([A, B, C]), st.floats(0, 1)), max_size=3, unique_by=lambda one: one[0].id))
def test_scores_from_0_to_1_stay_there(ranking: list[tuple[Metaphor, float]]) -> None:
    """And no metaphor comes twice."""
    combined = combine_scores(ranking, ranking)
    assert all(-1e-9 <= score <= 1 + 1e-9 for _, score in combined)
    assert sorted(one.id for one, _ in combined) == sorted(one.id for one, _ in ranking)


@pytest.mark.parametrize(
    "weights", [(1.0,), (0.4, -0.1), (math.nan, 1.0), (0.2, 0.3, 0.5), 3, 5, ("a", "b"), (10**400, 1), None]
)
def test_weights_that_cannot_be_are_refused(weights: Any) -> None:
    """One, negative, NaN, three, none, texts, one that no float holds."""
    with pytest.raises(InvalidRequestError, match="weights"):
        combine_scores([(A, 1.0)], [], weights)


def test_rankings_that_are_none_are_refused() -> None:
    """In one line."""
    with pytest.raises(InvalidRequestError, match="two rankings"):
        combine_scores(None, [])  # type: ignore[arg-type]


def test_an_untried_candidate_counts_nine_tenths_of_its_similarity() -> None:
    """And its explanation adds up to that."""
    assert untried_score(0.5) == 0.45
    assert untried_explanation(0.5, 1).score == untried_score(0.5)


@pytest.mark.parametrize(
    ("scores", "expected"), [([0.9, 0.8, 0.7, 0.6, 0.4, 0.1], 0.5), ([0.9, 0.6], 0.3), ([0.9], 0.0), ([], 0.0)]
)
def test_the_spread_reaches_to_the_fifth(scores: list[float], expected: float) -> None:
    """Or to the last of fewer."""
    assert spread(scores) == pytest.approx(expected)
