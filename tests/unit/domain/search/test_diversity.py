"""Diversity: the formula of maximal marginal relevance, and near-duplicates left out; refining."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.domain.errors import InvalidProfileError
from retrieval.domain.search.diversity import (
    NO_VECTORS,
    REFINING,
    Diversity,
    PoolVectors,
    Refining,
    diversified,
    from_steps,
    in_steps,
    likenesses,
)
from retrieval.domain.search.fusion import Candidate, fuse, fused_again, fused_ids, refined
from retrieval.domain.search.profile import Fusion, FusionKind, Profile

SCORES = [1.0, 0.9, 0.5, 0.0]
# The second is nearly the first; the third is unlike both.
ALIKE = np.array(
    [[1.0, 0.95, 0.1, 0.3], [0.95, 1.0, 0.2, 0.3], [0.1, 0.2, 1.0, 0.0], [0.3, 0.3, 0.0, 1.0]], dtype=np.float32
)


def test_the_formula_by_hand() -> None:
    """λ = .5: after the first, half of .9 − .95, .5 − .1 and 0 − .3; then half of .9 − .95 and 0 − .3."""
    assert diversified(SCORES, ALIKE.__getitem__, Diversity(relevance_share=0.5), 4) == [0, 2, 1, 3]


def test_scores_count_by_their_place_between_the_lowest_and_the_highest() -> None:
    """BM25 scores and fused scores then weigh the same against a cosine."""
    diversity = Diversity(relevance_share=0.5)
    for scale, offset in ((100.0, 3.0), (0.001, -7.0)):
        scores = [scale * score + offset for score in SCORES]
        assert diversified(scores, ALIKE.__getitem__, diversity, 4) == diversified(
            SCORES, ALIKE.__getitem__, diversity, 4
        )


def test_relevance_alone_keeps_the_order() -> None:
    """λ = 1."""
    assert diversified(SCORES, ALIKE.__getitem__, Diversity(relevance_share=1.0), 4) == [0, 1, 2, 3]


def test_difference_alone_begins_with_the_best_and_goes_to_the_least_alike() -> None:
    """λ = 0: after the first the third (.1), then the last (.3, the second has .95); the opposite before any."""
    assert diversified(SCORES, ALIKE.__getitem__, Diversity(relevance_share=0.0), 4) == [0, 2, 3, 1]
    opposite = np.array([[1, -0.1, -0.9], [-0.1, 1, 0], [-0.9, 0, 1]], dtype=np.float32)
    assert diversified(SCORES[:3], opposite.__getitem__, Diversity(relevance_share=0.0), 2) == [0, 2]


@pytest.mark.parametrize(
    ("above", "expected"), [(0.95, [0, 2, 3]), (0.96, [0, 1, 2, 3]), (0.25, [0, 2]), (1.0, [0, 1, 2, 3])]
)
def test_a_near_duplicate_of_a_better_one_is_left_out(above: float, expected: list[int]) -> None:
    """From that similarity on; the rest keep their order."""
    assert diversified(SCORES, ALIKE.__getitem__, Diversity(collapse_above=above), 4) == expected


def test_an_item_similar_to_a_left_out_one_stays() -> None:
    """Only shown hits represent others."""
    chain = np.array([[1, 0.9, 0.1], [0.9, 1, 0.9], [0.1, 0.9, 1]], dtype=np.float32)
    assert diversified([3.0, 2.0, 1.0], chain.__getitem__, Diversity(collapse_above=0.8), 3) == [0, 2]


def test_both_steps_together() -> None:
    """A near-duplicate does not come back, however different the rest wants to be."""
    assert diversified(SCORES, ALIKE.__getitem__, Diversity(collapse_above=0.9, relevance_share=0.0), 4) == [0, 2, 3]


@pytest.mark.parametrize("limit", [0, 1, 2, 9])
def test_no_more_than_the_limit_are_taken(limit: int) -> None:
    """A smaller pool is taken whole."""
    assert diversified(SCORES, ALIKE.__getitem__, Diversity(relevance_share=0.5), limit) == [0, 2, 1, 3][:limit]


def test_of_nothing_comes_nothing() -> None:
    """An empty ranking stays so."""
    assert diversified([], np.zeros((0, 0), dtype=np.float32).__getitem__, Diversity(collapse_above=0.9), 10) == []


@given(st.integers(1, 12), st.integers(0, 99), st.floats(0, 1))
def test_without_collapse_every_candidate_comes_once(number: int, seed: int, share: float) -> None:
    """Equal scores included."""
    points = np.random.default_rng(seed).normal(size=(number, 3)).astype(np.float32)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    places = diversified([1.0] * number, (points @ points.T).__getitem__, Diversity(relevance_share=share), number)
    assert sorted(places) == list(range(number))
    assert places[0] == 0


@pytest.mark.parametrize("above", [0, -0.1, 1.01, float("nan"), True, "0.9"])
def test_a_similarity_outside_its_range_is_refused(above: Any) -> None:
    """With an example of a good one."""
    with pytest.raises(InvalidProfileError, match=r"above 0, at most 1, such as 0\.95"):
        Diversity(collapse_above=above)


@pytest.mark.parametrize("share", [-0.1, 1.01, float("inf"), False, "0.5"])
def test_a_share_outside_its_range_is_refused(share: Any) -> None:
    """With an example of a good one."""
    with pytest.raises(InvalidProfileError, match=r"from 0 to 1"):
        Diversity(relevance_share=share)


def test_diversity_is_off_by_default() -> None:
    """λ = 0 is something."""
    assert Diversity().is_off
    assert not Diversity(relevance_share=0.0).is_off
    assert not Diversity(collapse_above=1.0).is_off


SUM = Fusion(kind=FusionKind.WEIGHTED_SUM)
STEP = 1 / 32767


def ranking(leg: str, **scores: float) -> list[Candidate]:
    """Candidates of a leg, best first."""
    ordered = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
    return [Candidate(leg, item_id, rank, score) for rank, (item_id, score) in enumerate(ordered, 1)]


def vectors(**each: Any) -> PoolVectors:
    """By item id."""
    return PoolVectors.of({item_id: np.array(vector, dtype=np.float32) for item_id, vector in each.items()})


def alike(*each: list[float], pool: list[bool] | None = None) -> list[float]:
    """The likeness of candidates to the first, by default relative to the whole pool."""
    places = [place for place in range(len(each)) if pool is None or pool[place]]
    return likenesses(np.array(each, dtype=np.float32), places, 0)


def test_the_formula_of_refining_by_hand() -> None:
    """Around (.5, .5) the first points to (.5, -.5): the second the other way, the third at a right angle."""
    corners = [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]
    assert alike(*corners) == pytest.approx([1, 0, 0.5, 0.5], abs=STEP)
    # The third is not in the pool: the mean is (1/3, 1/3), from which it is at a right angle to the first.
    likeness = alike(*corners, pool=[True, True, False, True])
    assert likeness[0] == 1
    assert likeness[2] == pytest.approx((1 + 2 / 9 / np.sqrt(8 / 9 * 5 / 9)) / 2, abs=STEP)


def test_a_common_vector_does_not_change_the_likeness() -> None:
    """Adding the same vector to all does not change the likeness."""
    chance = np.random.default_rng(1)
    some = chance.normal(size=(9, 5))
    moved = some + np.array([7.0, 0, -3, 1, 0])
    assert alike(*moved.tolist()) == pytest.approx(alike(*some.tolist()), abs=2 * STEP)


def test_a_pool_without_a_direction_refines_nothing() -> None:
    """One candidate, or all in one place."""
    assert alike([1.0, 0.0]) == []
    assert alike(*[[1.0, 0.0]] * 3) == []


def test_a_candidate_in_the_middle_is_unrelated() -> None:
    """It points nowhere."""
    assert alike([1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]) == [1.0, 0.0, pytest.approx(0.5, abs=STEP)]


def test_a_score_is_a_share_of_the_legs_and_a_share_of_likeness() -> None:
    """Worked by hand: c is like the best, b the opposite; both had the same."""
    rankings = {"dense": ranking("dense", a=1.0, b=0.5, c=0.5), "lexical": ranking("lexical", a=2.0, b=1.0, c=1.0)}
    weights = {"dense": 3.0, "lexical": 1.0, REFINING: 0.2}
    pool = refined(rankings, weights, SUM, 10, vectors(a=[1, 0], b=[-1, 0], c=[1, 0]))
    best, second, third = fuse(pool, weights, SUM)
    assert [candidate.item_id for candidate in (best, second, third)] == ["a", "c", "b"]
    assert (best.score, second.score, third.score) == pytest.approx((1.0, 0.8 * 0.5 + 0.2, 0.8 * 0.5))
    dense, lexical, likeness = second.contributions
    assert (dense.value, lexical.value) == pytest.approx((0.8 * 0.375, 0.8 * 0.125))
    assert likeness == (REFINING, 2, 1.0, 0.2, 0.2)


def test_an_item_without_a_vector_keeps_its_score() -> None:
    """Other items are compared with the best item that has a vector."""
    rankings = {"dense": ranking("dense", b=0.9, c=0.8), "lexical": ranking("lexical", a=5.0, b=4.0, c=1.0)}
    weights = {"dense": 0.5, "lexical": 0.5, REFINING: 0.5}
    plain = {candidate.item_id: candidate for candidate in fuse(rankings, weights, SUM)}
    pool = refined(rankings, weights, SUM, 10, vectors(b=[1, 0], c=[0, 1]))
    scored = {candidate.item_id: candidate for candidate in fuse(pool, weights, SUM)}
    assert scored["a"] == plain["a"]
    assert scored["b"].score == pytest.approx(plain["b"].score / 2 + 0.5)
    assert refined(rankings, weights, SUM, 10, NO_VECTORS) == rankings


ITEMS = "abcdefghijkl"
POOLS = st.fixed_dictionaries(
    {
        "legs": st.dictionaries(
            st.sampled_from(["dense", "lexical", "lexical:1"]),
            st.dictionaries(st.sampled_from(ITEMS), st.floats(-1, 50, width=32), max_size=10),
            min_size=1,
        ),
        "vectors": st.dictionaries(st.sampled_from(ITEMS), st.integers(0, 999)),
        "share": st.floats(0, 1),
        "depth": st.integers(1, 12),
    }
)


@given(POOLS)
def test_contributions_add_up_and_a_record_gives_the_same(drawn: dict[str, Any]) -> None:
    """For any candidates, whichever have vectors: between 0 and 1, in order, and from what a record keeps."""
    rankings = {leg: ranking(leg, **scores) for leg, scores in drawn["legs"].items()}
    weights = {leg: 1.0 + place for place, leg in enumerate(rankings)} | {REFINING: drawn["share"]}
    item_vectors = vectors(
        **{item_id: np.random.default_rng(seed).normal(size=4) for item_id, seed in drawn["vectors"].items()}
    )
    pool = refined(rankings, weights, SUM, drawn["depth"], item_vectors)
    fused = fuse(pool, weights, SUM)
    assert [candidate.item_id for candidate in fused] == fused_ids(pool, weights, SUM)
    assert [candidate.score for candidate in fused] == sorted((candidate.score for candidate in fused), reverse=True)
    for candidate in fused:
        assert candidate.score == sum(part.value for part in candidate.contributions)
        assert all(part.value >= 0 for part in candidate.contributions)
        assert candidate.score <= 1 + 1e-12
    items = [candidate.item_id for candidate in fused]
    raw = {leg: {candidate.item_id: candidate.score for candidate in some} for leg, some in pool.items()}
    legs = {leg: [scores.get(item_id) for item_id in items] for leg, scores in raw.items()}
    if REFINING in legs:
        legs[REFINING] = from_steps(in_steps(legs[REFINING]))
    best = {leg: max([0.0, *scores.values()]) for leg, scores in raw.items()}
    again = fused_again(legs, {}, best, {leg: weights[leg] for leg in legs}, SUM)
    if len(legs) > 1:
        assert again == [candidate.score for candidate in fused]


@given(POOLS, st.integers(1, 12))
def test_a_deeper_page_changes_no_score(drawn: dict[str, Any], more: int) -> None:
    """If the legs were asked for more than the pool, the first candidates have the scores that they had."""
    legs = {leg: scores | {"a": 60.0, "b": 55.0} for leg, scores in drawn["legs"].items()}
    item_vectors = vectors(**{item_id: np.random.default_rng(ord(item_id)).normal(size=4) for item_id in ITEMS})
    weights = dict.fromkeys(legs, 1.0) | {REFINING: drawn["share"]}
    deep = {leg: ranking(leg, **scores) for leg, scores in legs.items()}
    # Scores of both legs are looked up, so only the legs' candidates within the pool differ.
    pool = {candidate.item_id for some in deep.values() for candidate in some[: drawn["depth"]]}
    deeper = pool | {candidate.item_id for some in deep.values() for candidate in some[: drawn["depth"] + more]}
    pages = []
    for items in (pool, deeper):
        some = {leg: ranking(leg, **{i: s for i, s in scores.items() if i in items}) for leg, scores in legs.items()}
        rankings = refined(some, weights, SUM, drawn["depth"], item_vectors)
        pages.append({candidate.item_id: candidate.score for candidate in fuse(rankings, weights, SUM)})
    assert {item_id: pages[1][item_id] for item_id in pages[0]} == pytest.approx(pages[0], abs=1e-4)


def test_likenesses_are_kept_in_two_bytes_and_lose_nothing() -> None:
    """Each is a multiple of 1 / 32,767."""
    chance = np.random.default_rng(2)
    likeness: list[float | None] = [*alike(*chance.normal(size=(50, 8)).tolist()), None]
    steps = in_steps(likeness)
    assert all(-1 <= step <= 32767 for step in steps)
    assert from_steps(steps) == likeness


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), True, "much", None])
def test_a_share_of_refining_outside_its_range_is_refused(share: Any) -> None:
    """With the range."""
    with pytest.raises(InvalidProfileError, match=r"refining share is .*; it must be a number from 0 to 1"):
        Refining(share=share)


def test_ranks_cannot_be_refined() -> None:
    """Their scores have another scale; the error says what to do."""
    with pytest.raises(InvalidProfileError, match="refining needs the fusion 'weighted_sum'"):
        Profile(refining=Refining(share=0.2))


def test_a_profile_spells_it_in_json() -> None:
    """It is read back unchanged; a fault is named."""
    profile = Profile(fusion=SUM, refining=Refining(share=0.25))
    assert profile.as_dict()["refining"] == {"share": 0.25}
    assert Profile.from_dict(profile.as_dict()) == profile
    assert Profile.from_dict({"legs": {"dense": 1}}).refining.is_off
    with pytest.raises(InvalidProfileError, match="Refining has no argument 'shares'; did you mean 'share'"):
        Profile.from_dict({"legs": {"dense": 1}, "refining": {"shares": 1}})
