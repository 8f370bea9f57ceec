"""What a record takes the short way is what the long way gives: the same items with the same scores."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.adapters.store.search.candidates import Found
from retrieval.domain.search.fusion import Candidate, fuse, fused_ids, fused_scores
from retrieval.domain.search.hit import Path
from retrieval.domain.search.profile import Fusion, FusionKind, Profile
from retrieval.domain.search.signals import Recency, VectorSimilarity
from retrieval.engine.ranking import ranked_scores, ranking

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
            for rank, (item_id, score) in enumerate(sorted(ranked.items(), key=lambda one: -one[1]), 1)
        ]
        for leg, ranked in scores.items()
    }


@settings(max_examples=120, deadline=None)
@given(LISTS, st.one_of(FUSED, UNITED), st.integers(1, 10))
def test_scores_without_parts_are_those_with_parts(
    scores: dict[str, dict[str, float]], profile: Profile, limit: int
) -> None:
    """To the last bit and in the same order, of one leg or several, with a least score or without."""
    found = candidates_of(scores)
    candidates = Found(found, Path.EXACT, 0)
    explained = ranking(candidates, profile, limit)
    assert ranked_scores(candidates, profile, limit) == [(one.item_id, one.score) for one in explained]
    weights = profile.weights_of(found)
    fused = fuse(found, weights, profile.fusion)
    assert fused_scores(found, weights, profile.fusion) == [(one.item_id, one.score) for one in fused]
    assert fused_ids(found, weights, profile.fusion) == [one.item_id for one in fused]
