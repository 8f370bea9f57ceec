"""Fusion: the formulas, and contributions that add up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.domain.search.fusion import Candidate, fuse, fused_ids
from retrieval.domain.search.profile import Fusion, FusionKind

RRF = Fusion()
SUM = Fusion(kind=FusionKind.WEIGHTED_SUM)


def ranking(leg: str, *scored: tuple[str, float]) -> list[Candidate]:
    """Candidates of a leg in the given order."""
    return [Candidate(leg, item_id, rank, score) for rank, (item_id, score) in enumerate(scored, 1)]


def test_rrf_is_the_sum_of_reciprocal_ranks() -> None:
    """score = Σ weight / (60 + rank), worked by hand."""
    rankings = {"dense": ranking("dense", ("a", 0.9), ("b", 0.8)), "lexical": ranking("lexical", ("b", 12.0))}
    best, second = fuse(rankings, {"dense": 1.0, "lexical": 2.0}, RRF)
    assert [candidate.item_id for candidate in (best, second)] == ["b", "a"]
    assert best.score == pytest.approx(1 / 62 + 2 / 61)
    assert second.score == pytest.approx(1 / 61)


def test_the_rank_constant_is_the_fusions() -> None:
    """Another k, another score."""
    assert fuse({"dense": ranking("dense", ("a", 1.0))}, {"dense": 1.0}, Fusion(k=1))[0].score == 0.5


def test_a_weighted_sum_adds_each_score_s_part_of_its_leg_s_best() -> None:
    """score = Σ share × s / best, worked by hand."""
    rankings = {"dense": ranking("dense", ("a", 0.8), ("b", 0.4)), "lexical": ranking("lexical", ("b", 10.0))}
    best, second = fuse(rankings, {"dense": 3.0, "lexical": 1.0}, SUM)
    assert [candidate.item_id for candidate in (best, second)] == ["a", "b"]
    assert best.score == pytest.approx(0.75)
    assert second.score == pytest.approx(0.75 / 2 + 0.25)


def test_lower_candidates_change_no_score_of_a_weighted_sum() -> None:
    """A page of another size has the same scores."""
    rankings = {"dense": ranking("dense", ("a", 0.8), ("b", 0.6), ("c", 0.4))}
    shorter = {"dense": rankings["dense"][:2]}
    assert fuse(rankings, {"dense": 1.0}, SUM)[:2] == fuse(shorter, {"dense": 1.0}, SUM)


def test_equal_scores_of_a_leg_bring_each_the_whole_share() -> None:
    """They are all its best."""
    rankings = {"lexical": ranking("lexical", ("a", 2.0), ("b", 2.0))}
    assert [candidate.score for candidate in fuse(rankings, {"lexical": 1.0}, SUM)] == [1.0, 1.0]


def test_a_score_that_is_not_above_zero_brings_nothing() -> None:
    """Also where a leg has no other."""
    some = ranking("dense", ("a", 0.5), ("b", 0.0), ("c", -0.1))
    assert [candidate.score for candidate in fuse({"dense": some}, {"dense": 1.0}, SUM)] == [1.0, 0.0, 0.0]
    assert [candidate.score for candidate in fuse({"dense": some[1:]}, {"dense": 1.0}, SUM)] == [0.0, 0.0]


@pytest.mark.parametrize("fusion", [RRF, SUM])
def test_without_candidates_there_are_no_hits(fusion: Fusion) -> None:
    """Empty legs fuse to nothing."""
    assert fuse({"dense": [], "lexical": []}, {"dense": 1.0, "lexical": 1.0}, fusion) == []


@pytest.mark.parametrize("fusion", [RRF, SUM])
def test_equal_scores_are_ordered_by_item_id(fusion: Fusion) -> None:
    """The order never depends on chance."""
    rankings = {"dense": ranking("dense", ("b", 1.0)), "lexical": ranking("lexical", ("a", 1.0))}
    assert [candidate.item_id for candidate in fuse(rankings, {"dense": 1.0, "lexical": 1.0}, fusion)] == ["a", "b"]


ITEMS = st.lists(st.sampled_from("abcdefgh"), unique=True)
SCORES = st.floats(-1, 50)


@pytest.mark.parametrize("kind", FusionKind)
def test_the_order_of_the_legs_changes_no_score(kind: FusionKind) -> None:
    """Rounding depends on the order of a sum, and a stored profile has another order than the caller's."""
    legs = {name: ranking(name, ("d", 0.2), ("a", 0.1)) for name in ("dense", "lexical", "tagged")}
    weights = {"dense": 1.0, "lexical": 0.7, "tagged": 0.5}
    backwards = dict(reversed(legs.items()))
    assert fuse(legs, weights, Fusion(kind=kind)) == fuse(backwards, weights, Fusion(kind=kind))


@given(st.lists(st.tuples(ITEMS, SCORES, st.floats(0, 5)), min_size=1, max_size=4), st.sampled_from([RRF, SUM]))
def test_contributions_add_up_and_the_best_comes_first(
    legs: list[tuple[list[str], float, float]], fusion: Fusion
) -> None:
    """For any rankings and weights the explanation holds."""
    rankings = {
        f"leg{place}": ranking(f"leg{place}", *((item, top - rank) for rank, item in enumerate(items)))
        for place, (items, top, _) in enumerate(legs)
    }
    weights = {f"leg{place}": weight for place, (_, _, weight) in enumerate(legs)}
    fused = fuse(rankings, weights, fusion)
    assert [candidate.item_id for candidate in fused] == fused_ids(rankings, weights, fusion)
    assert {candidate.item_id for candidate in fused} == {item for items, _, _ in legs for item in items}
    assert [candidate.score for candidate in fused] == sorted((candidate.score for candidate in fused), reverse=True)
    for candidate in fused:
        assert candidate.score == sum(part.value for part in candidate.contributions)
        assert all(part.value >= 0 for part in candidate.contributions)
