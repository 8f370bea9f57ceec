"""Relevance and learned reward as one score: on one scale, in parts that add up, in an order that is settled."""

from __future__ import annotations

import pytest

from retrieval.adapters.store.search.candidates import LegResults
from retrieval.domain.learning.arm import Arm, ItemArms
from retrieval.domain.search.fusion import Candidate, Fused, fuse
from retrieval.domain.search.hit import Path
from retrieval.domain.search.profile import Fusion, FusionKind, Profile
from retrieval.domain.search.profile_parts import Combination, Learned
from retrieval.engine.ranking import leg_features, relevances
from retrieval.engine.scoring import Pool, combined, predictions
from retrieval.learning.learned_model import LearnedModel, learn
from retrieval.learning.stack import AFFINITY, LogitStack, affinity_signal

RANKINGS = {
    "dense": [Candidate("dense", "a", 1, 0.9), Candidate("dense", "b", 2, 0.6), Candidate("dense", "c", 3, 0.3)],
    "lexical": [Candidate("lexical", "b", 1, 8.0), Candidate("lexical", "d", 2, 2.0)],
}
FOUND = LegResults(rankings=RANKINGS, path=Path.EXACT, weighed=3)


def _profile(kind: FusionKind) -> Profile:
    return Profile(legs={"dense": 0.6, "lexical": 0.4}, fusion=Fusion(kind=kind))


@pytest.mark.parametrize("kind", [FusionKind.RRF, FusionKind.WEIGHTED_SUM])
def test_relevance_keeps_the_order_of_the_fusion_and_ends_at_one(kind: FusionKind) -> None:
    """The best possible score is 1 for any fusion."""
    profile = _profile(kind)
    ranked = fuse(RANKINGS, profile.legs, profile.fusion)
    values = relevances(ranked, FOUND, profile)
    assert values == sorted(values, reverse=True)
    assert 0 <= values[-1] < values[0] <= 1


def test_of_one_leg_relevance_is_the_share_of_its_best_score() -> None:
    """Its other features are not used."""
    alone = LegResults(rankings={"dense": RANKINGS["dense"]}, path=Path.EXACT, weighed=3)
    ranked = [Fused(candidate.item_id, candidate.score, ()) for candidate in RANKINGS["dense"]]
    assert relevances(ranked, alone, _profile(FusionKind.RRF)) == pytest.approx([1.0, 2 / 3, 1 / 3])
    assert leg_features(ranked, alone) == {}


def test_an_item_that_a_leg_did_not_bring_has_nothing_from_it() -> None:
    """Its feature is 0."""
    ranked = [Fused(item, 0.0, ()) for item in "abcd"]
    features = leg_features(ranked, FOUND)
    assert features["dense"] == pytest.approx([1.0, 2 / 3, 1 / 3, 0.0])
    assert features["lexical"] == pytest.approx([0.0, 1.0, 0.0, 0.25])


def test_a_leg_that_found_nothing_gives_nothing() -> None:
    """Its best score and its lowest are equal, and no item gets the maximum for that."""
    leg_results = LegResults(rankings={"dense": RANKINGS["dense"], "lexical": []}, path=Path.EXACT, weighed=3)
    ranked = [Fused(item, 0.0, ()) for item in "abc"]
    assert leg_features(ranked, leg_results)["lexical"] == [0.0, 0.0, 0.0]


def _pool() -> Pool:
    profile = _profile(FusionKind.WEIGHTED_SUM)
    ranked = fuse(RANKINGS, profile.legs, profile.fusion)
    return Pool(
        ranked=ranked,
        relevance=relevances(ranked, FOUND, profile),
        legs=leg_features(ranked, FOUND),
        arms=[ItemArms(item_id=hit.item_id, arms={"": Arm(9.0, 1.0)} if hit.item_id == "d" else {}) for hit in ranked],
        beside={AFFINITY: affinity_signal([0.9 if hit.item_id == "c" else 0.0 for hit in ranked])},
        buckets=("",),
    )


def _model() -> LearnedModel:
    reward = learn(
        (), [ItemArms(item_id="d", arms={"": Arm(9.0, 1.0)}), ItemArms(item_id="x", arms={"": Arm(1.0, 9.0)})]
    )
    stack = LogitStack(weights={"relevance": 3.0, "learned": 0.5, "affinity": 5.0})
    return LearnedModel(version=1, reward=reward, by_item=reward, stack=stack, passed=frozenset(Combination))


@pytest.mark.parametrize("combination", [Combination.SUM, Combination.LOGIT_STACK])
def test_the_parts_of_a_score_add_up(combination: Combination) -> None:
    """Also where legs, learned reward and affinity share it."""
    pool, model = _pool(), _model()
    predicted = predictions(pool, model, combination)
    scored = combined(pool, model.stack, Learned(combination=combination), predicted)
    for place, score in enumerate(scored.scores):
        assert score == pytest.approx(scored.fused(pool, place).score)
        assert score == pytest.approx(sum(part.value for part in scored.parts(place)))


def test_the_sum_is_four_tenths_relevance_and_six_tenths_learned_reward() -> None:
    """On one scale from 0 to 1; an item that earned much overtakes."""
    pool, model = _pool(), _model()
    predicted = predictions(pool, model, Combination.SUM)
    scored = combined(pool, model.stack, Learned(), predicted)
    for score, relevance, mean in zip(scored.scores, pool.relevance, predicted.mean, strict=True):
        assert score == pytest.approx(0.4 * relevance + 0.6 * mean)
    places = {pool.ranked[place].item_id: rank for rank, place in enumerate(scored.order(pool))}
    assert places["d"] < places["c"]


def test_the_stack_counts_how_near_a_query_is_to_those_that_were_rewarded() -> None:
    """An item that helped with a question like this one comes first."""
    pool, model = _pool(), _model()
    predicted = predictions(pool, model, Combination.LOGIT_STACK)
    scored = combined(pool, model.stack, Learned(combination=Combination.LOGIT_STACK), predicted)
    affinity = {
        hit.item_id: part.value
        for place, hit in enumerate(pool.ranked)
        for part in scored.parts(place)
        if part.leg == "affinity"
    }
    assert affinity == pytest.approx({"a": 0.0, "b": 0.0, "c": 5.0 * 0.4, "d": 0.0})
