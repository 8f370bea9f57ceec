"""Recorded candidates under another profile: their order as the fusion gives it, and the slate it would show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.domain.records.recorded import RecordedPool
from retrieval.domain.search.diversity import Diversity, Refining
from retrieval.domain.search.fusion import Candidate, fuse
from retrieval.domain.search.profile import Fusion, FusionKind, Profile
from retrieval.domain.search.profile_parts import Combination, Exploration, Learned, PolicyName, Recording
from retrieval.domain.search.signals import Recency
from retrieval.engine.target import NamedProfile, Unanswerable, by_relevance, in_order, target_slate, with_learned
from retrieval.learning.learned_model import LearnedModel, LearnedReward
from retrieval.learning.stack import LogitStack
from tests.support.pools import pool_of

SUM = Fusion(kind=FusionKind.WEIGHTED_SUM)
REFINED = Profile(fusion=SUM, refining=Refining(share=0.2))
LEGS = {"dense": {"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.6}, "lexical": {"d": 9.0, "c": 5.0}}
PLAIN = Learned(combination=Combination.OFF)
LEARNED: dict[str, Any] = {"learned": [0.5, 0.5, 0.4, 0.9], "effective_sample_size": [24.0] * 4}
COUNTED: dict[str, Any] = {"eligible": [1.0] * 4, "uses": [2.0] * 4, "raw_successes": [1.0, 1.0, 0.0, 2.0]}
LOGITS: dict[str, Any] = {**LEARNED, "logit_mean": [0.0, 0.0, -0.4, 2.2]}
STACKED = Profile(learned=Learned(combination=Combination.LOGIT_STACK))
DRAWN: dict[str, Any] = {**LOGITS, **COUNTED, "propensity": [1.0, 0.3, 0.3, 0.4]}
BONUS = Exploration(policy=PolicyName.UNCERTAINTY_BONUS, rate=1.0, floor=0.3)
THOMPSON = Exploration(policy=PolicyName.THOMPSON_SLOTS, floor=0.3)


def named_profile(profile: Profile, version: int | None = None) -> NamedProfile:
    """The profile under some name."""
    return NamedProfile(name="target", profile=profile, version=version)


def test_without_exploration_the_best_are_shown_for_certain() -> None:
    """As many as were asked for."""
    assert target_slate(pool_of(LEGS, limit=3), named_profile(Profile(legs={"dense": 1.0}))) == {
        "a": 1.0,
        "b": 1.0,
        "c": 1.0,
    }
    assert target_slate(pool_of(LEGS), named_profile(Profile(legs={"lexical": 1.0}))) == {"d": 1.0, "c": 1.0}


def test_a_profile_that_shows_nothing_has_no_slate() -> None:
    """Its leg ran and found nothing."""
    pool = pool_of({"dense": {"a": 0.9}, "lexical": {}})
    assert target_slate(pool, named_profile(Profile(legs={"lexical": 1.0}))) is Unanswerable.EMPTY


def test_the_version_that_answered_showed_what_it_showed() -> None:
    """Its candidates are not ranked again, even if they cannot be."""
    grouped = pool_of({}, is_grouped=True, shown={"x": 1.0, "y": 1.0}, profile_version=3)
    assert target_slate(grouped, named_profile(Profile(), version=3)) == {"x": 1.0, "y": 1.0}
    pool = pool_of(LEGS, **DRAWN, shown={"a": 1.0, "d": 0.4}, profile_version=3)
    assert target_slate(pool, named_profile(Profile(), version=3)) == {"a": 1.0, "b": 0.3, "c": 0.3, "d": 0.4}


def test_under_a_least_score_only_what_was_certain_is_known() -> None:
    """Hits below it were drawn and not shown, so the recorded chances are not those of being shown."""
    own = named_profile(Profile(), version=3)
    pool = pool_of(LEGS, shown={"a": 1.0}, profile_version=3, has_least=True)
    assert target_slate(pool, own) == {"a": 1.0}
    drawn = pool_of(LEGS, **DRAWN, shown={"a": 1.0}, profile_version=3, has_least=True)
    assert target_slate(drawn, own) is Unanswerable.LEAST


def test_a_profile_with_a_least_score_shows_no_candidate_below_it() -> None:
    """As in a search by it."""
    profile = Profile(
        legs={"dense": 1.0}, signals=(Recency(weight=1.0),), fusion=Fusion(kind=FusionKind.UNION), min_score=0.5
    )
    pool = pool_of({"dense": LEGS["dense"], "recency": {"a": 0.1, "b": 0.2, "c": 0.9, "d": 0.5}}, limit=4)
    every = in_order(by_relevance(pool, replace(profile, min_score=None)) or [])
    enough = by_relevance(pool, profile) or []
    assert 0 < len(enough) < len(every)
    assert [hit.item_id for hit in in_order(enough)] == [hit.item_id for hit in every if hit.score >= 0.5]


def test_a_calls_own_profile_is_nobodys_version() -> None:
    """Version 0 is not a version: such a search is ranked again like any other."""
    pool = pool_of(LEGS, profile_version=0, shown={"x": 1.0})
    assert target_slate(pool, named_profile(Profile(legs={"dense": 1.0}))) == {"a": 1.0, "b": 1.0}


@pytest.mark.parametrize(
    ("changed", "profile", "reason"),
    [
        ({"shown": {}}, Profile(), Unanswerable.NO_HITS),
        ({"item_ids": [], "scores": {}}, Profile(), Unanswerable.NO_POOL),
        ({"is_grouped": True}, Profile(), Unanswerable.GROUPED),
        ({"has_least": True}, Profile(), Unanswerable.LEAST),
        ({}, Profile(diversity=Diversity(collapse_above=0.9)), Unanswerable.DIVERSE),
        ({}, REFINED, Unanswerable.REFINED),
        ({"profile": Profile(fusion=SUM, depth=20)}, REFINED, Unanswerable.REFINED),
        ({"scores": {"dense": [0.9, 0.8, 0.7, 0.6]}}, Profile(), Unanswerable.NO_LEG),
        (LEARNED, Profile(learned=Learned(combination=Combination.LOGIT_STACK)), Unanswerable.LEARNED),
        ({}, Profile(exploration=THOMPSON), Unanswerable.NO_ELIGIBLE),
        (LOGITS, Profile(exploration=THOMPSON), Unanswerable.NO_ELIGIBLE),
        ({"learned": [0.5] * 4, **COUNTED}, Profile(exploration=THOMPSON), Unanswerable.NO_ELIGIBLE),
        ({"learned": [0.5] * 4, **COUNTED}, Profile(exploration=BONUS), Unanswerable.NO_ELIGIBLE),
        (LEARNED, Profile(learned=PLAIN, exploration=BONUS), Unanswerable.NO_ELIGIBLE),
        (
            {**COUNTED, "uses": [9.0] * 4, "profile": None},
            Profile(legs={"lexical": 1.0}, depth=2, exploration=THOMPSON),
            Unanswerable.NO_ELIGIBLE,
        ),
        ({}, Profile(synonyms=(("db", "database"),)), Unanswerable.SYNONYMS),
        ({"profile": None}, Profile(), Unanswerable.SHORT),
        ({"profile": Profile(depth=2)}, Profile(), Unanswerable.SHORT),
        ({"profile": Profile(recording=Recording(pool=4)), "limit": 9}, Profile(), Unanswerable.SHORT),
        ({"profile": Profile(depth=2)}, Profile(fusion=SUM, depth=2), Unanswerable.UNSCORED),
    ],
)
def test_missing_facts_of_a_record_are_not_guessed(
    changed: dict[str, Any], profile: Profile, reason: Unanswerable
) -> None:
    """The reason is given instead."""
    assert target_slate(pool_of(LEGS, **changed), named_profile(profile)) is reason


Found = dict[str, list[Candidate]]
MANY = st.dictionaries(st.sampled_from("abcdefghij"), st.integers(1, 30).map(float), min_size=1, max_size=10)
PROFILES = st.builds(
    lambda kind, depth, weight, legs, pool: Profile(
        legs={name: weight if name == "dense" else 1.0 for name in legs},
        fusion=Fusion(kind=kind),
        depth=depth,
        learned=PLAIN,
        recording=Recording(pool=pool),
    ),
    st.sampled_from([FusionKind.RRF, FusionKind.WEIGHTED_SUM]),
    st.integers(1, 8),
    st.floats(0.1, 3),
    st.sampled_from([("dense", "lexical")] * 3 + [("dense",)]),
    st.integers(1, 12),
)


def found_by(legs: Mapping[str, Mapping[str, float]], profile: Profile, limit: int) -> tuple[Found, dict[str, int]]:
    """What a search by the profile fuses, and the number that each leg brought; a sum scores all in both legs."""
    depth = max(profile.depth, limit) if len(profile.legs) > 1 else limit
    brought = {leg: ranking[:depth] for leg, ranking in rankings(legs).items() if leg in profile.legs}
    counts = {leg: len(ranking) for leg, ranking in brought.items()}
    if len(brought) == 1 or profile.fusion.kind is FusionKind.RRF:
        return brought, counts
    items = {candidate.item_id for ranking in brought.values() for candidate in ranking}
    scored = {leg: {item: score for item, score in legs[leg].items() if item in items} for leg in brought}
    return rankings(scored), counts


@given(MANY, MANY, PROFILES, PROFILES, st.integers(1, 4))
def test_a_slate_is_that_of_a_search_by_the_profile_or_not_given(
    dense: dict[str, float], lexical: dict[str, float], then: Profile, target: Profile, limit: int
) -> None:
    """Whatever the depth and the fusion of both, and however few candidates were recorded."""
    legs = {"dense": dense, "lexical": lexical}
    found, counts = found_by(legs, then, limit)
    items = [candidate.item_id for candidate in fuse(found, then.legs, then.fusion, limit=then.recording.pool)]
    by_leg = {leg: {candidate.item_id: candidate for candidate in ranking} for leg, ranking in found.items()}
    pool = pool_of(
        {}, item_ids=items, limit=limit, profile=then, shown=dict.fromkeys(items[:limit], 1.0),
        scores={leg: [own[item].score if item in own else None for item in items] for leg, own in by_leg.items()},
        ranks={
            leg: [own[item].rank if item in own and own[item].rank <= counts[leg] else None for item in items]
            for leg, own in by_leg.items()
        },
        bests={leg: ranking[0].score for leg, ranking in found.items()},
    )  # fmt: skip
    slate = target_slate(pool, named_profile(target))
    real = fuse(found_by(legs, target, limit)[0], target.legs, target.fusion)
    assert isinstance(slate, Unanswerable) or list(slate) == [candidate.item_id for candidate in real[:limit]]
    if target == then and limit <= then.recording.pool:
        assert not isinstance(slate, Unanswerable)


def test_a_leg_brings_no_more_than_the_profiles_depth() -> None:
    """Whatever the recorded search brought: the fourth of one leg gains nothing from it."""
    pool = pool_of(LEGS, limit=1, profile=Profile(fusion=SUM))
    assert target_slate(pool, named_profile(Profile(depth=4))) == {"d": 1.0}
    assert target_slate(pool, named_profile(Profile(depth=1))) == {"a": 1.0}


def test_an_exploring_profile_shows_by_chance() -> None:
    """The probabilities of its slate add up to the number of places, reproducibly; other places are certain."""
    target = named_profile(Profile(legs={"dense": 1.0}, learned=Learned(share=0.9), exploration=THOMPSON))
    slate = target_slate(pool_of(LEGS, **DRAWN), target)
    assert not isinstance(slate, Unanswerable)
    assert slate == target_slate(pool_of(LEGS, **DRAWN), target)
    assert slate["d"] == 1.0
    assert sum(slate.values()) == pytest.approx(2)
    assert all(chance >= 0.3 / 4 for chance in slate.values())


def test_a_bonus_raises_what_is_uncertain() -> None:
    """The floor includes the others; without learned rewards, the uses decide."""
    plain = Profile(legs={"dense": 1.0}, learned=PLAIN, exploration=BONUS)
    even, used = (pool_of(LEGS, **LEARNED, **{**COUNTED, "uses": uses}) for uses in ([2.0] * 4, [900.0, 900.0, 0, 0]))
    assert target_slate(even, named_profile(plain)) == pytest.approx({"a": 1.0, "b": 0.8, "c": 0.1, "d": 0.1})
    assert target_slate(used, named_profile(plain)) == pytest.approx({"c": 1.0, "a": 0.8, "b": 0.1, "d": 0.1})
    uncertain = pool_of(LEGS, learned=[0.5] * 4, effective_sample_size=[1e6, 1e6, 1e6, 0.1])
    summed = Profile(legs={"dense": 1.0}, learned=Learned(share=0.9), exploration=BONUS)
    assert target_slate(uncertain, named_profile(summed)) == pytest.approx({"d": 1.0, "a": 0.8, "b": 0.1, "c": 0.1})


@pytest.mark.parametrize(
    ("uses", "eligible", "fewer", "days", "expected"),
    [
        (3.0, 1.0, 5, 30.0, True),  # rarely used
        (9.0, 1.0, 5, 30.0, True),  # younger than seven days, so younger than thirty
        (9.0, 1.0, 5, 2.0, None),
        (9.0, 0.0, 5, 2.0, False),  # not younger than seven days, so not younger than two
        (9.0, 0.0, 5, 30.0, None),
        (3.0, 1.0, 2, 7.0, None),  # eligible by its uses: its age is unknown
        (3.0, 1.0, 2, 0.0, False),
    ],
)
def test_eligibility_by_other_bounds_is_derived_where_possible(
    uses: float, eligible: float, fewer: int, days: float, *, expected: bool | None
) -> None:
    """Eligibility follows from the uses, or from an age outside both limits; otherwise it is unknown."""
    columns = {"eligible": [eligible] * 4, "uses": [uses] * 4, "raw_successes": [1.0] * 4}
    pool = pool_of(LEGS, **columns)
    target = replace(THOMPSON, fewer_uses_than=fewer, younger_than_days=days)
    slate = target_slate(pool, named_profile(Profile(legs={"dense": 1.0}, exploration=target)))
    if expected is None:
        assert slate is Unanswerable.NO_ELIGIBLE
    else:
        assert not isinstance(slate, Unanswerable)
        assert (len(slate) == 4) == expected


def test_a_stack_is_summed_by_the_model_of_the_search() -> None:
    """The model must have passed its trial; a sum uses a stack's rewards only if they are the same for both."""
    stack = Profile(legs={"dense": 1.0}, learned=Learned(combination=Combination.LOGIT_STACK))
    weights = LogitStack(weights={"relevance": 0.1, "learned": 1.0})
    model = LearnedModel(
        version=1, reward=LearnedReward(), by_item=LearnedReward(), stack=weights, passed=frozenset(Combination)
    )
    beside: dict[str, Any] = {"affinity": [0.0] * 4, "length": [0.0] * 4}
    pool = pool_of(LEGS, **LOGITS, **beside, profile=STACKED, model_version=1)
    assert target_slate(pool, named_profile(stack), model) == {"d": 1.0, "a": 1.0}
    assert target_slate(pool, named_profile(stack)) is Unanswerable.LEARNED
    summed, other = Profile(legs={"dense": 1.0}), replace(model, reward=LearnedReward(events=5))
    assert target_slate(pool, named_profile(summed), model) == {"d": 1.0, "a": 1.0}
    assert target_slate(pool, named_profile(summed), other) is Unanswerable.LEARNED
    assert target_slate(pool, named_profile(stack), replace(model, passed=frozenset())) == {"a": 1.0, "b": 1.0}


def test_a_stack_needs_only_what_it_weighs() -> None:
    """Without weights for rewards it is summed without them, and says nothing about a sum."""
    profile = Profile(legs={"dense": 1.0}, learned=Learned(combination=Combination.LOGIT_STACK))
    weights = LogitStack(weights={"relevance": 1.0, "length": 1.0})
    model = LearnedModel(
        version=1, reward=LearnedReward(), by_item=LearnedReward(), stack=weights, passed=frozenset(Combination)
    )
    beside: dict[str, Any] = {"affinity": [0.0] * 4, "length": [0.0, 0.0, 2.0, 1.0]}
    pool = pool_of(LEGS, **beside, profile=STACKED, model_version=1)
    assert target_slate(pool, named_profile(profile), model) == {"c": 1.0, "d": 1.0}
    assert target_slate(pool, named_profile(Profile(legs={"dense": 1.0})), model) is Unanswerable.LEARNED
    items = replace(model, stack=replace(weights, weights={**weights.weights, "learned": 1.0}))
    assert target_slate(pool, named_profile(profile), items) is Unanswerable.LEARNED


def ranked(pool: RecordedPool, profile: Profile) -> dict[str, float]:
    """Items with their scores, best first."""
    return {candidate.item_id: candidate.score for candidate in in_order(by_relevance(pool, profile) or [])}


SCORES = st.dictionaries(st.sampled_from("abcdefg"), st.integers(-20, 100).map(float), max_size=7)


def rankings(legs: Mapping[str, Mapping[str, float]]) -> dict[str, list[Candidate]]:
    """Each leg's candidates, best first."""
    by_leg = {}
    for leg, scores in legs.items():
        ordered = sorted((-score, item) for item, score in scores.items())
        by_leg[leg] = [Candidate(leg, item, rank, -negative) for rank, (negative, item) in enumerate(ordered, 1)]
    return by_leg


@given(SCORES, SCORES, st.sampled_from([FusionKind.RRF, FusionKind.WEIGHTED_SUM]), st.floats(0.1, 3))
def test_the_order_is_that_of_fusion(
    dense: dict[str, float], lexical: dict[str, float], kind: FusionKind, weight: float
) -> None:
    """The same items in the same order with the same scores, whatever the fusion."""
    legs = {"dense": dense, "lexical": lexical}
    profile = Profile(legs={"dense": 1.0, "lexical": weight}, fusion=Fusion(kind=kind))
    expected = [
        (candidate.item_id, candidate.score) for candidate in fuse(rankings(legs), profile.legs, profile.fusion)
    ]
    ranking = ranked(pool_of(legs), profile)
    assert list(ranking.values()) == pytest.approx([score for _, score in expected])
    assert ranking == pytest.approx(dict(expected))


def test_one_leg_has_its_own_scores() -> None:
    """As in a search that one leg answers."""
    pool = pool_of({"dense": {"a": 0.5, "b": 0.9}, "lexical": {"c": 3.0}})
    assert list(ranked(pool, Profile(legs={"dense": 2.0})).items()) == [("b", 0.9), ("a", 0.5)]


def test_a_leg_that_was_not_recorded_leaves_it_open() -> None:
    """Its candidates are unknown; a leg with weight 0 is not needed."""
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
    """0.4 × relevance, from 0 to 1, + 0.6 × the recorded reward; an item without a reward was not a candidate."""
    pool = pool_of(
        {"dense": {"a": 0.8, "b": 0.4, "c": 0.2}}, learned=[0.1, 0.9, None], effective_sample_size=[24.0, 8.0, None]
    )
    candidates = by_relevance(pool, Profile(legs={"dense": 1.0})) or []
    draws = in_order(with_learned(candidates, pool, Learned(), None) or [])
    assert [(draw.item_id, draw.contender.uncertainty) for draw in draws] == [("b", 1 / 6), ("a", 0.1)]
    assert [draw.score for draw in draws] == pytest.approx([0.4 * 0.5 + 0.6 * 0.9, 0.4 + 0.6 * 0.1])
    assert with_learned(candidates, pool, Learned(combination=Combination.OFF), None) == candidates
    assert with_learned(candidates, pool, Learned(combination=Combination.LOGIT_STACK), None) is None


def test_where_nothing_learned_counted_nothing_does() -> None:
    """The combination does not matter."""
    pool = pool_of({"dense": {"a": 0.8}})
    candidates = by_relevance(pool, Profile(legs={"dense": 1.0})) or []
    for combination in Combination:
        assert with_learned(candidates, pool, Learned(combination=combination), None) == candidates
