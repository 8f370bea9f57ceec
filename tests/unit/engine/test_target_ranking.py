"""Recorded candidates in another profile's order: as the fusion itself would have it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.domain.records.recorded import RecordedPool
from retrieval.domain.search.fusion import Candidate, fuse
from retrieval.domain.search.profile import Fusion, FusionKind, Profile
from retrieval.domain.search.profile_parts import Combination, Learned
from retrieval.engine.target import by_relevance, in_order, with_learned
from tests.support.pools import pool_of


def ranked(pool: RecordedPool, profile: Profile) -> dict[str, float]:
    """Items with their scores, best first."""
    return {one.item_id: one.score for one in in_order(by_relevance(pool, profile) or [])}


SCORES = st.dictionaries(st.sampled_from("abcdefg"), st.integers(-20, 100).map(float), max_size=7)


def rankings(legs: Mapping[str, Mapping[str, float]]) -> dict[str, list[Candidate]]:
    """Each leg's candidates, best first."""
    found = {}
    for leg, scores in legs.items():
        ordered = sorted((-score, item) for item, score in scores.items())
        found[leg] = [Candidate(leg, item, rank, -negative) for rank, (negative, item) in enumerate(ordered, 1)]
    return found


@given(SCORES, SCORES, st.sampled_from([FusionKind.RRF, FusionKind.WEIGHTED_SUM]), st.floats(0.1, 3))
def test_it_is_what_fusion_says(
    dense: dict[str, float], lexical: dict[str, float], kind: FusionKind, weight: float
) -> None:
    """The same items in the same order with the same scores, whatever the fusion."""
    legs = {"dense": dense, "lexical": lexical}
    profile = Profile(legs={"dense": 1.0, "lexical": weight}, fusion=Fusion(kind=kind))
    wanted = [(one.item_id, one.score) for one in fuse(rankings(legs), profile.legs, profile.fusion)]
    found = ranked(pool_of(legs), profile)
    assert list(found.values()) == pytest.approx([score for _, score in wanted])
    assert found == pytest.approx(dict(wanted))


def test_one_leg_has_its_own_scores() -> None:
    """As in a search that one leg answers."""
    pool = pool_of({"dense": {"a": 0.5, "b": 0.9}, "lexical": {"c": 3.0}})
    assert list(ranked(pool, Profile(legs={"dense": 2.0})).items()) == [("b", 0.9), ("a", 0.5)]


def test_a_leg_that_was_not_recorded_leaves_it_open() -> None:
    """What it would have brought, nobody knows; one without a weight is not missed."""
    pool = pool_of({"dense": {"a": 0.5}})
    assert by_relevance(pool, Profile()) is None
    assert ranked(pool, Profile(legs={"dense": 1.0, "lexical": 0.0})) == {"a": 0.5}


def test_recorded_ranks_and_best_scores_count_those_that_the_pool_does_not_hold() -> None:
    """A candidate at rank 7 of its leg stays there, though only one that was better is in the pool."""
    legs = {"dense": {"a": 0.9, "b": 0.5}, "lexical": {"a": 2.0}}
    pool = pool_of(legs, ranks={"dense": [1, 7], "lexical": [3, None]}, bests={"dense": 1.0, "lexical": 4.0})
    assert ranked(pool, Profile()) == pytest.approx({"a": 1 / 61 + 1 / 63, "b": 1 / 67})
    by_score = Profile(fusion=Fusion(kind=FusionKind.WEIGHTED_SUM))
    assert ranked(pool, by_score) == pytest.approx({"a": 0.45 + 0.25, "b": 0.25})


def test_a_learned_reward_is_summed_with_the_relevance() -> None:
    """0.4 × relevance, from 0 to 1, + 0.6 × what was learned then; of which nothing was, was no candidate."""
    pool = pool_of(
        {"dense": {"a": 0.8, "b": 0.4, "c": 0.2}}, learned=[0.1, 0.9, None], effective_sample_size=[24.0, 8.0, None]
    )
    candidates = by_relevance(pool, Profile(legs={"dense": 1.0})) or []
    found = in_order(with_learned(candidates, pool, Learned(), None) or [])
    assert [(one.item_id, one.contender.uncertainty) for one in found] == [("b", 1 / 6), ("a", 0.1)]
    assert [one.score for one in found] == pytest.approx([0.4 * 0.5 + 0.6 * 0.9, 0.4 + 0.6 * 0.1])
    assert with_learned(candidates, pool, Learned(combination=Combination.OFF), None) == candidates
    assert with_learned(candidates, pool, Learned(combination=Combination.LOGIT_STACK), None) is None


def test_where_nothing_learned_counted_nothing_does() -> None:
    """Whatever the combination."""
    pool = pool_of({"dense": {"a": 0.8}})
    candidates = by_relevance(pool, Profile(legs={"dense": 1.0})) or []
    for combination in Combination:
        assert with_learned(candidates, pool, Learned(combination=combination), None) == candidates
