"""Forgetting: no trace of a memory stays in the schema, and the recorded figures stay consistent."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

from retrieval import Platform, Settings, connect
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.items.removal import expired_memories, memories_of
from retrieval.adapters.store.learning.arms import recount_arms
from retrieval.apps.memories import MemoryStore
from retrieval.collection import handle_of
from retrieval.domain.errors import UnknownItemError
from retrieval.domain.search.profile import Profile
from retrieval.jobs.upkeep import forget_expired, is_anything_expired
from retrieval.services.workplace import JobTarget
from tests.support.database import SCHEMA

_HEX_AS_LETTERS = str.maketrans("0123456789abcdef", "bcdfghjklmnpqrtv")


@pytest.fixture
def forgotten_id(tenant: str) -> str:
    """The id of the memory that is to be forgotten."""
    return f"memory-{tenant}"


@pytest.fixture
def word(tenant: str) -> str:
    """A word of the text to forget, which occurs nowhere else in the database and has no stem."""
    return f"{tenant.rpartition('-')[2].translate(_HEX_AS_LETTERS)}q"


async def _holders(connection: psycopg.AsyncConnection[Any], *traces: str) -> set[tuple[str, str]]:
    """The tables of the schema with a row that contains one of the texts, as (table, text)."""
    tables = await connection.execute(
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relkind IN ('r', 'p')",
        (SCHEMA,),
    )
    holders = set()
    for (table,) in await tables.fetchall():
        for trace in traces:
            query = sql.SQL("SELECT 1 FROM {} AS entry WHERE strpos(entry::text, %s) > 0 LIMIT 1")
            row = await (await connection.execute(query.format(sql.Identifier(SCHEMA, table)), (trace,))).fetchone()
            if row is not None:
                holders.add((table, trace))
    return holders


@pytest.fixture
async def store(platform: Platform, word: str, forgotten_id: str) -> MemoryStore:
    """Three memories, one of them to be forgotten: linked, and superseding another."""
    memory_store = MemoryStore(platform, chance=random.Random(3))
    await memory_store.store_memory("p1", "note", "the bridge is of steel", memory_id="other", linked_paper_ids=["x1"])
    await memory_store.store_memory("p1", "note", "the bridge is of wood", memory_id="old")
    await memory_store.supersede(
        "old",
        {"project_id": "p1", "interaction_type": "note", "content": {"finding": f"{word} beetles eat the bridge"},
         "memory_id": forgotten_id, "user_id": "ann", "linked_paper_ids": ["x2"], "summary": "beetles"},
    )  # fmt: skip
    return memory_store


async def _use(platform: Platform, word: str, forgotten_id: str) -> UUID | None:
    """Leave every trace that a memory can leave; gives the search that showed it."""
    collection = await platform.collection("memories")
    hybrid = Profile(legs={"dense": 1.0, "lexical": 1.0})
    hits = await collection.search("beetles and the bridge", profile=hybrid)
    named = await collection.search(
        "bridge", profile=hybrid, where={"or": [{"item_id": [forgotten_id, "other"]}, {"tags": "t"}]}
    )
    await collection.search("bridge", profile=hybrid, prefer={"item_id": [forgotten_id, "other"]})
    assert forgotten_id in [hit.item_id for hit in hits]
    assert forgotten_id in [hit.item_id for hit in named]
    await platform.recorded()
    await platform.feedback(hits.retrieval_id, forgotten_id, reward=1.0, actor="ann", note=f"{word}, indeed")
    await platform.feedback(item_id=forgotten_id, collection="memories", helpful=False, key=forgotten_id)
    await platform.feedback(item_id="other", collection="memories", helpful=True)
    handle_of(collection).count_accesses([forgotten_id, "other"])
    await platform.accesses_counted()
    await _learn(platform, word, forgotten_id)
    return hits.retrieval_id


async def _learn(platform: Platform, word: str, forgotten_id: str) -> None:
    effects = {"item": {forgotten_id: [0.5, 0.1], "other": [0.2, 0.1]}, "item in domain:x": {forgotten_id: [0.1, 0.1]}}
    definition = {"reward": {"logistic": {"effects": effects}}, "by_item": {"kind": "shrinkage"}}
    number = (await (await platform.collection("memories")).refresh()).collection_id
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute(
            "INSERT INTO learned_models (collection_id, version, kind, definition, metrics, events, statistics_at, "
            "is_published, reason) VALUES (%s, 1, 'logistic', %s, '{}', 3, now(), false, 'a test')",
            (number, Jsonb(definition)),
        )
        await connection.execute(
            "INSERT INTO rewarded_queries (collection_id, item_id, version, vector, rewards) "
            "VALUES (%s, %s, 1, '[1]', 1)",
            (number, forgotten_id),
        )
        await connection.execute(
            "INSERT INTO job_runs (collection_id, job, details) VALUES (%s, 'embed', %s)",
            (number, Jsonb({"embedded": 1, "notes": [f"item {forgotten_id!r:.12} is not embedded: {word}"]})),
        )


async def test_nothing_is_left_of_a_forgotten_memory(
    store: MemoryStore, platform: Platform, database_url: str, word: str, forgotten_id: str
) -> None:
    """Its id, its words and its vectors were in many tables, and are in none afterwards."""
    await _use(platform, word, forgotten_id)
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        before = {table for table, _ in await _holders(connection, forgotten_id, word)}
        cached = f"SELECT count(*) FROM {SCHEMA}.embedding_cache WHERE tenant_id = %s"  # noqa: S608 - a constant
        tenant = (platform.tenant_id,)
        had = await (await connection.execute(cached, tenant)).fetchone()
        await store.forget(forgotten_id)
        has = await (await connection.execute(cached, tenant)).fetchone()
        after = await _holders(connection, forgotten_id, word)

    assert before >= {
        "items", "item_terms", "memories", "memory_links", "attribute_values", "term_statistics", "retrievals",
        "feedback", "arms", "learned_models", "rewarded_queries", "job_runs",
    }  # fmt: skip
    assert any(table.startswith("embeddings_") for table in before)
    assert after == set()
    assert had is not None
    assert has == (had[0] - 1,)
    with pytest.raises(UnknownItemError):
        await store.get_memory(forgotten_id)


async def test_records_of_a_forgotten_memory_share_one_pseudonym(
    store: MemoryStore, platform: Platform, word: str, forgotten_id: str
) -> None:
    """Impressions, candidates, verdicts and arms agree; feedback that comes later is about an unknown item."""
    retrieval_id = await _use(platform, word, forgotten_id)
    number = (await (await platform.collection("memories")).refresh()).collection_id
    await store.forget(forgotten_id)
    async with platform.database.transaction(platform.tenant_id) as connection:

        async def names(column: str, table: str) -> set[str]:
            query = f"SELECT DISTINCT {column} FROM {table} WHERE collection_id = {number}"  # noqa: S608
            return {row[0] for row in await (await connection.execute(query)).fetchall()} - {None}

        shown_ids = await names("item_id", "impressions")
        pools = await names("unnest(pool_items)", "retrievals")
        judged, arms = await names("item_id", "feedback"), await names("item_id", "arms")
        conditions = await names("condition::text", "retrievals")
        preferred = await names("(request -> 'preferred')::text", "retrievals")
        successors = await names("superseded_by", "memories")
        effects = await names("(definition #> '{reward,logistic,effects}')::text", "learned_models")
    (pseudonym,) = shown_ids - {"other"}
    assert pseudonym.startswith("forgotten-")
    assert shown_ids == pools == judged == arms == {"other", pseudonym}
    assert any(pseudonym in condition and '"other"' in condition for condition in conditions)
    assert any(pseudonym in condition and '"other"' in condition for condition in preferred)
    assert successors == {pseudonym}
    (effect,) = map(json.loads, effects)
    assert effect["item"] == {pseudonym: [0.5, 0.1], "other": [0.2, 0.1]}
    assert await recount_arms(CollectionPlace(platform.database, platform.tenant_id, number), ["other", pseudonym]) == (
        len(arms),
        0,
    ), "the arms still follow from their events"
    for place, why in (({"retrieval_id": retrieval_id}, "removed since"), ({"collection": "memories"}, "store it")):
        with pytest.raises(UnknownItemError, match=why):
            await platform.feedback(item_id=forgotten_id, reward=1.0, **place)


async def test_a_search_that_is_recorded_after_the_memory_was_forgotten_does_not_name_it(
    store: MemoryStore, platform: Platform, settings: Settings, database_url: str, forgotten_id: str
) -> None:
    """The record waits in another process: it names the memory by a pseudonym, and other items by their ids."""
    named: Any = {"item_id": [forgotten_id, "other"]}
    async with connect(database_url, settings=settings) as other:
        collection = await other.collection("memories", create=False)
        words = Profile(legs={"lexical": 1.0})
        await collection.search("beetles and the bridge", profile=words, where=named, prefer=named)
        await store.forget(forgotten_id)
        await other.recorded()
        assert other.recording.recorded == 1
    query = "SELECT pool_items, condition::text, request::text FROM retrievals WHERE collection_id = %s"
    number = (await (await platform.collection("memories")).refresh()).collection_id
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        assert await _holders(connection, forgotten_id) == set()
    async with platform.database.transaction(platform.tenant_id) as transaction:
        ((pool, condition, request),) = await (await transaction.execute(query, (number,))).fetchall()
        shown_ids = await (await transaction.execute("SELECT item_id FROM impressions ORDER BY rank")).fetchall()
    assert sorted(pool) == sorted(row[0] for row in shown_ids)
    (pseudonym,) = set(pool) - {"other"}
    assert pseudonym.startswith("forgotten-")
    assert all(f'"{name}"' in text for name in (pseudonym, "other") for text in (condition, request))


async def test_a_user_and_a_project_are_forgotten_whole(store: MemoryStore, forgotten_id: str) -> None:
    """Superseded memories too; those of others stay."""
    await store.store_memory("p2", "note", "of another project", memory_id="far")
    assert await store.forget_user("ann") == 1
    assert await store.forget_user("ann") == 0
    assert await store.forget_project("p1") == 2
    assert list(await store.get_memories(["other", "old", forgotten_id, "far"])) == ["far"]


async def test_memories_stored_while_a_user_is_forgotten_are_forgotten_too(
    store: MemoryStore, forgotten_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call looks for the user's memories again until none is left."""

    async def overtaken(*where: Any) -> list[str]:
        memories = await memories_of(*where)
        if forgotten_id in memories:
            await store.store_memory("p1", "note", "stored a moment later", user_id="ann", memory_id="late")
        return memories

    monkeypatch.setattr("retrieval.services.memories.memories_of", overtaken)
    assert await store.forget_user("ann") == 2
    assert await store.get_memories([forgotten_id, "late"]) == {}


async def test_expired_memories_are_forgotten_by_the_job(
    store: MemoryStore, platform: Platform, forgotten_id: str
) -> None:
    """The job forgets the expired memories and no others; afterwards it has nothing to do."""
    await store.update_memory(forgotten_id, expires_at=platform.now - timedelta(seconds=1))
    await store.update_memory("other", expires_at=platform.now + timedelta(days=1))
    target = JobTarget(platform.tenant_id, await (await platform.collection("memories")).refresh())
    counts: list[int] = []

    assert await is_anything_expired(platform.workplace, target)
    assert await forget_expired(replace(platform.workplace, advance=counts.append), target) == {"forgotten": 1}
    assert counts == [1]
    assert not await is_anything_expired(platform.workplace, target)
    assert set(await store.get_memories(["other", "old", forgotten_id])) == {"other", "old"}


async def test_a_memory_whose_expiry_is_put_off_meanwhile_is_kept(
    store: MemoryStore, platform: Platform, forgotten_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job checks the expiry again when it holds the lock on the memory."""
    await store.update_memory(forgotten_id, expires_at=platform.now - timedelta(seconds=1))
    target = JobTarget(platform.tenant_id, await (await platform.collection("memories")).refresh())

    async def overtaken(*where: Any, **options: Any) -> list[str]:
        memories = await expired_memories(*where, **options)
        if memories:
            await store.store_memory("p1", "note", "said anew", memory_id=forgotten_id, duplicates="keep")
        return memories

    monkeypatch.setattr("retrieval.jobs.upkeep.expired_memories", overtaken)
    assert await forget_expired(platform.workplace, target) == {"forgotten": 0}
    assert list(await store.get_memories([forgotten_id])) == [forgotten_id]


async def _cached(platform: Platform) -> int:
    async with platform.database.transaction(platform.tenant_id) as connection:
        query = "SELECT count(*) FROM embedding_cache WHERE tenant_id = %s"
        ((number,),) = await (await connection.execute(query, (platform.tenant_id,))).fetchall()
    return int(number)


async def test_a_changed_text_leaves_no_vector_in_the_cache(
    store: MemoryStore, platform: Platform, forgotten_id: str
) -> None:
    """The text before an update, or before another was stored under its id, is not kept by its vector either."""
    before = await _cached(platform)
    await store.update_memory(forgotten_id, content="other words by now")
    assert await _cached(platform) == before
    await store.store_memory("p1", "note", "and others again", memory_id=forgotten_id, duplicates="keep")
    assert await _cached(platform) == before
    await store.store_memories(
        [{"project_id": "p1", "interaction_type": "note", "content": "at last these", "memory_id": forgotten_id}]
    )
    assert await _cached(platform) == before


async def test_a_text_that_joined_another_leaves_no_vector_in_the_cache(store: MemoryStore, platform: Platform) -> None:
    """The text was embedded for the comparison; only the embedding of the kept text stays."""
    before = await _cached(platform)
    joined = await store.store_memory("p1", "note", "The bridge is of STEEL!", duplicates="merge")
    assert joined.merged_into == "other"
    assert await _cached(platform) == before
