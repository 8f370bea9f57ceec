"""HNSW indexes: made when a collection is large, once, whoever asks, and made again when a build failed."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg import sql

from retrieval import Collection, EmbeddingSpace, Platform, Settings, connect
from retrieval.adapters.store.ann_indexes import hnsw_name
from retrieval.adapters.store.collections import StoredCollection
from retrieval.jobs.indexes import IndexOutcome, index_rows, keep_index
from tests.support.database import SCHEMA, database_url

SPACE = EmbeddingSpace(provider="test", model="indexes", dimensions=4)


@pytest.fixture
async def collection(platform: Platform) -> Collection:
    """A collection of 40 items with vectors."""
    made = await platform.collection("docs", space=SPACE)
    vectors = np.random.default_rng(0).normal(size=(40, 4))
    await made.add([{"_id": str(number)} for number in range(40)], embeddings=vectors)
    return made


@pytest.fixture
async def admin(platform: Platform) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """A superuser's connection that commits each statement."""
    async with await psycopg.AsyncConnection.connect(platform.database.url, autocommit=True) as opened:
        yield opened


def _name(stored: StoredCollection) -> str:
    assert stored.space is not None
    return hnsw_name(stored.space.space_id, stored.collection_id)


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


async def test_what_a_failed_build_left_is_replaced(
    platform: Platform, collection: Collection, admin: psycopg.AsyncConnection[Any]
) -> None:
    """An invalid index is no index: it is dropped and built again."""
    stored = await collection.refresh()
    await keep_index(platform.database, platform.tenant_id, stored, rows=40)
    await admin.execute(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", (f"{SCHEMA}.{_name(stored)}",)
    )
    assert not (await collection.refresh()).ann_index
    assert await keep_index(platform.database, platform.tenant_id, stored, rows=40) is IndexOutcome.BUILT
    assert (await collection.refresh()).ann_index


async def test_of_many_wishes_at_once_one_builds_and_none_fails(
    platform: Platform, collection: Collection, admin: psycopg.AsyncConnection[Any]
) -> None:
    """Concurrent builds on one table deadlock in PostgreSQL: here one builds, and the others go on without waiting."""
    stored = await collection.refresh()
    for _ in range(3):
        outcomes = await asyncio.gather(
            *(keep_index(platform.database, platform.tenant_id, stored, rows=40) for _ in range(4))
        )
        assert outcomes.count(IndexOutcome.BUILT) == 1
        assert set(outcomes) <= {IndexOutcome.BUILT, IndexOutcome.PRESENT, IndexOutcome.BEING_BUILT}
        assert (await collection.refresh()).ann_index
        await admin.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(SCHEMA, _name(stored))))


async def test_a_login_that_does_not_own_the_tables_is_told_who_may(
    platform: Platform, collection: Collection, admin: psycopg.AsyncConnection[Any], settings: Settings
) -> None:
    """Adding goes on without the index; the report says who can build it."""
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
