"""Replay: a ranking follows from its record, or the reason why not; and differences to today by item."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from retrieval.domain.items.item import Item, StoredItem
from retrieval.domain.records.recorded import RecordedSearch, recorded_search
from retrieval.domain.records.slate import Placed, Slot
from retrieval.domain.search.diversity import Diversity
from retrieval.domain.search.profile import Fusion, FusionKind, Profile
from retrieval.domain.search.profile_parts import Combination, Learned, Recording
from retrieval.engine.record import DecisionRecord
from retrieval.engine.replay import Difference, differences, why_not_reproduced
from retrieval.learning.learned_model import LearnedModel, LearnedReward
from retrieval.learning.stack import LogitStack
from tests.support.recording import MOMENT, SCORES, answered_search

OLD = StoredItem(
    item=Item(item_id="a"), version="", created_at=MOMENT - timedelta(days=9), updated_at=MOMENT - timedelta(days=8)
)
ALL_OLD = dict.fromkeys("abcdef", OLD)
SUM = Profile(legs={"dense": 0.6, "lexical": 0.4}, fusion=Fusion(kind=FusionKind.WEIGHTED_SUM))


def _record(profile: Profile | None = None, **more: Any) -> RecordedSearch:
    """A record as it is read."""
    return recorded_search(answered_search(profile=profile, **more).record(), profile or Profile())


@pytest.mark.parametrize("profile", [Profile(), SUM, Profile(legs={"lexical": 3.0, "dense": 0.1})])
def test_a_ranking_follows_from_its_record(profile: Profile) -> None:
    """By rank and by score, weighted and not; also where the pool holds but the best candidates."""
    small = replace(profile, recording=Recording(pool=3))
    for candidate in (profile, small):
        assert why_not_reproduced(_record(candidate), candidate) == ()
    lone = replace(profile, legs={"dense": 1.0})
    assert why_not_reproduced(_record(lone, scores={"dense": SCORES["dense"]}), lone) == ()


def test_another_profile_does_not_reproduce_it() -> None:
    """The first signal that comes out differently is named."""
    reasons = why_not_reproduced(_record(), SUM)
    assert reasons[0].startswith("the score of c was recorded as 0.0322")


def test_a_missing_profile_is_named() -> None:
    """Nothing can be computed without it."""
    assert why_not_reproduced(_record(), None) == ("profile v1 is no longer stored",)


def test_a_pool_that_is_too_small_is_named() -> None:
    """The hits cannot be ranked among candidates that were not kept."""
    profile = Profile(recording=Recording(pool=1))
    assert "recording.pool is too small" in why_not_reproduced(_record(profile), profile)[0]
    nothing = _record(Profile(recording=Recording(pool=0)), scores={"dense": {}})
    assert why_not_reproduced(nothing, Profile()) == ()


def test_hits_in_another_order_are_named() -> None:
    """With the place, unless their scores are equal."""
    search = _record()
    first, second, third = search.impressions
    swapped = [replace(second, rank=1), replace(first, rank=2), third]
    reasons = why_not_reproduced(replace(search, impressions=swapped), Profile())
    assert reasons == ("a was shown at rank 1, where c belongs",)


def test_diverse_hits_may_stand_in_an_order_of_their_own() -> None:
    """Their scores are held to the record, their places are not."""
    profile = Profile(diversity=Diversity(relevance_share=0.5))
    search = _record(profile)
    first, second, third = search.impressions
    diverse = replace(search, impressions=[first, replace(third, rank=2), replace(second, rank=3)])
    assert why_not_reproduced(diverse, profile) == ()


def test_a_better_candidate_that_was_not_shown_is_named() -> None:
    """It can only have been removed while the search ran."""
    search = _record()
    without = replace(
        search,
        impressions=[replace(impression, rank=rank) for rank, impression in enumerate(search.impressions[1:], 1)],
    )
    full = replace(without, hits=2, request={**search.request, "limit": 2})
    assert why_not_reproduced(full, Profile()) == ("c was skipped: it was removed while the search ran",)


def test_learned_rewards_are_added_again() -> None:
    """From the relevance, on a scale from 0 to 1, and the learned reward that was recorded."""
    learned = {"c": 0.9, "a": 0.2, "b": 0.5}
    relevant = {"c": 0.4, "a": 0.6, "b": 0.6 * 8 / 9}  # c is last in the dense leg: 0.5 of 0.9
    relevant["c"] += 0.6 * 5 / 9
    scores = {name: 0.25 * relevant[name] + 0.75 * learned[name] for name in learned}
    profile = replace(SUM, learned=Learned(share=0.75))
    search = _record(profile, decision=DecisionRecord(model_version=4, scores=scores, signals={"learned": learned}))
    impressions = [replace(impression, score=scores[impression.item_id]) for impression in search.impressions]
    impressions.sort(key=lambda impression: -impression.score)
    search = replace(
        search, impressions=[replace(impression, rank=rank) for rank, impression in enumerate(impressions, 1)]
    )
    assert why_not_reproduced(search, profile) == ()
    wrong = replace(profile, learned=Learned(share=0.5))
    assert why_not_reproduced(search, wrong)[0].startswith("the score of c was recorded as 0.")


def test_a_stack_needs_its_model() -> None:
    """Without the model it is reported; with it the scores are summed again and compared."""
    profile = replace(SUM, learned=Learned(combination=Combination.LOGIT_STACK))
    logits = {"a": 0.0, "b": 1.0, "c": -1.0, "d": 0.5}
    relevant = dict(zip(*(_record(SUM).pool_items, _record(SUM).pool_signals["scaled"]), strict=True))
    scores = {
        item_id: 3 * relevant[item_id] + 0.5 * logits[item_id] + 2 * (0.5 if item_id == "b" else 0)
        for item_id in logits
    }
    signals: dict[str, dict[str, float | None]] = {
        "learned": dict.fromkeys(logits, 0.5), "logit_mean": {**logits},
        "affinity": {**dict.fromkeys(logits, 0.0), "b": 0.5}, "length": dict.fromkeys(logits, 0.0),
    }  # fmt: skip
    search = _record(profile, decision=DecisionRecord(model_version=4, scores=scores, signals=signals))
    ordered = sorted(scores, key=lambda item_id: -scores[item_id])[:3]
    impressions = [
        replace(search.impressions[0], item_id=item_id, rank=n, score=scores[item_id])
        for n, item_id in enumerate(ordered, 1)
    ]
    search = replace(search, impressions=impressions)
    stack = LogitStack(weights={"relevance": 3.0, "learned": 0.5, "affinity": 2.0})
    model = LearnedModel(
        version=4, reward=LearnedReward(), by_item=LearnedReward(), stack=stack, passed=frozenset(Combination)
    )
    assert why_not_reproduced(search, profile) == ("model v4 is no longer stored: its scores cannot be computed",)
    assert why_not_reproduced(search, profile, model) == ()
    other = replace(model, stack=replace(stack, intercept=1.0, weights={**stack.weights, "learned": 0.6}))
    assert why_not_reproduced(search, profile, other)[0].startswith("the score of ")


def test_explored_hits_need_not_follow_their_score() -> None:
    """The other hits are."""
    slate = [Placed("a", Slot.EXPLORE, 0.5, 0.5)]
    assert why_not_reproduced(_record(slate=slate), Profile()) == ()


def _by_id(differences_found: tuple[Difference, ...]) -> dict[str, Difference]:
    return {difference.item_id: difference for difference in differences_found}


def test_the_same_answer_has_no_differences() -> None:
    """Identifier and time do not matter."""
    assert differences(_record(), _record(ms=1), ALL_OLD) == ((), ())


def test_changes_of_the_whole_search_are_listed_once() -> None:
    """Profile, model, policy, path and legs."""
    now = _record(profile_version=2, decision=DecisionRecord(model_version=1, policy="thompson_slots/1"))
    then = replace(_record(scores={"dense": SCORES["dense"]}), path="approximate")
    assert differences(then, now, ALL_OLD)[0] == (
        "profile v1 answered then, v2 does now",
        "learned model v0 counted then, v1 does now",
        "exploration was off/1, and is thompson_slots/1",
        "the dense leg took another path: approximate then, exact now",
        "the lexical leg did not run then",
    )


def test_each_item_says_why_it_moved() -> None:
    """Removed, new, changed, archived, another score in a leg, another rank, or pushed by others."""
    now = _record(scores={"dense": {"e": 0.95, "b": 0.8, "a": 0.7}, "lexical": {"f": 9.0, "d": 3.0}})
    new, changed = (
        replace(OLD, created_at=MOMENT + timedelta(days=1), updated_at=MOMENT + timedelta(days=1)),
        replace(OLD, updated_at=MOMENT + timedelta(days=1)),
    )
    by_id = _by_id(differences(_record(), now, {"a": changed, "b": OLD, "e": new, "f": OLD})[1])
    assert by_id["c"].why == ("the item was removed",)
    assert (by_id["c"].rank_then, by_id["c"].rank_now, by_id["c"].score_now) == (1, None, None)
    assert by_id["e"].why == ("the item is new", "dense rank beyond the pool then, 1 now")
    assert by_id["a"].why == ("the item was changed", "dense score 0.9000 then, 0.7000 now")
    assert by_id["f"].why == ("lexical rank beyond the pool then, 1 now",)


def test_archived_items_are_distinguished_from_changed_ones() -> None:
    """Both were written since."""
    archived = replace(OLD, item=Item(item_id="a", status="archived"), updated_at=MOMENT + timedelta(days=1))
    now = _record(scores={"dense": {"b": 0.8, "c": 0.5}, "lexical": SCORES["lexical"]})
    by_id = _by_id(differences(_record(), now, {**ALL_OLD, "a": archived})[1])
    assert by_id["a"].why[0] == "the item was archived"
    assert by_id["b"].why == ("dense rank 2 then, 1 now",)


def test_exploration_is_a_reason_for_a_difference() -> None:
    """The reason tells a draw of the record from a draw of the replay."""
    then = _record(slate=[Placed("b", Slot.EXPLORE, 0.5, 0.5)])
    then = replace(then, impressions=[replace(impression, rank=impression.rank + 1) for impression in then.impressions])
    now = _record(slate=[Placed("a", Slot.SWAP, 1.0, 0.5)])
    by_id = _by_id(differences(then, now, ALL_OLD)[1])
    assert by_id["b"].why == ("exploration drew it then",)
    assert by_id["a"].why == ("exploration swapped it now",)
    assert by_id["c"].why == ("other items moved",)


def test_an_item_that_only_the_profile_moved_says_so() -> None:
    """Its own scores and ranks are the same."""
    moved = differences(_record(), _record(SUM, profile_version=2), ALL_OLD)[1]
    assert {difference.why for difference in moved} == {("the profile was changed",)}
