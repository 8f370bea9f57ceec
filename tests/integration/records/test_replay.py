"""A recorded search is replayed: from its record, and against today's data."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from psycopg import sql

from retrieval import Collection, Context, Platform, Profile, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.records.recordings import find_recorded
from retrieval.adapters.store.records.retrievals import read_pools
from retrieval.domain.errors import InvalidRequestError, NotFoundError
from retrieval.domain.learning.feedback import Feedback
from retrieval.domain.records.recorded import RecordedPool
from retrieval.domain.records.slate import Slot
from retrieval.domain.search.diversity import Diversity, Refining
from retrieval.domain.search.filters import Contains, Or
from retrieval.domain.search.profile import Fusion, FusionKind
from retrieval.domain.search.profile_parts import Combination, Exploration, Learned, PolicyName, Recording
from retrieval.domain.search.relevance import Calibration
from retrieval.domain.search.signals import KeywordOverlap, VectorSimilarity
from retrieval.engine.decide import Decider
from retrieval.engine.target import NamedProfile, Unanswerable, target_slate
from retrieval.jobs.registry import job_named
from retrieval.jobs.run import run_job
from tests.support.jobs import target_of


async def _fill(platform: Platform) -> Collection:
    collection = await platform.collection("docs")
    await collection.add([{"_id": f"i{n}", "text": f"word{n % 7} common {n}", "group": n % 3} for n in range(30)])
    return collection


EPOCH = datetime(2020, 1, 1, tzinfo=UTC)
SUM = Profile(legs={"dense": 0.6, "lexical": 0.4}, fusion=Fusion(kind=FusionKind.WEIGHTED_SUM))
CALIBRATION = Calibration(space=HashingEmbedder().space.name, both=(-4, 6, -6, 8, -8), dense=(-4, 8, -8))
REFINED = replace(SUM, depth=5, refining=Refining(share=0.4))
UNION = Profile(
    fusion=Fusion(kind=FusionKind.UNION), signals=(KeywordOverlap(weight=0.6), VectorSimilarity(weight=0.4))
)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"profile": SUM, "limit": 3},
        {"legs": ["lexical"]},
        {"where": {"group": [0, 1]}, "group_by": "group"},
        {"profile": UNION, "as_of": EPOCH},
        {"rewrites": ["word3", "common 4"], "entities": {"questions": ["q1"]}, "tags": ["odd"]},
        {"profile": replace(SUM, diversity=Diversity(collapse_above=0.99, relevance_share=0.7))},
        {"vector": np.linspace(0.1, 1, 256)},
        {"profile": REFINED, "limit": 3},
        {"profile": replace(REFINED, recording=Recording(pool=4)), "limit": 3},
        {"profile": REFINED, "rewrites": ["word3"], "group_by": "group", "where": {"group": [0, 1]}},
    ],
    ids=[
        "plain",
        "own profile",
        "one leg",
        "grouped",
        "by signals",
        "rewritten",
        "diverse",
        "by vector",
        "refined",
        "refined, small pool",
        "refined and grouped",
    ],
)
async def test_an_unchanged_search_is_reproduced_and_answered_the_same(
    platform: Platform, options: dict[str, Any]
) -> None:
    """Its ranking follows from its record, and today's answer is the same."""
    result = await (await _fill(platform)).search('word1 common -"word5"', **options)
    assert result.retrieval_id is not None
    replay = await platform.replay(result.retrieval_id)
    assert (replay.why_not, replay.changes, replay.differences) == ((), (), ())
    assert replay.is_reproduced
    assert replay.is_same_today
    assert platform.recording.recorded == 1  # the second answer has no actor


async def test_each_difference_says_why(platform: Platform) -> None:
    """A hit that was removed, one that is new, one that was changed, and a profile that was replaced."""
    collection = await _fill(platform)
    result = await collection.search("word1 common", limit=5)
    first, second, *_ = (hit.item_id for hit in result)
    await collection.delete([first])
    await collection.add([{"_id": "new", "text": "word1 common word1"}, {"_id": second, "text": "other words"}])
    await collection.set_profile(SUM)
    assert result.retrieval_id is not None
    replay = await platform.replay(str(result.retrieval_id), "docs")
    assert replay.is_reproduced
    assert replay.changes == ("profile v1 answered then, v2 does now",)
    why = {difference.item_id: difference.why for difference in replay.differences}
    assert why[first] == ("the item was removed",)
    assert why["new"][0] == "the item is new"
    assert why[second][0] == "the item was changed"
    assert replay.as_dict()["differences"][0]["item_id"] == replay.differences[0].item_id


async def _learning_collection(platform: Platform, combination: Combination) -> Collection:
    """A collection that has learned that even numbers help, and explores."""
    collection = await platform.collection("learning")
    await collection.add([{"_id": f"i{n:02}", "text": f"common text word{n % 9} word{n % 7}"} for n in range(24)])
    exploration = Exploration(policy=PolicyName.THOMPSON_SLOTS, slots=2, younger_than_days=7, swaps=0.5)
    learned = Learned(combination=combination)
    await collection.set_profile(replace(SUM, learned=learned, exploration=exploration))
    shop = Context(domain="shop")
    searches = await collection.search_each(
        [f"common word{number % 9} q{number}" for number in range(60)], context=shop
    )
    await platform.recorded()
    events = [
        Feedback(
            retrieval_id=search.retrieval_id, item_id=hit.item_id, helpful=int(hit.item_id[1:]) % 2 == 0, actor="ann"
        )
        for search in searches
        for hit in search
    ]
    await platform.feedback_each(events)
    report = await run_job(platform.workplace, job_named("learn"), await target_of(platform, collection))
    assert report.details["published"]
    await collection.refresh()
    return collection


@pytest.mark.parametrize("combination", [Combination.SUM, Combination.LOGIT_STACK])
async def test_a_learned_ranking_is_replayed(platform: Platform, combination: Combination) -> None:
    """Scores and drawing follow from the record and its model, the statistics from the feedback, until it is withdrawn.

    The same profile, taken for another, would have shown the same items with the same probabilities. Refined, fused by
    signals, or neither.
    """
    collection = await _learning_collection(platform, combination)
    answers = []
    by_signals = {"fusion": UNION.fusion, "signals": UNION.signals}
    for parts in ({}, {"refining": Refining(share=0.3)}, by_signals):
        await collection.set_profile(replace(collection.profile, **{"refining": Refining()} | parts))
        result = await collection.search("common word4", limit=5, context=Context(domain="shop"))
        await platform.recorded()
        assert result.retrieval_id is not None
        answers.append(result.retrieval_id)
        last = Feedback(retrieval_id=result.retrieval_id, item_id=result[0].item_id, helpful=False, actor="bob")
        await platform.feedback_each([last])  # a later verdict, so it did not count then
        replay = await platform.replay(result.retrieval_id)
        assert (replay.why_not, [change for change in replay.changes if "candidates" in change]) == ((), [])
        await _check_another_profile(platform, collection)

    await platform.quarantine("ann")
    for answer in answers:
        replay = await platform.replay(answer)
        assert replay.why_not == ()
        changes = [change for change in replay.changes if not change.startswith("profile v")]
        assert [change.split(" of ")[0] for change in changes[:2]] == ["the uses", "the learned rewards"]
        assert "quarantined" in changes[0]


async def test_a_removed_item_is_not_said_to_have_lost_verdicts(platform: Platform) -> None:
    """Its cluster is gone, and with it a part of its learned reward; the verdicts on it are still there."""
    collection = await _learning_collection(platform, Combination.SUM)
    assert (await collection.learn())["clusters"]
    result = await collection.search("common word4", limit=5, context=Context(domain="shop"))
    await platform.recorded()
    assert result.retrieval_id is not None
    await collection.delete([hit.item_id for hit in result])

    replay = await platform.replay(result.retrieval_id)

    assert not any("candidates" in change for change in replay.changes)
    assert all(one.why == ("the item was removed",) for one in replay.differences if one.rank_now is None)


async def _check_another_profile(platform: Platform, collection: Collection) -> None:
    """The profile under another name would have drawn what the last search drew."""
    stored, tenant = await collection.refresh(), platform.tenant_id
    model = await Decider(platform.database, tenant).model(stored.collection_id, stored.model_version)
    async with platform.database.snapshot(tenant) as connection:
        pools = read_pools(connection, stored.collection_id, since=EPOCH, most=1)
        (pool,) = [pool async for pool in pools]
    slate = target_slate(pool, NamedProfile(name="another", profile=collection.profile), model)
    assert not isinstance(slate, Unanswerable)
    assert slate == pytest.approx(_probabilities(pool))
    assert any(chance < 1 for chance in slate.values())


def _probabilities(pool: RecordedPool) -> dict[str, float]:
    """The recorded probabilities above 0."""
    return {item: chance for item, chance in zip(pool.item_ids, pool.propensity, strict=True) if chance}


async def test_another_seed_draws_otherwise(platform: Platform) -> None:
    """A record whose seed was changed is not reproduced."""
    collection = await _fill(platform)
    exploration = Exploration(policy=PolicyName.THOMPSON_SLOTS, slots=2)
    result = await collection.search("common", profile=replace(SUM, exploration=exploration), limit=5)
    await platform.recorded()
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute("UPDATE retrievals SET seed = seed / 2")
    assert result.retrieval_id is not None
    replay = await platform.replay(result.retrieval_id)
    assert not replay.is_reproduced
    assert "with seed" in replay.why_not[0] or "propensity" in replay.why_not[0]


@pytest.mark.parametrize("least", ["min_score", "min_relevance"])
async def test_a_drawing_is_replayed_where_hits_are_below_the_least(platform: Platform, least: str) -> None:
    """Drawn items below the bound keep their probabilities; a different seed is reported as without bounds."""
    collection = await _fill(platform)
    exploration = Exploration(policy=PolicyName.THOMPSON_SLOTS, slots=2)
    profile = replace(SUM, exploration=exploration, calibration=CALIBRATION)
    whole = await collection.search("common", profile=profile, limit=5)
    values = [hit.score if least == "min_score" else hit.relevance for hit in whole]
    [middle] = sorted(value for value in values if value is not None)[2:3]
    bounds: dict[str, Any] = {least: middle}
    answers = [await collection.search("common", profile=profile, limit=5, **bounds) for _ in range(8)]
    assert any(0 < len(result) < 5 for result in answers)
    for result in answers:
        assert result.retrieval_id is not None
        assert (await platform.replay(result.retrieval_id)).why_not == ()

    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute("UPDATE retrievals SET seed = seed / 2")
    for result in answers:
        assert result.retrieval_id is not None
        [why_not] = (await platform.replay(result.retrieval_id)).why_not
        assert "with seed" in why_not or "propensity" in why_not


async def test_explored_hits_are_marked_in_the_replay(platform: Platform) -> None:
    """The other places follow from the record."""
    exploration = Exploration(policy=PolicyName.THOMPSON_SLOTS, slots=2)
    result = await (await _fill(platform)).search("common", profile=replace(SUM, exploration=exploration), limit=5)
    assert result.retrieval_id is not None
    replay = await platform.replay(result.retrieval_id)
    assert replay.why_not == ()
    item_ids = {hit.item_id for hit in result if hit.slot is Slot.EXPLORE}
    reasons = {difference.item_id: difference.why for difference in replay.differences}
    assert {
        item_id for item_id in item_ids & set(reasons) if "exploration drew it then" not in reasons[item_id]
    } == set()


async def test_a_further_page_keeps_what_the_first_explored(platform: Platform) -> None:
    """It explores nothing, is an impression of its own hits alone, and is replayed."""
    collection, explored, talk = await _fill(platform), list[Slot](), Context(session="talk")
    profile = replace(SUM, exploration=Exploration(policy=PolicyName.THOMPSON_SLOTS, slots=2, floor=1.0))
    for _ in range(5):
        first = await collection.search("common", profile=profile, limit=4, after="", context=talk)
        second = await collection.search("common", profile=profile, limit=4, after=first.next, context=talk)
        explored += [hit.slot for hit in first if hit.slot is not Slot.EXPLOIT]
        assert {hit.slot for hit in second} == {Slot.EXPLOIT}
        assert second.retrieval_id is not None
        await platform.recorded()
        recorded = await platform.retrieval(second.retrieval_id)
        shown = [(hit.item_id, hit.rank) for hit in recorded.impressions]
        assert shown == [(hit.item_id, hit.rank) for hit in second]
        assert [rank for _, rank in shown] == [5, 6, 7, 8]
        assert (await platform.replay(second.retrieval_id)).why_not == ()
    assert explored
    answers = await collection.answers_of("talk")
    assert [hit.rank for answer in answers[:2] for hit in answer.hits] == [5, 6, 7, 8, 1, 2, 3, 4]
    # Each hit was shown once, on its page, with the probability of its draw there.
    positions = await platform.analytics("positions")
    assert [(row["rank"], row["shown"]) for row in positions] == [(rank, 5) for rank in range(1, 9)]
    [whole, _] = await platform.analytics("exploration")
    assert (whole["shown"], whole["explored"]) == (40, len(explored))


async def test_a_further_page_counts_only_the_hits_that_the_first_showed(platform: Platform) -> None:
    """What the first page drew below the least score comes back on no page, and is no hit of the record."""
    collection = await _fill(platform)
    least = (await collection.search("common", profile=SUM, limit=8))[-1].score
    profile = replace(SUM, exploration=Exploration(policy=PolicyName.THOMPSON_SLOTS, slots=2, floor=1.0))
    counts = set[int]()
    for _ in range(8):
        first = await collection.search("common", profile=profile, limit=4, after="", min_score=least)
        second = await collection.search("common", profile=profile, limit=4, after=first.next, min_score=least)
        assert second.retrieval_id is not None
        await platform.recorded()
        recorded = await find_recorded(platform.database, platform.tenant_id, second.retrieval_id)
        assert recorded is not None
        assert recorded.request["continued"] == len(first)
        assert len(recorded.impressions) == len(first) + len(second)
        assert (await platform.replay(second.retrieval_id)).why_not == ()
        counts.add(len(first))
    assert min(counts) < 4


async def test_a_bonus_by_counts_alone_is_replayed(platform: Platform) -> None:
    """Without a model it uses the counts of uses, which the record has."""
    collection = await _fill(platform)
    used = [
        Feedback(collection="docs", item_id=f"i{n}", helpful=False, actor=f"a{k}") for n in range(8) for k in range(3)
    ]
    await platform.feedback_each(used)
    # Without a floor, which sometimes gives the last place to any candidate.
    exploration = Exploration(policy=PolicyName.UNCERTAINTY_BONUS, rate=1.0, floor=0.0)
    result = await collection.search("common", profile=replace(SUM, exploration=exploration), limit=5)
    assert result.retrieval_id is not None
    assert {hit.item_id for hit in result}.isdisjoint({f"i{n}" for n in range(8)})
    replay = await platform.replay(result.retrieval_id)
    assert replay.why_not == ()


async def test_a_filter_that_was_not_recorded_cannot_be_repeated(platform: Platform) -> None:
    """The ranking is recomputed all the same."""
    collection = await _fill(platform)
    result = await collection.search("common", where=Or((Contains("word1"), Contains("word2"))))
    assert result.retrieval_id is not None
    replay = await platform.replay(result.retrieval_id)
    assert replay.is_reproduced
    assert replay.changes == ("its filter could not be recorded, so it cannot be asked again",)


async def test_a_search_that_has_become_impossible_says_so(platform: Platform) -> None:
    """The error of today is the difference."""
    collection = await _fill(platform)
    result = await collection.search("common", where={"group": 1})
    await collection.make_filterable({"group": "text"})
    assert result.retrieval_id is not None
    replay = await platform.replay(result.retrieval_id)
    assert replay.is_reproduced
    assert replay.changes[0].startswith("it cannot be answered today: 'group' is filterable as text")


@pytest.mark.parametrize("collection", [None, "docs"])
async def test_an_unknown_record_is_not_found(platform: Platform, collection: str | None) -> None:
    """Neither is an identifier of another kind, or one of another collection or tenant."""
    for unknown in (uuid.uuid4(), uuid.UUID(int=0), uuid.UUID(int=2**128 - 1)):
        with pytest.raises(NotFoundError, match="there is no recorded search"):
            await platform.replay(unknown, collection)


async def test_a_record_of_another_collection_or_tenant_is_not_found(
    platform: Platform, database_url: str, settings: Settings
) -> None:
    """A request that names a collection gets the searches of that collection only."""
    result = await (await _fill(platform)).search("common")
    assert result.retrieval_id is not None
    with pytest.raises(NotFoundError, match="in collection 'other'"):
        await platform.replay(result.retrieval_id, "other")
    async with connect(database_url, settings=settings.changed(tenant=f"{settings.tenant}-other")) as stranger:
        with pytest.raises(NotFoundError):
            await stranger.replay(result.retrieval_id)


async def test_an_invalid_identifier_is_refused(platform: Platform) -> None:
    """With what one looks like."""
    with pytest.raises(InvalidRequestError, match=r"'x' is not a retrieval id; .* as a UUID"):
        await platform.replay("x")


async def test_a_pseudonym_replaces_an_actor_everywhere(platform: Platform) -> None:
    """It is the same in all of the actor's rows; other names stay, and the sessions are deleted."""
    collection = await _fill(platform)
    for actor in ("ann", "ann", "bob"):
        result = await collection.search("common", context=Context(actor=actor, session="s"))
        assert result.retrieval_id is not None
        await platform.feedback(result.retrieval_id, result[0].item_id, helpful=True, actor=actor)
    await platform.quarantine("ann")
    report = await platform.pseudonymise("ann")
    assert (report.retrievals, report.feedback) == (2, 2)
    assert report.pseudonym.startswith("pseudonym-")
    async with platform.database.transaction(platform.tenant_id) as connection:
        for table in ("retrievals", "feedback"):
            query = sql.SQL("SELECT DISTINCT actor FROM {} ORDER BY 1").format(sql.Identifier(table))
            cursor = await connection.execute(query)
            assert [row[0] for row in await cursor.fetchall()] == ["bob", report.pseudonym]
        cursor = await connection.execute("SELECT DISTINCT session FROM retrievals WHERE actor <> 'bob'")
        assert await cursor.fetchall() == [("",)]
        cursor = await connection.execute("SELECT actor FROM quarantines")
        assert await cursor.fetchall() == [(report.pseudonym,)]
    again = await platform.pseudonymise("ann")
    assert (again.retrievals, again.feedback) == (0, 0)
    assert again.pseudonym != report.pseudonym


@pytest.mark.parametrize("actor", ["", "x" * 201, "a\x00b"])
async def test_a_name_that_no_actor_has_is_refused(platform: Platform, actor: str) -> None:
    """No row is changed."""
    with pytest.raises(InvalidRequestError):
        await platform.pseudonymise(actor)
