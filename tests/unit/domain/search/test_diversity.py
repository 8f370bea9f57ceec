"""Diversity: the formula of maximal marginal relevance, and near-duplicates left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.domain.errors import InvalidProfileError
from retrieval.domain.search.diversity import Diversity, Similarities, diversified

SCORES = [1.0, 0.9, 0.5, 0.0]
# The second is nearly the first; the third is like nothing else.
ALIKE: Similarities = np.array(
    [[1.0, 0.95, 0.1, 0.3], [0.95, 1.0, 0.2, 0.3], [0.1, 0.2, 1.0, 0.0], [0.3, 0.3, 0.0, 1.0]], dtype=np.float32
)


def test_the_formula_by_hand() -> None:
    """λ = .5: after the first, half of .9 − .95, .5 − .1 and 0 − .3; then half of .9 − .95 and 0 − .3."""
    assert diversified(SCORES, ALIKE, Diversity(relevance_share=0.5), 4) == [0, 2, 1, 3]


def test_scores_count_by_their_place_between_the_lowest_and_the_highest() -> None:
    """So that those of BM25 and those of a fusion weigh the same beside a cosine."""
    wanted = Diversity(relevance_share=0.5)
    for scale, offset in ((100.0, 3.0), (0.001, -7.0)):
        scores = [scale * score + offset for score in SCORES]
        assert diversified(scores, ALIKE, wanted, 4) == diversified(SCORES, ALIKE, wanted, 4)


def test_relevance_alone_keeps_the_order() -> None:
    """λ = 1."""
    assert diversified(SCORES, ALIKE, Diversity(relevance_share=1.0), 4) == [0, 1, 2, 3]


def test_difference_alone_begins_with_the_best_and_goes_to_the_least_alike() -> None:
    """λ = 0: after the first the third (.1), then the last (.3, the second has .95)."""
    assert diversified(SCORES, ALIKE, Diversity(relevance_share=0.0), 4) == [0, 2, 3, 1]


@pytest.mark.parametrize(
    ("above", "kept"), [(0.95, [0, 2, 3]), (0.96, [0, 1, 2, 3]), (0.25, [0, 2]), (1.0, [0, 1, 2, 3])]
)
def test_a_near_duplicate_of_a_better_one_is_left_out(above: float, kept: list[int]) -> None:
    """From that similarity on; the rest keep their order."""
    assert diversified(SCORES, ALIKE, Diversity(collapse_above=above), 4) == kept


def test_what_is_like_one_that_was_left_out_stays() -> None:
    """Only hits that are shown stand for others."""
    chain: Similarities = np.array([[1, 0.9, 0.1], [0.9, 1, 0.9], [0.1, 0.9, 1]], dtype=np.float32)
    assert diversified([3.0, 2.0, 1.0], chain, Diversity(collapse_above=0.8), 3) == [0, 2]


def test_both_steps_together() -> None:
    """A near-duplicate does not come back, however different the rest wants to be."""
    assert diversified(SCORES, ALIKE, Diversity(collapse_above=0.9, relevance_share=0.0), 4) == [0, 2, 3]


@pytest.mark.parametrize("limit", [0, 1, 2, 9])
def test_no_more_than_the_limit_are_taken(limit: int) -> None:
    """And no more than there are."""
    assert diversified(SCORES, ALIKE, Diversity(relevance_share=0.5), limit) == [0, 2, 1, 3][:limit]


def test_of_nothing_comes_nothing() -> None:
    """An empty ranking stays so."""
    assert diversified([], np.zeros((0, 0), dtype=np.float32), Diversity(collapse_above=0.9), 10) == []


@given(st.integers(1, 12), st.integers(0, 99), st.floats(0, 1))
def test_without_collapse_every_candidate_comes_once(number: int, seed: int, share: float) -> None:
    """Equal scores included."""
    points = np.random.default_rng(seed).normal(size=(number, 3)).astype(np.float32)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    taken = diversified([1.0] * number, points @ points.T, Diversity(relevance_share=share), number)
    assert sorted(taken) == list(range(number))
    assert taken[0] == 0


@pytest.mark.parametrize("above", [0, -0.1, 1.01, float("nan"), True, "0.9"])
def test_a_similarity_outside_its_range_is_refused(above: Any) -> None:
    """With an example of a good one."""
    with pytest.raises(InvalidProfileError, match=r"above 0 and at most 1, such as 0\.95"):
        Diversity(collapse_above=above)


@pytest.mark.parametrize("share", [-0.1, 1.01, float("inf"), False, "0.5"])
def test_a_share_outside_its_range_is_refused(share: Any) -> None:
    """With an example of a good one."""
    with pytest.raises(InvalidProfileError, match=r"0 to 1, such as 0\.7"):
        Diversity(relevance_share=share)


def test_it_is_off_unless_something_is_asked_of_it() -> None:
    """λ = 0 is something."""
    assert Diversity().is_off
    assert not Diversity(relevance_share=0.0).is_off
    assert not Diversity(collapse_above=1.0).is_off
