"""Comparing profiles on recorded searches: the verdict, and when there is none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest

from retrieval import Platform, Profile
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.installation.opening import ensure_tenant
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.records.retrievals import read_pools
from retrieval.adapters.store.search.vectors import read_pool_vectors
from retrieval.domain.errors import InvalidProfileError, InvalidRequestError, NotFoundError
from retrieval.domain.learning.off_policy import Estimator
from retrieval.domain.records.recorded import RecordedPool
from retrieval.domain.search.diversity import Refining
from retrieval.domain.search.profile import Fusion, FusionKind
from retrieval.domain.search.profile_parts import Combination, Learned, Recording
from retrieval.engine.target import NamedProfile, Unanswerable, target_slate
from retrieval.services.compare import ProfileComparison, compare_profiles, named_profile
from tests.support.recorded import Feedback, Impression, Recorded, record

SINCE = datetime(2026, 3, 1, tzinfo=UTC)
KINDS = (FusionKind.RRF, FusionKind.WEIGHTED_SUM)
WORTH = {"a": 0.1, "b": 0.2, "c": 0.7, "d": 0.8}
LEGS = {"dense": {"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.6}, "lexical": {"d": 9.0, "c": 8.0, "b": 2.0, "a": 1.0}}
BEST = NamedProfile(name="best", profile=Profile(legs={"lexical": 1.0}))
WORST = NamedProfile(name="worst", profile=Profile(legs={"dense": 1.0}))


def explored(searches: int) -> list[Recorded]:
    """Two of four items by a fair draw; most shown items are rated, by their true values."""
    rng, traffic = np.random.default_rng(11), []
    for number in range(searches):
        items = rng.choice(list(WORTH), size=2, replace=False).tolist()
        hits = [Impression(item, 0.5, _events(WORTH[item], rng)) for item in items]
        traffic.append(_search(number, hits))
    return traffic


def unexplored(searches: int) -> list[Recorded]:
    """The dense leg's best two, for certain."""
    rng = np.random.default_rng(11)
    return [
        _search(number, [Impression(item, 1.0, _events(WORTH[item], rng)) for item in ("a", "b")])
        for number in range(searches)
    ]


def _search(number: int, hits: Sequence[Impression]) -> Recorded:
    at = SINCE + timedelta(minutes=number)
    return Recorded(retrieved_at=at, shown=hits, legs=LEGS, request={"limit": 2, "group_by": None})


def _events(worth: float, rng: np.random.Generator) -> tuple[Feedback, ...]:
    return (Feedback(float(rng.random() < worth)),) if rng.random() < 0.8 else ()


async def prepare(platform: Platform, searches: Sequence[Recorded]) -> StoredCollection:
    """A collection with those searches, answered by its profile 1."""
    stored = await (await platform.collection("docs")).refresh()
    async with platform.database.transaction(platform.tenant_id) as connection:
        await record(connection, stored.collection_id, searches)
    return stored


async def compare_since(
    platform: Platform,
    stored: StoredCollection,
    first: NamedProfile = BEST,
    second: NamedProfile = WORST,
    since: datetime = SINCE,
) -> ProfileComparison:
    """The comparison since a time, by default since all began."""
    return await compare_profiles(platform.database, platform.tenant_id, stored, first, second, since=since)


async def test_the_better_profile_is_found_before_it_was_ever_used(platform: Platform) -> None:
    """Each estimator gives about the true value, and the interval of the difference decides."""
    stored = await prepare(platform, explored(360))
    comparison = await compare_since(platform, stored)
    assert (comparison.searches, comparison.changed, comparison.left_out) == (360, 360, {})
    assert (comparison.verdict.is_conclusive, comparison.verdict.better) == (True, "best")
    assert [(estimate.estimator, estimate.is_clipped) for estimate in comparison.estimates] == [
        (estimator, clipped) for estimator in Estimator for clipped in (False, True)
    ]
    for estimate in comparison.estimates:
        assert estimate.first.low <= 0.75 <= estimate.first.high
        assert estimate.second.low <= 0.15 <= estimate.second.high
    assert all(weighing.unsupported < 0.1 and weighing.is_balanced for weighing in comparison.weighings)
    assert json.loads(json.dumps(comparison.as_dict(), allow_nan=False))["verdict"]["better"] == "best"


async def test_items_that_were_never_shown_allow_no_conclusion(platform: Platform) -> None:
    """Without exploration the other profile's items have no support, and the report says so instead of a verdict."""
    stored = await prepare(platform, unexplored(240))
    comparison = await compare_since(platform, stored)
    assert (comparison.verdict.is_conclusive, comparison.verdict.better) == (False, None)
    assert "best: " in comparison.verdict.text
    assert "100% of what it shows was never possible under the recorded policies" in comparison.verdict.text
    assert "worst: " not in comparison.verdict.text


async def test_little_traffic_is_refused(platform: Platform) -> None:
    """Below an effective sample size of 200, whatever the estimates look like."""
    stored = await prepare(platform, explored(60))
    comparison = await compare_since(platform, stored)
    assert not comparison.verdict.is_conclusive
    assert "below 200: record more traffic" in comparison.verdict.text
    assert comparison.estimates


async def test_the_version_that_answered_is_worth_what_it_earned(platform: Platform) -> None:
    """Its SNIPS estimate, with its own propensities, is the mean reward of its hits."""
    searches = unexplored(240)
    stored = await prepare(platform, searches)
    active = await named_profile(platform.database, platform.tenant_id, stored, "active")
    comparison = await compare_since(platform, stored, active, active)
    rewards = [event.reward for search in searches for hit in search.shown for event in hit.feedback]
    snips = next(estimate for estimate in comparison.estimates if estimate.estimator is Estimator.SNIPS)
    assert snips.first.value == pytest.approx(np.mean(rewards))
    assert (snips.difference.value, snips.difference.standard_error) == (0.0, 0.0)
    assert (comparison.changed, comparison.verdict.better) == (0, None)
    assert "no difference is shown" in comparison.verdict.text


async def test_searches_that_tell_nothing_are_counted_by_reason(platform: Platform) -> None:
    """Grouped, without candidates, hits or the leg, and further pages; neither profile is judged by them."""
    hits = [Impression("a", 0.5, (Feedback(1.0),))]
    odd = [
        Recorded(retrieved_at=SINCE, shown=hits, legs=LEGS, request={"limit": 2, "group_by": "kind"}),
        Recorded(retrieved_at=SINCE, shown=hits),
        Recorded(retrieved_at=SINCE, shown=[], legs=LEGS),
        Recorded(retrieved_at=SINCE, shown=hits, legs=LEGS, request={"limit": 2, "continued": 1}),
        Recorded(retrieved_at=SINCE, shown=hits, legs={"dense": LEGS["dense"]}),
    ]
    comparison = await compare_since(platform, await prepare(platform, [*odd, *explored(3)]))
    assert comparison.searches == comparison.weighings[0].retrievals == 3
    assert comparison.left_out == {
        "it showed the best of each group": 1,
        "no candidates were recorded with it": 1,
        "it showed no hit": 1,
        "it was a further page, whose hits depend on the pages before it": 1,
        "a leg of the profile did not run": 1,
    }


async def test_both_profiles_are_judged_by_the_same_searches(platform: Platform) -> None:
    """A search where one of them shows nothing counts for neither: its rewards are in no value and in no interval."""
    nothing = {"dense": LEGS["dense"], "lexical": dict[str, float]()}
    before = [
        replace(search, legs=nothing, retrieval_id=uuid4(), retrieved_at=search.retrieved_at - timedelta(days=1))
        for search in explored(40)
    ]
    stored = await prepare(platform, [*before, *explored(80)])
    alone = await compare_since(platform, stored)
    comparison = await compare_since(platform, stored, since=SINCE - timedelta(days=1))
    assert (comparison.searches, comparison.left_out) == (80, {"a profile would show no hit": 40})
    assert [weighing.retrievals for weighing in comparison.weighings] == [80, 80]
    for estimate, other in zip(comparison.estimates, alone.estimates, strict=True):
        for one, same in ((estimate.first, other.first), (estimate.second, other.second)):
            assert (one.value, one.standard_error) == pytest.approx((same.value, same.standard_error))


async def test_the_latest_searches_are_looked_at(platform: Platform) -> None:
    """It reads as many as requested, in several pages if needed; a default reward counts for unrated hits."""
    stored = await prepare(platform, explored(205))
    database, tenant = platform.database, platform.tenant_id
    late = await compare_profiles(database, tenant, stored, BEST, WORST, since=SINCE, most=203)
    assert late.searches == 203
    since = SINCE + timedelta(minutes=175)
    few = await compare_profiles(database, tenant, stored, BEST, WORST, since=since, default_reward=0.0)
    assert (few.searches, few.weighings[0].rated, few.weighings[0].impressions) == (30, 60, 60)


async def test_another_profiles_slate_is_what_a_search_by_it_shows(platform: Platform) -> None:
    """From the candidates that real searches recorded: single legs and other weights, fused either way, and refined.

    What was refined follows from the candidates' vectors, if none of them has changed.
    """
    collection = await platform.collection("docs")
    words = ("red", "green", "apple", "pear", "tree", "leaf")
    rng = np.random.default_rng(2)
    await collection.add([{"_id": f"i{n:02}", "text": " ".join(rng.choice(words, size=4))} for n in range(40)])
    active = Profile(fusion=Fusion(kind=FusionKind.WEIGHTED_SUM), refining=Refining(share=0.25))
    await collection.set_profile(active)
    weights = ({"dense": 1.0}, {"lexical": 1.0}, {"dense": 1.0, "lexical": 5.0})
    profiles = [Profile(legs=legs, fusion=Fusion(kind=kind)) for legs in weights for kind in KINDS]
    profiles += [replace(active, legs=legs, refining=Refining(share=share)) for legs in weights for share in (0.2, 0.6)]
    queries = ("red apple", "green leaf tree", "pear")
    for query in queries:
        await collection.search(query, limit=5)
    await platform.recorded()
    stored, pools = await collection.refresh(), list[RecordedPool]()
    assert stored.space is not None
    place = CollectionPlace(platform.database, platform.tenant_id, stored.collection_id)
    async with platform.database.snapshot(platform.tenant_id) as connection:
        pools += [pool async for pool in read_pools(connection, stored.collection_id, since=SINCE, most=10)]
    for query, pool in zip(reversed(queries), pools, strict=True):
        vectors = await read_pool_vectors(place, stored.space, pool.item_ids)
        for profile in profiles:
            hits = await collection.search(query, limit=5, profile=replace(profile, recording=Recording(rate=0)))
            slate = target_slate(pool, NamedProfile(name="other", profile=profile), vectors=vectors)
            assert slate == {hit.item_id: 1.0 for hit in hits}

    other = NamedProfile(name="other", profile=profiles[-1])
    own = NamedProfile(name="own", profile=active, version=stored.profile_version)
    comparison = await compare_since(platform, stored, other, own)
    assert (comparison.searches, comparison.changed, comparison.left_out) == (3, 2, {})
    await collection.add([{"_id": hits[0].item_id, "text": "green"}])
    comparison = await compare_since(platform, stored, other, own)
    assert comparison.left_out == {Unanswerable.REFINED: 3}


async def test_another_tenants_searches_are_nobodys_evidence(platform: Platform) -> None:
    """Named by its number, the collection holds no search for a stranger."""
    stored = await prepare(platform, explored(5))
    stranger = await ensure_tenant(platform.database, f"not {platform.settings.tenant}")
    comparison = await compare_profiles(platform.database, stranger, stored, BEST, WORST, since=SINCE)
    assert (comparison.searches, comparison.estimates) == (0, ())
    assert not comparison.verdict.is_conclusive


@pytest.mark.parametrize(
    ("since", "default_reward", "most", "message"),
    [
        (SINCE.replace(tzinfo=None), None, 1, "no time zone"),
        (SINCE, 1.5, 1, "default reward"),
        (SINCE, None, 0, "at least 1"),
    ],
)
async def test_impossible_questions_are_refused(
    platform: Platform, since: datetime, default_reward: float | None, most: int, message: str
) -> None:
    """Before anything is read."""
    stored = await prepare(platform, [])
    with pytest.raises(InvalidRequestError, match=message):
        await compare_profiles(
            platform.database,
            platform.tenant_id,
            stored,
            BEST,
            WORST,
            since=since,
            default_reward=default_reward,
            most=most,
        )


async def test_profiles_are_named_by_version_by_active_and_by_file(platform: Platform, tmp_path: Path) -> None:
    """The same three ways for both of them."""
    collection = await platform.collection("docs")
    mine = Profile(legs={"lexical": 1.0}, learned=Learned(combination=Combination.OFF))
    await collection.set_profile(mine)
    stored, (database, tenant) = await collection.refresh(), (platform.database, platform.tenant_id)
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(mine.as_dict()))
    first = await named_profile(database, tenant, stored, "1")
    assert (first.name, first.version) == ("profile 1", 1)
    assert first.profile != mine
    active = await named_profile(database, tenant, stored, "active")
    assert (active.name, active.version, active.profile) == ("profile 2", 2, mine)
    filed = await named_profile(database, tenant, stored, str(path))
    assert (filed.name, filed.version, filed.profile) == ("mine.json", None, mine)


@pytest.mark.parametrize("name", ["0", "99", "9999999999", "9" * 5000, "nowhere.json"])
async def test_a_profile_that_is_not_there_is_named(platform: Platform, name: str) -> None:
    """Also for a number beyond all versions, and beyond what Python reads."""
    stored = await prepare(platform, [])
    with pytest.raises(NotFoundError, match=name[:20]):
        await named_profile(platform.database, platform.tenant_id, stored, name)


@pytest.mark.parametrize("text", ["{", "[1]", "{}"])
async def test_a_file_without_a_profile_is_refused(platform: Platform, tmp_path: Path, text: str) -> None:
    """The message names what is missing."""
    stored = await prepare(platform, [])
    path = tmp_path / "profile.json"
    path.write_text(text)
    with pytest.raises(InvalidProfileError):
        await named_profile(platform.database, platform.tenant_id, stored, str(path))
