"""HNSW indexes: created once when a collection is large, and again after a failed build."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import numpy as np
import psycopg
import pytest
from numpy.typing import NDArray
from psycopg import sql

from retrieval import Collection, EmbeddingSpace, Platform, Settings, connect
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.items.collections import StoredCollection, store_neighbours
from retrieval.adapters.store.search.indexes import BEYOND
from retrieval.adapters.store.search.recall import give_up_index
from retrieval.domain.items.collection import Neighbours
from retrieval.domain.search.hit import Path
from retrieval.services import indexes
from retrieval.services.collections import refresh_windows
from retrieval.services.indexes import IndexOutcome, index_rows, keep_index, measure_index, rebuild_index
from tests.support.cluster import not_on_a_cluster
from tests.support.database import SCHEMA, database_url
from tests.support.searching import index_names, measure_by_few

SPACE = EmbeddingSpace(provider="test", model="indexes", dimensions=4)
EQUAL = (4, 3, 3, 1)
"""Normalised and rounded to half precision, its similarity to itself is 1.0007."""


@pytest.fixture
async def collection(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> Collection:
    """A collection of 40 items with vectors."""
    measure_by_few(monkeypatch)
    opened = await platform.collection("docs", space=SPACE)
    vectors = np.random.default_rng(0).normal(size=(40, 4))
    await opened.add([{"_id": str(number)} for number in range(40)], embeddings=vectors)
    return opened


@pytest.fixture
async def admin(platform: Platform) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """A superuser's connection that commits each statement."""
    async with await psycopg.AsyncConnection.connect(platform.database.url, autocommit=True) as opened:
        yield opened


def as_unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """The vectors, each of length 1."""
    unit: NDArray[np.float64] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def _name(stored: StoredCollection) -> str:
    """The name of its index, or of the first part of that."""
    return index_names(stored)[0]


async def test_a_small_collection_gets_none(platform: Platform, collection: Collection) -> None:
    """Below the threshold comparing all is faster and perfect."""
    stored = await collection.refresh()
    assert stored.documents < index_rows(SPACE.dimensions)
    assert await keep_index(platform.database, platform.tenant_id, stored) is IndexOutcome.NOT_NEEDED
    assert await keep_index(platform.database, platform.tenant_id, stored, rows=41) is IndexOutcome.NOT_NEEDED


async def test_a_large_one_gets_one_and_then_has_it(platform: Platform, collection: Collection) -> None:
    """The second wish finds the index there; the collection says so."""
    stored = await collection.refresh()
    assert not stored.ann_index
    assert await keep_index(platform.database, platform.tenant_id, stored, rows=40) is IndexOutcome.BUILT
    assert await keep_index(platform.database, platform.tenant_id, stored, rows=40) is IndexOutcome.PRESENT
    assert (await collection.refresh()).ann_index


async def test_an_index_of_equal_vectors_is_built(platform: Platform) -> None:
    """As of many items with one text. Half precision rounds their similarity above 1, which has no distance."""
    equal = await platform.collection("equal", space=SPACE)
    await equal.add([{"_id": str(number)} for number in range(40)], embeddings=np.tile(EQUAL, (40, 1)))
    stored = await equal.refresh()
    assert await keep_index(platform.database, platform.tenant_id, stored, rows=40) is IndexOutcome.BUILT


@not_on_a_cluster("the index that is made invalid here is the nodes' there")
async def test_remains_of_a_failed_build_are_replaced(
    platform: Platform, collection: Collection, admin: psycopg.AsyncConnection[Any]
) -> None:
    """An invalid index does not count as an index: it is dropped and built again."""
    stored = await collection.refresh()
    await keep_index(platform.database, platform.tenant_id, stored, rows=40)
    await admin.execute(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", (f"{SCHEMA}.{_name(stored)}",)
    )
    assert not (await collection.refresh()).ann_index
    assert await keep_index(platform.database, platform.tenant_id, stored, rows=40) is IndexOutcome.BUILT
    assert (await collection.refresh()).ann_index


@not_on_a_cluster("the index that is made invalid here is the nodes' there")
async def test_a_repeated_write_replaces_the_index_that_an_interrupted_one_left(
    platform: Platform, collection: Collection, admin: psycopg.AsyncConnection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The items are stored by then, and the repetition changes none of them."""
    monkeypatch.setattr(indexes, "index_rows", lambda _dimensions: 40)
    await keep_index(platform.database, platform.tenant_id, await collection.refresh())
    await admin.execute(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass",
        (f"{SCHEMA}.{_name(await collection.refresh())}",),
    )
    assert not (await collection.refresh()).ann_index
    report = await collection.add([{"_id": str(number)} for number in range(40)])
    assert (report.unchanged, bool((await collection.refresh()).ann_index)) == (40, True)


async def test_a_search_finds_the_nearest_of_items_with_neighbours(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query is farther away from all items of a sequence than they are from each other."""
    monkeypatch.setattr(indexes, "index_rows", lambda _dimensions: 1000)
    size, dimensions, neighbours = 4000, 256, Neighbours(sequence="talk", order="turn", before=8, after=0)
    talks = await platform.collection("talks", space=replace(SPACE, dimensions=dimensions), neighbours=neighbours)
    chance = np.random.default_rng(2)
    texts = chance.normal(size=(size, dimensions))
    items = [{"_id": str(number), "talk": number // 30, "turn": number} for number in range(size)]
    await talks.add(items, embeddings=texts)
    stored = np.array(list((await talks.embeddings([str(number) for number in range(size)])).values()))
    queries = texts[::100] + chance.normal(size=(40, dimensions))
    results = await talks.search_each([""] * 40, vectors=list(queries))
    assert {result.path for result in results} == {Path.APPROXIMATE}
    tenth = [np.sort(stored @ (query / np.linalg.norm(query)))[-10] for query in queries]
    found = [hit.score >= last - 1e-3 for last, result in zip(tenth, results, strict=True) for hit in result]
    assert np.mean(found) > 0.98


@pytest.mark.parametrize("is_small", [False, True])
async def test_a_search_finds_the_nearest_of_items_that_are_nearer_to_each_other_than_to_it(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, *, is_small: bool
) -> None:
    """A walk may end among the wrong items, and then misses the whole page; few vectors are compared instead."""
    monkeypatch.setattr(indexes, "index_rows", lambda _dimensions: 1000)
    if not is_small:
        monkeypatch.setattr(indexes, "ROWS_OF_EFFORT", 1)
    size, dimensions, number = 2000, 128, 150
    chance = np.random.default_rng(1)

    def directions(number: int) -> NDArray[np.float64]:
        return as_unit(chance.normal(size=(number, dimensions)))

    vectors = as_unit(directions(200)[np.arange(size) % 200] + 0.1 * directions(size))
    copies = await platform.collection("copies", space=replace(SPACE, dimensions=dimensions))
    await copies.add([{"_id": str(place)} for place in range(size)], embeddings=vectors)
    queries = as_unit(vectors[chance.integers(size, size=number)] + 3 * directions(number))
    results = await copies.search_each([""] * number, vectors=list(queries), legs=["dense"])
    assert {result.path for result in results} == {Path.EXACT if is_small else Path.APPROXIMATE}
    assert not is_small or "all vectors were compared" in results[0].why
    tenth = np.sort(queries @ vectors.T)[:, -10]
    found = [hit.score >= last - 1e-3 for last, result in zip(tenth, results, strict=True) for hit in result]
    assert np.mean(found) > 0.99


@pytest.mark.parametrize("is_interrupted", [False, True])
async def test_an_index_is_rebuilt_after_a_change_of_neighbours(
    platform: Platform, collection: Collection, monkeypatch: pytest.MonkeyPatch, *, is_interrupted: bool
) -> None:
    """All vectors change. If the call is interrupted, the next check of the index rebuilds it."""
    monkeypatch.setattr(indexes, "index_rows", lambda _dimensions: 40)
    await keep_index(platform.database, platform.tenant_id, await collection.refresh())
    stored = await collection.refresh()
    assert stored.space
    place = CollectionPlace(platform.database, platform.tenant_id, stored.collection_id)
    await give_up_index(place, stored.space.space_id)
    neighbours = Neighbours(sequence="talk")
    if is_interrupted:
        async with platform.database.transaction(platform.tenant_id) as connection:
            await store_neighbours(connection, place.collection_id, neighbours)
        await refresh_windows(place)
        stored = await collection.refresh()
        assert stored.ann_index
        assert not stored.ann_index.is_measured
        assert await keep_index(platform.database, platform.tenant_id, stored) is IndexOutcome.REBUILT
    else:
        await collection.set_neighbours(neighbours)
    index = (await collection.refresh()).ann_index
    assert index
    assert index.is_measured
    assert index.effort_10 < BEYOND


async def test_of_many_wishes_at_once_one_builds_and_none_fails(
    platform: Platform, collection: Collection, admin: psycopg.AsyncConnection[Any]
) -> None:
    """Concurrent builds on one table would deadlock: one process builds, and the others continue without waiting."""
    stored = await collection.refresh()
    for _ in range(3):
        outcomes = await asyncio.gather(
            *(keep_index(platform.database, platform.tenant_id, stored, rows=40) for _ in range(4))
        )
        assert outcomes.count(IndexOutcome.BUILT) == 1
        assert set(outcomes) <= {IndexOutcome.BUILT, IndexOutcome.PRESENT, IndexOutcome.BEING_BUILT}
        assert (await collection.refresh()).ann_index
        await admin.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(SCHEMA, _name(stored))))


async def test_a_login_that_does_not_own_the_tables_gets_the_name_of_the_owner(
    platform: Platform, collection: Collection, admin: psycopg.AsyncConnection[Any], settings: Settings
) -> None:
    """Adding works without the index; the report names who can build it."""
    login = f"login_{uuid.uuid4().hex[:12]}"
    name = sql.Identifier(login)
    await admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'secret'").format(name))
    try:
        await admin.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(f"{SCHEMA}_app"), name))
        url = database_url(platform.database.url, admin.info.dbname, user=login).replace(login, f"{login}:secret", 1)
        async with connect(url, settings=settings) as other:
            stored = await collection.refresh()
            assert await keep_index(other.database, other.tenant_id, stored, rows=40) is IndexOutcome.NOT_ALLOWED
    finally:
        await admin.execute(sql.SQL("DROP ROLE {}").format(name))


async def test_measurements_are_stored_and_used(platform: Platform, collection: Collection) -> None:
    """The next reader of the collection searches by it."""
    await platform.split("docs", 1)
    stored = await collection.refresh()
    await keep_index(platform.database, platform.tenant_id, stored, rows=40)
    stored = await collection.refresh()
    measured = await measure_index(platform.database, platform.tenant_id, stored)
    assert measured is not None
    index = (await collection.refresh()).ann_index
    assert index is not None
    assert (index.rows, index.index_bytes, index.recall) == (40, measured.index_bytes, 1.0)
    assert (index.effort_10, index.effort_100, index.effort_200) == (50, 100, 200)
    assert index.exact_row_us == pytest.approx(measured.exact_row_us, rel=1e-5)
    assert index.walk_row_us == pytest.approx(measured.walk_row_us, rel=1e-5)


async def test_there_is_nothing_to_measure_without_an_index(platform: Platform, collection: Collection) -> None:
    """Nothing is stored either."""
    stored = await collection.refresh()
    assert await measure_index(platform.database, platform.tenant_id, stored) is None
    assert await rebuild_index(platform.database, platform.tenant_id, stored) is IndexOutcome.NOT_NEEDED
    assert (await collection.refresh()).ann_index is None


async def test_an_index_without_vectors_is_kept_and_not_measured_again(platform: Platform) -> None:
    """Items without text have no vectors; each of their writes would measure the index again."""
    textless = await platform.collection("textless", space=SPACE)
    await textless.add([{"_id": str(number)} for number in range(40)])
    outcomes = [
        await keep_index(platform.database, platform.tenant_id, await textless.refresh(), rows=40) for _ in range(2)
    ]
    assert outcomes == [IndexOutcome.BUILT, IndexOutcome.PRESENT]


async def test_a_collection_that_shrinks_keeps_its_index_down_to_the_half_and_then_loses_it(
    platform: Platform, collection: Collection, admin: psycopg.AsyncConnection[Any]
) -> None:
    """The measurements are removed too, and searches continue exactly."""
    await keep_index(platform.database, platform.tenant_id, await collection.refresh(), rows=40)
    await collection.delete([str(number) for number in range(19)])
    stored = await collection.refresh()
    assert stored.documents == 21
    assert await keep_index(platform.database, platform.tenant_id, stored, rows=40) is IndexOutcome.PRESENT
    await collection.delete(["19", "20"])
    stored = await collection.refresh()
    assert await keep_index(platform.database, platform.tenant_id, stored, rows=40) is IndexOutcome.DROPPED
    assert (await collection.refresh()).ann_index is None
    cursor = await admin.execute("SELECT to_regclass(%s)", (f"{SCHEMA}.{_name(stored)}",))
    assert await cursor.fetchone() == (None,)
    cursor = await admin.execute(
        f"SELECT count(*) FROM {SCHEMA}.ann_indexes WHERE collection_id = %s",  # noqa: S608 - the schema's own name
        (stored.collection_id,),
    )
    assert await cursor.fetchone() == (0,)
    assert len(await collection.search(vector=[1, 0, 0, 0], limit=10)) == 10


async def test_an_emptied_collection_still_answers_before_its_index_is_dropped(
    platform: Platform, collection: Collection
) -> None:
    """With and without a filter: nothing is found, and nothing fails."""
    await keep_index(platform.database, platform.tenant_id, await collection.refresh(), rows=40)
    await collection.delete([str(number) for number in range(40)])
    assert (await collection.refresh()).ann_index
    for where in (None, {"kind": "x"}):
        assert list(await collection.search(vector=[1, 0, 0, 0], where=where)) == []


async def test_a_rebuild_replaces_the_index_beside_the_old_one(
    platform: Platform, collection: Collection, admin: psycopg.AsyncConnection[Any]
) -> None:
    """Another relation under the same name, valid and measured, and nothing left over."""
    await keep_index(platform.database, platform.tenant_id, await collection.refresh(), rows=40)
    stored = await collection.refresh()
    files = "SELECT pg_relation_filenode(%s::regclass)"
    before = await (await admin.execute(files, (f"{SCHEMA}.{_name(stored)}",))).fetchone()
    assert await rebuild_index(platform.database, platform.tenant_id, stored) is IndexOutcome.REBUILT
    assert await (await admin.execute(files, (f"{SCHEMA}.{_name(stored)}",))).fetchone() != before
    index = (await collection.refresh()).ann_index
    assert index is not None
    assert index.is_measured
    remains = await admin.execute("SELECT count(*) FROM pg_class WHERE relname LIKE %s", (f"{_name(stored)}_cc%",))
    assert await remains.fetchone() == (0,)


async def test_an_index_that_becomes_large_is_rebuilt_with_more_effort(
    platform: Platform, collection: Collection, admin: psycopg.AsyncConnection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its parts, for later builds and inserts too."""
    await keep_index(platform.database, platform.tenant_id, await collection.refresh(), rows=40)
    stored = await collection.refresh()
    grown = replace(stored, documents=44)
    options = "SELECT DISTINCT reloptions FROM pg_class WHERE relname = ANY (%s)"
    rows = await admin.execute(options, (index_names(stored),))
    assert await rows.fetchall() == [(["ef_construction=64"],)]
    monkeypatch.setattr("retrieval.services.indexes.LARGE_ROWS", 44 // stored.parts)
    assert await keep_index(platform.database, platform.tenant_id, stored, rows=40) is IndexOutcome.PRESENT
    assert await keep_index(platform.database, platform.tenant_id, grown, rows=40) is IndexOutcome.REBUILT
    rows = await admin.execute(options, (index_names(stored),))
    assert await rows.fetchall() == [(["ef_construction=128"],)]


async def cut_off(stored: StoredCollection, admin: psycopg.AsyncConnection[Any], *, lock: str) -> None:
    """A rebuild that is cancelled while it waits for a transaction with that lock on the table."""
    assert stored.space is not None
    table, index = sql.Identifier(SCHEMA, stored.space.table_name), sql.Identifier(SCHEMA, _name(stored))
    async with await psycopg.AsyncConnection.connect(admin.info.dsn) as holder:
        await holder.execute(sql.SQL("LOCK TABLE {} IN {} MODE").format(table, sql.SQL(lock)))
        async with await psycopg.AsyncConnection.connect(admin.info.dsn, autocommit=True) as builder:
            rebuild = sql.SQL("REINDEX INDEX CONCURRENTLY {}").format(index)
            rebuilding = asyncio.create_task(builder.execute(rebuild))
            # It may first wait for others, such as the server's own upkeep of the table.
            waits = "SELECT WHERE %s = ANY (pg_blocking_pids(%s))"
            pids = (holder.info.backend_pid, builder.info.backend_pid)
            while not (await admin.execute(waits, pids)).rowcount:
                assert not rebuilding.done()
                await asyncio.sleep(0.02)
            await builder.cancel_safe()
            with pytest.raises(psycopg.errors.QueryCanceled):
                await rebuilding


async def left_over(stored: StoredCollection, admin: psycopg.AsyncConnection[Any]) -> list[str]:
    """The endings of the names of interrupted builds beside the index."""
    rows = await admin.execute(
        "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
        "WHERE c.relname LIKE %s AND NOT i.indisvalid ORDER BY 1",
        (f"{_name(stored)}%",),
    )
    return [row[0].removeprefix(_name(stored)) for row in await rows.fetchall()]


@pytest.mark.parametrize(
    ("lock", "remains"), [("ROW EXCLUSIVE", ["_ccnew", "_ccnew1"]), ("ACCESS SHARE", ["_ccold", "_ccold1"])]
)
@pytest.mark.parametrize("is_job", [True, False])
async def test_remains_of_an_interrupted_rebuild_are_removed(
    platform: Platform,
    collection: Collection,
    admin: psycopg.AsyncConnection[Any],
    *,
    lock: str,
    remains: list[str],
    is_job: bool,
) -> None:
    """The new index or the old one, invalid: by the job, and by the next reindex."""
    await keep_index(platform.database, platform.tenant_id, await collection.refresh(), rows=40)
    stored = await collection.refresh()
    await cut_off(stored, admin, lock=lock)
    await cut_off(stored, admin, lock=lock)
    assert await left_over(stored, admin) == remains
    if is_job:
        assert await keep_index(platform.database, platform.tenant_id, stored, rows=40) is IndexOutcome.PRESENT
    else:
        assert await rebuild_index(platform.database, platform.tenant_id, stored) is IndexOutcome.REBUILT
    assert await left_over(stored, admin) == []
    assert (await collection.refresh()).ann_index


async def test_remains_of_another_collections_index_are_unchanged(
    platform: Platform, collection: Collection, admin: psycopg.AsyncConnection[Any]
) -> None:
    """Neither is an index whose name only begins the same; a valid index stays."""
    await keep_index(platform.database, platform.tenant_id, await collection.refresh(), rows=40)
    stored = await collection.refresh()
    assert stored.space is not None
    for number, ending in enumerate(["_ccnew", "_ccnew1", "_ccold2", "_ccnew_mine", "_mine", "_ccnew3"]):
        await admin.execute(
            sql.SQL("CREATE INDEX {} ON {} (collection_id)").format(
                sql.Identifier(f"{_name(stored)}{ending}"), sql.Identifier(SCHEMA, stored.space.table_name)
            )
        )
        if number < 5:
            await admin.execute(
                "UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass",
                (f"{SCHEMA}.{_name(stored)}{ending}",),
            )
    assert await keep_index(platform.database, platform.tenant_id, stored, rows=40) is IndexOutcome.PRESENT
    assert await left_over(stored, admin) == ["_ccnew_mine", "_mine"]
    rows = await admin.execute("SELECT to_regclass(%s) IS NULL", (f"{SCHEMA}.{_name(stored)}_ccnew3",))
    assert await rows.fetchone() == (False,)


@not_on_a_cluster("the index that is made invalid here is the nodes' there")
async def test_a_reindex_builds_the_index_that_an_interrupted_build_left(
    platform: Platform, collection: Collection, admin: psycopg.AsyncConnection[Any]
) -> None:
    """An invalid index does not count, and no index exists that a new one could replace."""
    await keep_index(platform.database, platform.tenant_id, await collection.refresh(), rows=40)
    stored = await collection.refresh()
    await admin.execute(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", (f"{SCHEMA}.{_name(stored)}",)
    )
    # Its true size needs no index.
    stored = await collection.refresh()
    assert await rebuild_index(platform.database, platform.tenant_id, stored) is IndexOutcome.DROPPED
    assert await left_over(stored, admin) == []


async def test_of_many_rebuilds_at_once_one_is_done_at_a_time(platform: Platform, collection: Collection) -> None:
    """The others report that a rebuild is running; none fails, none waits."""
    await keep_index(platform.database, platform.tenant_id, await collection.refresh(), rows=40)
    stored = await collection.refresh()
    async with platform.database.only_one(f"indexes of embeddings_{stored.space.space_id if stored.space else 0}"):
        outcomes = await asyncio.gather(
            *(rebuild_index(platform.database, platform.tenant_id, stored) for _ in range(3))
        )
    assert set(outcomes) == {IndexOutcome.BEING_BUILT}
    assert await rebuild_index(platform.database, platform.tenant_id, stored) is IndexOutcome.REBUILT


async def test_small_tenants_make_no_indexes(
    platform: Platform, collection: Collection, settings: Settings, admin: psycopg.AsyncConnection[Any]
) -> None:
    """Eight of them share one table and its indexes: their number follows that of the large collections."""
    assert collection.name == "docs"
    count = "SELECT count(*) FROM pg_indexes WHERE schemaname = %s"
    before = await (await admin.execute(count, (SCHEMA,))).fetchone()
    vectors = np.random.default_rng(1).normal(size=(5, 4))
    for number in range(8):
        other = settings.changed(tenant=f"{settings.tenant}-{number}", pool_size=1)
        async with connect(platform.database.url, settings=other) as small:
            opened = await small.collection("docs", space=SPACE)
            await opened.add([{"_id": str(number)} for number in range(5)], embeddings=vectors)
            assert (await opened.search(vector=vectors[0], limit=5)).why.startswith("no HNSW index")
    assert await (await admin.execute(count, (SCHEMA,))).fetchone() == before
