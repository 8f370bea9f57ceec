"""From the legs' candidates to one ranking, and to the best of each group."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.adapters.store.items.conditions import HIT_COLUMNS
from retrieval.adapters.store.search.candidates import LegResults
from retrieval.domain.search.fusion import Candidate, Fused, fuse, fused_ids
from retrieval.domain.search.hit import Path
from retrieval.domain.search.profile import Fusion, FusionKind, Profile
from retrieval.domain.search.signals import Recency, VectorSimilarity
from retrieval.engine.ranking import best_of_groups, hits, ranking

DENSE = [Candidate("dense", "a", 1, 0.9), Candidate("dense", "b", 2, 0.4)]
LEXICAL = [Candidate("lexical", "b", 1, 7.5)]


def _candidates(**rankings: list[Candidate]) -> LegResults:
    return LegResults(rankings, Path.EXACT, 2)


def _ranked(*item_ids: str) -> list[Fused]:
    return [Fused(item_id, 1.0 / place, ()) for place, item_id in enumerate(item_ids, 1)]


def _fusion_of(ranked: list[Fused], leg_results: LegResults, profile: Profile) -> str:
    """How the first hit was fused, as its explanation says."""
    columns = {candidate.item_id: tuple([] if name == "tags" else "" for name in HIT_COLUMNS) for candidate in ranked}
    shown = hits(ranked, columns, leg_results, profile, slate=(), relevance={}, later=())
    return shown[0].explanation.fusion


def test_one_legs_scores_are_the_hits() -> None:
    """A cosine stays a cosine; the explanation has the one part, which is the score."""
    leg_results = _candidates(dense=DENSE)
    ranked = ranking(leg_results, Profile(), 100)
    assert [(candidate.item_id, candidate.score) for candidate in ranked] == [("a", 0.9), ("b", 0.4)]
    assert [(part.leg, part.rank, part.value) for candidate in ranked for part in candidate.contributions] == [
        ("dense", 1, 0.9),
        ("dense", 2, 0.4),
    ]
    assert _fusion_of(ranked, leg_results, Profile()) == "none"


def test_several_legs_are_fused() -> None:
    """Also where one of them found nothing."""
    profile = Profile(legs={"dense": 1, "lexical": 1}, fusion=Fusion(kind=FusionKind.RRF, k=60))
    leg_results = _candidates(dense=DENSE, lexical=LEXICAL)
    ranked = ranking(leg_results, profile, 100)
    assert [candidate.item_id for candidate in ranked] == ["b", "a"]
    assert _fusion_of(ranked, leg_results, profile) == "rrf"
    assert ranking(_candidates(dense=DENSE, lexical=[]), profile, 100)[0].score == 1 / 61


def test_no_candidates_make_an_empty_ranking() -> None:
    """Both with one leg and with two."""
    assert ranking(_candidates(dense=[]), Profile(), 10) == []
    assert ranking(_candidates(dense=[], lexical=[]), Profile(), 10) == []


def test_of_each_group_the_best_stays_in_order() -> None:
    """Any type of value can be a group; the number 1, also as 1.0, the text "1" and true differ."""
    groups = {"a": "x", "b": "x", "c": 1, "d": "1", "e": 1.0, "f": True, "g": [1], "h": [1.0], "i": {"x": 1}}
    assert [candidate.item_id for candidate in best_of_groups(_ranked(*groups), groups)] == [
        "a",
        "c",
        "d",
        "f",
        "g",
        "i",
    ]


def test_an_item_without_a_group_is_one_of_its_own() -> None:
    """It is neither left out nor thrown together with others; nor with a group that has its key for a name."""
    groups = {"a": None, "c": "a"}
    assert [candidate.item_id for candidate in best_of_groups(_ranked("a", "b", "c"), groups)] == ["a", "b", "c"]


def test_lists_are_groups_too() -> None:
    """An attribute may hold one."""
    groups = {"a": ["x", "y"], "b": ["x", "y"], "c": ["x"]}
    assert [candidate.item_id for candidate in best_of_groups(_ranked("a", "b", "c"), groups)] == ["a", "c"]


SIGNALS = (VectorSimilarity(weight=0.7), Recency(weight=0.3))
LEGS = ("dense", "lexical", *(signal.key for signal in SIGNALS))

SCORES = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(-1, 50, allow_nan=False))

LISTS = st.dictionaries(
    st.sampled_from(LEGS), st.dictionaries(st.sampled_from("abcdefgh"), SCORES, max_size=8), min_size=1
)
"""Scores by item by leg; equal scores and items of several legs are common."""

FUSED = st.builds(
    Profile,
    legs=st.just({"dense": 0.3, "lexical": 1.0}),
    fusion=st.builds(Fusion, kind=st.sampled_from([FusionKind.WEIGHTED_SUM, FusionKind.RRF])),
)
UNITED = st.builds(
    Profile,
    legs=st.just({"dense": 1.0}),
    signals=st.just(SIGNALS),
    fusion=st.just(Fusion(kind=FusionKind.UNION)),
    min_score=st.one_of(st.none(), st.floats(0, 1)),
)


def candidates_of(scores: dict[str, dict[str, float]]) -> dict[str, list[Candidate]]:
    """Each leg's candidates, best first."""
    return {
        leg: [
            Candidate(leg, item_id, rank, score)
            for rank, (item_id, score) in enumerate(sorted(ranked.items(), key=lambda pair: -pair[1]), 1)
        ]
        for leg, ranked in scores.items()
    }


@settings(max_examples=120, deadline=None)
@given(LISTS, st.one_of(FUSED, UNITED))
def test_the_order_without_scores_is_that_with_scores(scores: dict[str, dict[str, float]], profile: Profile) -> None:
    """With one leg or several, items with equal scores also come in the same order."""
    leg_results = candidates_of(scores)
    weights = profile.weights_of(leg_results)
    fused = fuse(leg_results, weights, profile.fusion)
    assert fused_ids(leg_results, weights, profile.fusion) == [candidate.item_id for candidate in fused]
