"""Tenants that share connections: none ever reads another's row, whatever befell the connection before."""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid
from collections.abc import Awaitable, Callable

import numpy as np
import psycopg
import pytest

from retrieval import Item, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.domain.errors import DatabaseError
from tests.support.cluster import not_on_a_cluster

TENANTS = 20
CONNECTIONS = 3

_SEEN = Compiled("SELECT DISTINCT c.tenant_id, current_setting('retrieval.tenant') FROM items i "
                 "JOIN collections c USING (collection_id)", keep=0)  # fmt: skip
_BROKEN = Compiled("SELECT 1 / %(zero)s::integer", {"zero": 0}, keep=0)
_SLOW = Compiled("SELECT pg_sleep(0.05)", keep=0)


@pytest.fixture(params=[False, True], ids=["sessions", "transactions"])
def shared(request: pytest.FixtureRequest, settings: Settings) -> Settings:
    """Few connections, that are set up when they change their tenant, or by each transaction for itself."""
    return settings.changed(pool_size=CONNECTIONS, transaction_pooler=request.param)


async def _tenants(url: str, settings: Settings) -> list[int]:
    """Tenants with one item each."""
    numbers = []
    for _ in range(TENANTS):
        async with connect(url, settings=settings.changed(tenant=f"shares-{uuid.uuid4()}"), embedder=None) as platform:
            collection = await platform.collection("docs")
            await collection.add([Item(item_id="1", body="a word")])
            numbers.append(platform.tenant_id)
    return numbers


async def _own_rows_only(database: Database, tenant: int) -> None:
    assert await database.read(tenant, _SEEN) == [(tenant, str(tenant))]


async def _own_rows_in_a_transaction(database: Database, tenant: int) -> None:
    async with database.transaction(tenant) as connection:
        cursor = await connection.execute(_SEEN.text.encode())
        assert await cursor.fetchall() == [(tenant, str(tenant))]


async def _error(database: Database, tenant: int) -> None:
    with pytest.raises(DatabaseError):
        await database.read_each(tenant, [_SEEN, _BROKEN])


async def _failed_transaction(database: Database, tenant: int) -> None:
    with contextlib.suppress(ZeroDivisionError):
        async with database.transaction(tenant) as connection:
            await connection.execute("SELECT set_config('retrieval.tenant', '0', true)")
            raise ZeroDivisionError


async def _cancelled(database: Database, tenant: int) -> None:
    task = asyncio.create_task(database.read_each(tenant, [_SLOW, _SEEN]))
    await asyncio.sleep(random.Random(tenant).random() * 0.06)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_no_tenant_reads_another_s_row_through_a_connection_that_served_it(
    database_url: str, shared: Settings
) -> None:
    """Through errors, failed transactions, cancellations and killed backends: 20 tenants on 3 connections."""
    tenants = await _tenants(database_url, shared)
    chance = random.Random(7)

    async def killed(database: Database, tenant: int) -> None:
        backend = (await database.read(tenant, Compiled("SELECT pg_backend_pid()")))[0][0]
        async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as owner:
            await owner.execute("SELECT pg_terminate_backend(%s::integer)", (backend,))

    reads = [_own_rows_only] * 6 + [_own_rows_in_a_transaction] * 2
    deeds = [*reads, _error, _failed_transaction, _cancelled, killed]
    async with connect(database_url, settings=shared, embedder=None) as platform:

        async def use(deed: Callable[[Database, int], Awaitable[None]], tenant: int) -> None:
            with contextlib.suppress(DatabaseError):  # of a backend that was killed meanwhile
                await deed(platform.database, tenant)

        for _ in range(40):
            await asyncio.gather(*(use(chance.choice(deeds), chance.choice(tenants)) for _ in range(8)))
        for tenant in tenants:
            await _own_rows_only(platform.database, tenant)


async def test_a_kept_plan_does_not_outlive_the_growth_of_its_collection(database_url: str, settings: Settings) -> None:
    """At every size, the answers through one connection are those of a new connection."""
    random_vectors = np.random.default_rng(3).standard_normal((4000, 16)).astype(np.float32)
    vectors = random_vectors / np.linalg.norm(random_vectors, axis=1, keepdims=True)
    narrow = settings.changed(pool_size=1)
    async with connect(database_url, settings=narrow, embedder=HashingEmbedder(16)) as platform:
        collection = await platform.collection("grows")
        stored = 0
        for size in (0, 10, 200, 4000):
            fresh = [Item(item_id=f"{number:05}", body=f"word{number % 7}") for number in range(stored, size)]
            await collection.add(fresh, embeddings=vectors[stored:size])
            stored = size
            for query in vectors[:8]:
                hits = await collection.search(vector=query, limit=5, legs=["dense"])
                best = np.argsort(-(vectors[:size] @ query), kind="stable")[:5]
                assert [hit.item_id for hit in hits] == [f"{number:05}" for number in best]


@not_on_a_cluster("each statement is planned for its values there")
async def test_a_search_without_a_filter_is_planned_once(database_url: str, settings: Settings) -> None:
    """The server makes one plan for all values; left to itself it takes an unknown limit for a dear one."""
    narrow = settings.changed(pool_size=1)
    async with connect(database_url, settings=narrow, embedder=HashingEmbedder(16)) as platform:
        collection = await platform.collection("docs")
        await collection.add([Item(item_id=f"{number:02}", body=f"common word{number}") for number in range(20)])
        for number in range(8):
            for legs in (["dense"], ["lexical"], ["dense", "lexical"]):
                await collection.search(f"common word{number}", legs=legs)
        plans = "SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE statement LIKE 'WITH%%'"
        assert await platform.database.read(platform.tenant_id, Compiled(plans)) == [(8, 0)] * 3


@not_on_a_cluster("each transaction sets its own settings there")
async def test_recording_a_search_leaves_its_settings_to_the_next_search(database_url: str, settings: Settings) -> None:
    """Setting them again would take a tenth of a search; a statement without settings does not see them."""
    plans = Compiled("SELECT current_setting('plan_cache_mode')")
    narrow = settings.changed(pool_size=1)
    async with connect(database_url, settings=narrow, embedder=HashingEmbedder(16)) as platform:
        collection = await platform.collection("docs")
        await collection.add([Item(item_id="1", body="a word")])
        await collection.search("word")
        await platform.recorded()
        assert await platform.database.write(platform.tenant_id, plans, None) == [("force_generic_plan",)]
        assert await platform.database.read(platform.tenant_id, plans) == [("auto",)]


@not_on_a_cluster("no statement is kept there")
async def test_a_kept_statement_does_not_keep_its_last_answer(database_url: str, settings: Settings) -> None:
    """A connection keeps hundreds of statements, and an answer may have megabytes."""
    async with connect(database_url, settings=settings.changed(pool_size=1), embedder=None) as platform:
        await platform.database.read(platform.tenant_id, _SEEN)
        connection = await platform.database._pool.take()  # noqa: SLF001
        readers = [kept.reader for kept in connection.session._statements.values()]  # noqa: SLF001
        platform.database._pool.put(connection)  # noqa: SLF001
        assert readers
        for reader in readers:
            assert reader is not None
            assert reader._transformer.pgresult is None  # noqa: SLF001
