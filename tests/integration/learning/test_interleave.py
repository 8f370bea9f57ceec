"""Interleaved searches: mixed, recorded with their teams, and counted by who won."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from retrieval import Collection, Context, Feedback, Platform, Profile
from retrieval.adapters.store.records.recordings import find_recorded
from retrieval.domain.errors import DatabaseError, InvalidLimitError, InvalidRequestError
from retrieval.domain.records.recorded import RecordedSearch
from retrieval.domain.search.profile_parts import Learned
from retrieval.engine.interleave import NOTHING_TO_COMPARE
from retrieval.services.compare import compare_interleaved

PROFILES = {"words": Profile(legs={"lexical": 1.0}), "meaning": Profile(legs={"dense": 1.0})}
SINCE = datetime.now(UTC) - timedelta(hours=1)


@pytest.fixture
async def collection(platform: Platform) -> Collection:
    """Ten texts that share words."""
    documents = await platform.collection("docs")
    await documents.add([{"_id": f"i{n}", "text": f"red apple {'tree ' * n} number{n}"} for n in range(10)])
    return documents


async def record_of(platform: Platform, retrieval_id: UUID | None) -> RecordedSearch:
    """The recorded search."""
    assert retrieval_id is not None
    search = await find_recorded(platform.database, platform.tenant_id, retrieval_id)
    assert search is not None
    return search


async def rate(platform: Platform, search: RecordedSearch, winner: str) -> None:
    """Reward every hit of a team with 1, and no other."""
    statement = """
        INSERT INTO feedback (
            collection_id, item_id, feedback_key, subject, retrieval_id, kind, reward, weight, contexts, occurred_at
        ) VALUES (%s, %s, gen_random_uuid(), gen_random_uuid(), %s, 'verdict', %s, 1, '{}', now())
    """
    async with platform.database.transaction(platform.tenant_id) as connection:
        for impression in search.impressions:
            reward = float(impression.signals["team"] == winner)
            await connection.execute(statement, (search.collection_id, impression.item_id, search.retrieval_id, reward))


async def test_both_profiles_hits_are_shown_and_remembered(platform: Platform, collection: Collection) -> None:
    """The hits are those of the two searches, and the record has each hit's team and its probability."""
    hits = await collection.interleave("red tree", profiles=PROFILES, limit=4, context=Context(actor="ann"))
    ranked = {name: await collection.search("red tree", limit=4, profile=profile) for name, profile in PROFILES.items()}
    assert {hit.item_id for hit in hits} <= {hit.item_id for ranking in ranked.values() for hit in ranking}
    assert [hit.rank for hit in hits] == [1, 2, 3, 4]

    search = await record_of(platform, hits.retrieval_id)
    assert search.request["interleaved"] == {"a": "words", "b": "meaning"}
    assert (search.actor, search.policy, search.profile_version) == ("ann", "team_draft/1", 0)
    teams = [impression.signals["team"] for impression in search.impressions]
    assert sorted(teams) == ["a", "a", "b", "b"]
    assert [impression.item_id for impression in search.impressions] == [hit.item_id for hit in hits]
    assert all(0 < impression.rank_propensity <= impression.propensity <= 1 for impression in search.impressions)
    await platform.recorded()
    assert platform.recording.recorded == len(ranked), "the two searches behind it are nobody's"


async def test_an_unrecorded_collection_records_no_interleaved_search(collection: Collection) -> None:
    """Its hits are mixed all the same, and a note says that they compare nothing."""
    hits = await collection.unrecorded().interleave("red tree", profiles=PROFILES, limit=4)
    assert len(hits) == 4
    assert (hits.retrieval_id, hits.notes[-1]) == (None, NOTHING_TO_COMPARE)
    assert await collection.retrievals() == []


async def test_the_winner_is_named_in_either_order(platform: Platform, collection: Collection) -> None:
    """The second team won eight searches; one search has no ratings, and one no hits."""
    for _ in range(8):
        search = await collection.interleave("red tree", profiles=PROFILES, limit=4)
        await rate(platform, await record_of(platform, search.retrieval_id), "b")
    await collection.interleave("red tree", profiles=PROFILES, limit=4)
    await collection.interleave("red tree", profiles=PROFILES, where={"kind": "none"})
    stored = await collection.refresh()

    async def compared(first: str, second: str) -> Any:
        return await compare_interleaved(platform.database, platform.tenant_id, stored, first, second, since=SINCE)

    straight, turned = await compared("words", "meaning"), await compared("meaning", "words")
    assert (straight.searches, straight.preference.first, straight.preference.second) == (10, 0, 8)
    assert (turned.searches, turned.preference.first, turned.preference.second) == (10, 8, 0)
    assert straight.verdict.better == turned.verdict.better == "meaning"
    assert straight.verdict.text.startswith("meaning is better than words: 8 searches against 0, 0 even")
    with pytest.raises(InvalidRequestError) as refused:
        await compared("words", "active")
    assert str(refused.value) == (
        f"no search since {SINCE:%Y-%m-%d} interleaved 'words' and 'active'; the latest interleaved 'meaning' and "
        "'words': name both profiles of a pair (--profile, --against)"
    )


async def test_without_interleaved_searches_the_refusal_says_what_to_do(
    platform: Platform, collection: Collection
) -> None:
    """A recorded search of one profile is none."""
    await collection.search("red tree")
    stored = await collection.refresh()
    with pytest.raises(InvalidRequestError, match=r"was interleaved; interleave searches first .*--since"):
        await compare_interleaved(platform.database, platform.tenant_id, stored, "words", "active", since=SINCE)


async def test_an_interleaved_search_can_be_replayed(platform: Platform, collection: Collection) -> None:
    """Its ranking does not follow from its record, and replay says so; today's answer uses the active profile."""
    search = await collection.interleave("red tree", profiles=PROFILES, limit=4)
    assert search.retrieval_id is not None
    replay = await platform.replay(search.retrieval_id)
    assert not replay.is_reproduced
    assert any("team_draft/1" in change for change in replay.changes)
    assert not any("did not run then" in change for change in replay.changes), "every leg of the two profiles ran"


async def test_the_record_names_the_model_and_the_questions_cluster(platform: Platform, collection: Collection) -> None:
    """The version that ranked the hits of one profile; a verdict then counts for the cluster too."""
    learned = Profile(legs={"lexical": 1.0, "dense": 1.0}, learned=Learned(trusted_from=10))
    await collection.set_profile(learned)
    await collection.add([{"_id": f"n{n}", "text": f"green pear {n}"} for n in range(20)])
    await platform.feedback_each([Feedback(collection="docs", item_id=f"i{n}", helpful=n > 5) for n in range(10)])
    assert (await collection.learn())["clusters"]
    assert (await collection.refresh()).model_version == 1

    hits = await collection.interleave("red tree", profiles={"now": PROFILES["words"], "then": learned}, limit=4)

    ordinary = await collection.search("red tree")
    await platform.recorded()
    assert hits.retrieval_id is not None
    search, alone = [await record_of(platform, found.retrieval_id) for found in (hits, ordinary)]
    assert (search.model_version, search.cluster) == (alone.model_version, alone.cluster)
    assert (search.model_version, search.cluster is None) == (1, False)
    assert (await platform.retrieval(hits.retrieval_id)).model_version == 1
    assert not any("model" in change for change in (await platform.replay(hits.retrieval_id)).changes)
    await platform.feedback(hits.retrieval_id, hits[0].item_id, helpful=True)
    async with platform.database.transaction(platform.tenant_id) as connection:
        found = await connection.execute("SELECT contexts FROM feedback WHERE retrieval_id = %s", (hits.retrieval_id,))
        assert await found.fetchall() == [(["", f"cluster={search.cluster}"],)]


async def test_a_search_whose_record_fails_still_answers(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a note, and without an identifier to give feedback by."""

    async def refused(*_: object) -> None:
        raise DatabaseError("the database refused")

    monkeypatch.setattr("retrieval.engine.interleave.store_recordings", refused)
    search = await collection.interleave("red tree", profiles=PROFILES, limit=4)
    assert len(search) == 4
    assert search.retrieval_id is None
    assert NOTHING_TO_COMPARE in search.notes


async def test_invalid_arguments_are_refused(collection: Collection) -> None:
    """Other than two profiles, more than 20 hits, and twice the same name when they are compared."""
    with pytest.raises(InvalidRequestError, match="two profiles"):
        await collection.interleave("red", profiles={"one": Profile()})
    with pytest.raises(InvalidLimitError, match="1 to 20"):
        await collection.interleave("red", profiles=PROFILES, limit=21)


async def test_a_profile_is_not_compared_with_itself(platform: Platform, collection: Collection) -> None:
    """A time without a zone is refused too."""
    stored = await collection.refresh()
    with pytest.raises(InvalidRequestError, match="name two"):
        await compare_interleaved(platform.database, platform.tenant_id, stored, "words", "words", since=SINCE)
    naive = SINCE.replace(tzinfo=None)
    with pytest.raises(InvalidRequestError, match="time zone"):
        await compare_interleaved(platform.database, platform.tenant_id, stored, "words", "meaning", since=naive)
