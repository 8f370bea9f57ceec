"""A collection is removed with all that is its own, and nothing else with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg import sql

from retrieval import Collection, EmbeddingSpace, Item, Platform, Profile
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.items.items import hold_items, remove_items
from retrieval.adapters.store.items.removal import remove_itself, remove_next_items
from retrieval.adapters.store.search.indexes import hnsw_indexes
from retrieval.collection import handle_of
from retrieval.domain.errors import InvalidRequestError, UnknownCollectionError
from retrieval.engine.collection_search import leg_rankings
from retrieval.services import collections as remove_collection
from retrieval.services.indexes import keep_index
from retrieval.services.items import add_each, add_new
from tests.support.database import SCHEMA, until_somebody_waits

SPACE = EmbeddingSpace(provider="test", model="removal", dimensions=4)


async def _fill(platform: Platform, name: str) -> Collection:
    """A collection that has something in as many tables as can be."""
    collection = await platform.collection(name, space=SPACE, filterable={"n": "number"})
    vectors = np.random.default_rng(0).normal(size=(12, 4))
    records = [{"_id": str(number), "text": f"word{number} common", "n": number, "tags": ["t"]} for number in range(12)]
    await collection.add(records, embeddings=vectors)
    hits = await collection.search("common", vector=vectors[0], limit=5)
    await platform.recorded()
    await platform.feedback(hits.retrieval_id, hits[0].item_id, reward=1.0, actor="ann")
    return collection


@pytest.fixture
async def admin(platform: Platform) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """A superuser's connection that commits each statement, so that it holds up no index."""
    async with await psycopg.AsyncConnection.connect(platform.database.url, autocommit=True) as opened:
        yield opened


async def _rows_of(connection: psycopg.AsyncConnection[Any], collection_id: int) -> dict[str, int]:
    """The number of the collection's rows in each table of the schema, without zeros."""
    names = await connection.execute(
        "SELECT table_name FROM information_schema.columns WHERE table_schema = %s AND column_name = 'collection_id'",
        (SCHEMA,),
    )
    counts: dict[str, int] = {}
    for (table,) in await names.fetchall():
        query = sql.SQL("SELECT count(*) FROM {} WHERE collection_id = %s").format(sql.Identifier(SCHEMA, table))
        row = await (await connection.execute(query, (collection_id,))).fetchone()
        counts[table] = row[0] if row else 0
    return {table: number for table, number in counts.items() if number}


async def test_nothing_of_it_is_left_and_its_neighbour_is_whole(
    platform: Platform, admin: psycopg.AsyncConnection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of no table, and no index; in several transactions where it is large."""
    monkeypatch.setattr(remove_collection, "ITEMS", 5)
    monkeypatch.setattr(remove_collection, "RECORDS", 2)
    removed, neighbour = await _fill(platform, "gone"), await _fill(platform, "kept")
    stored, other = await removed.refresh(), await neighbour.refresh()
    await keep_index(platform.database, platform.tenant_id, stored, rows=12)
    before, beside = await _rows_of(admin, stored.collection_id), await _rows_of(admin, other.collection_id)
    assert {"items", "item_terms", "attribute_values", "retrievals", "impressions", "feedback", "arms"} <= set(before)
    assert stored.space is not None
    assert await hnsw_indexes(platform.database, stored.space.space_id, stored.collection_id)

    assert await platform.remove_collection("gone")

    assert await _rows_of(admin, stored.collection_id) == {}
    assert not await hnsw_indexes(platform.database, stored.space.space_id, stored.collection_id)
    assert await _rows_of(admin, other.collection_id) == beside
    assert [collection.name for collection in await platform.collections()] == ["kept"]
    assert len(await neighbour.search("common", limit=20)) == 12


async def test_a_removed_collection_is_unknown_and_can_be_created_again(platform: Platform) -> None:
    """Removing it again is an error; the new collection has nothing of the old one."""
    await _fill(platform, "docs")
    assert await platform.remove_collection("docs")
    assert not await platform.delete_collection("docs"), "the other name of the same"
    with pytest.raises(UnknownCollectionError):
        await platform.collection("docs", create=False)
    assert (await (await platform.collection("docs", space=SPACE)).info()).items == 0
    with pytest.raises(InvalidRequestError):
        await platform.remove_collection("")


async def test_a_partly_removed_collection_can_be_searched_and_removed(platform: Platform) -> None:
    """Its statistics are those of the remaining items."""
    docs = await _fill(platform, "docs")
    stored = await docs.refresh()
    await remove_next_items(CollectionPlace(platform.database, platform.tenant_id, stored.collection_id), 5)

    assert (await docs.info()).items == 7
    assert len(await docs.search("common", limit=20)) == 7
    assert await platform.remove_collection("docs")


async def test_the_removal_waits_for_a_writer(platform: Platform) -> None:
    """It locks no item for which the writer would wait in turn."""
    collection = await platform.collection("docs")
    await collection.add([{"_id": "1", "text": "one"}, {"_id": "2", "text": "two"}])
    own = handle_of(collection).stored.collection_id
    async with platform.database.transaction(platform.tenant_id) as connection:
        for key in ("2", "1"):
            await hold_items(connection, own, [key])
            if key == "2":
                removing = asyncio.create_task(
                    remove_itself(CollectionPlace(platform.database, platform.tenant_id, own))
                )
                await until_somebody_waits(platform, 1)
    assert await removing
    assert await platform.collections() == []


async def test_another_tenants_collection_of_that_name_stays(platform: Platform) -> None:
    """A name is a tenant's own."""
    async with platform.of_tenant(f"{platform.settings.tenant}-other") as other:
        await other.collection("docs", space=SPACE)
        assert not await platform.remove_collection("docs")
        assert [collection.name for collection in await other.collections()] == ["docs"]


async def test_a_handle_says_at_once_that_its_collection_is_gone(platform: Platform) -> None:
    """This applies to every write, even within the second in which it trusts its last read."""
    docs = await platform.collection("docs")
    await docs.add([{"_id": "a", "text": "t"}])
    assert await platform.remove_collection("docs")
    item, profile = {"_id": "b", "text": "t"}, docs.profile
    for write in (
        docs.put(item), docs.add([item]), add_new(handle_of(docs), item), add_each(handle_of(docs), [item]),
        docs.change(["b"], lambda *_: Item(item_id="b", body="t")), docs.make_filterable({"n": "number"}),
        docs.set_profile(profile), docs.use_profile(1), docs.stored_profile(),
    ):  # fmt: skip
        with pytest.raises(UnknownCollectionError, match="was removed"):
            await write


async def test_the_handle_of_a_recreated_collection_uses_the_new_one(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads and removes the new collection's items; between the two, it reports a missing collection."""
    docs = await platform.collection("docs")
    await docs.put({"_id": "a", "text": "old"})
    await docs.search("old")
    assert await platform.remove_collection("docs")
    monkeypatch.setattr("retrieval.engine.collection_handle.FRESH_SECONDS", -1.0)
    for call in (docs.stored(["a"]), docs.get(["a"]), docs.delete("a"), docs.retrievals(), docs.profiles()):
        with pytest.raises(UnknownCollectionError, match="was removed"):
            await call
    collection = await platform.collection("docs", profile=Profile(legs={"lexical": 1.0}))
    await collection.put({"_id": "a", "text": "new"})
    assert (await docs.stored(["a"]))["a"].item.body == "new"
    assert (await docs.stored_profile()).profile.legs == {"lexical": 1.0}
    assert [profile.version for profile in await docs.profiles()] == [1]
    assert await docs.retrievals() == []
    assert await docs.delete("a")
    assert await collection.get(["a"]) == {}


async def test_a_search_says_that_its_collection_is_gone(platform: Platform) -> None:
    """Not what the database refuses then."""
    words = Profile(legs={"lexical": 1.0})
    docs = await platform.collection("docs", profile=words)
    await docs.put({"_id": "a", "text": "t"})
    await docs.search("t")
    assert await platform.remove_collection("docs")
    for search in (docs.search("t"), docs.search_each(["t"]), leg_rankings(handle_of(docs), "t", legs=["lexical"])):
        with pytest.raises(UnknownCollectionError, match="was removed"):
            await search


async def test_one_of_the_callers_that_remove_a_collection_at_once_removes_the_last_of_it(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one begins after the first has read what to remove, and ends its work."""
    await (await platform.collection("twice")).add([{"id": "1", "text": "words"}])
    others: list[asyncio.Task[bool]] = []
    name = "retrieval.adapters.store.items.removal.remove_items"

    async def late(*arguments: Any) -> Any:
        monkeypatch.setattr(name, remove_items)
        others.append(asyncio.create_task(platform.remove_collection("twice")))
        await asyncio.wait(others, timeout=1)
        return await remove_items(*arguments)

    monkeypatch.setattr(name, late)
    outcomes = [await platform.remove_collection("twice"), *await asyncio.gather(*others)]
    assert sorted(outcomes) == [False, True]
    assert not await platform.collections()
