"""Recounting term statistics: normally no corrections, and everything corrected after damage."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from retrieval import Collection, Platform
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.search.terms import fold_statistics, recount_terms

Connection = psycopg.AsyncConnection[Any]

_ALL = (
    "SELECT lexeme, document_frequency, term FROM term_statistics "
    "WHERE collection_id = %s AND document_frequency <> 0 ORDER BY 1"
)


async def _fill(platform: Platform) -> tuple[Collection, int]:
    collection = await platform.collection("docs")
    await collection.add([{"_id": str(number), "text": f"common word{number} 東京"} for number in range(20)])
    await collection.delete(["3"])
    number = (await collection.refresh()).collection_id
    await fold_statistics(CollectionPlace(platform.database, platform.tenant_id, number))
    return collection, number


async def _rows(connection: Connection, number: int) -> list[tuple[Any, ...]]:
    return await (await connection.execute(_ALL, (number,))).fetchall()


async def test_writers_count_correctly_and_unused_terms_are_removed(platform: Platform, connection: Connection) -> None:
    """A recount of an untouched collection finds nothing wrong, and removes the terms that nothing holds."""
    collection, number = await _fill(platform)
    before = await _rows(connection, number)
    assert await recount_terms(CollectionPlace(platform.database, platform.tenant_id, number)) == 0
    assert await _rows(connection, number) == before
    cursor = await connection.execute(
        "SELECT count(*) FROM term_statistics WHERE collection_id = %s AND document_frequency = 0", (number,)
    )
    assert await cursor.fetchone() == (0,)
    assert [hit.item_id for hit in await collection.search("word5", legs=["lexical"])] == ["5"]


@pytest.mark.parametrize(
    ("damage", "wrong"),
    [
        ("UPDATE term_statistics SET document_frequency = document_frequency + 1 WHERE term = 'word5'", 1),
        ("UPDATE term_statistics SET document_frequency = 7 WHERE document_frequency = 0", 1),
        ("DELETE FROM term_statistics WHERE document_frequency > 0", 22),
        ("UPDATE collection_statistics SET documents = 3", 1),
        ("DELETE FROM collection_statistics", 1),
        ("UPDATE term_statistics SET term = NULL", 0),
    ],
)
async def test_wrong_statistics_are_counted_and_corrected(
    platform: Platform, connection: Connection, damage: str, wrong: int
) -> None:
    """Frequencies, totals and spellings are as before, and the next recount finds nothing."""
    _, number = await _fill(platform)
    before = await _rows(connection, number)
    async with platform.database.transaction(platform.tenant_id) as transaction:
        await transaction.execute(damage)
    assert await recount_terms(CollectionPlace(platform.database, platform.tenant_id, number)) == wrong
    assert await _rows(connection, number) == before
    assert await recount_terms(CollectionPlace(platform.database, platform.tenant_id, number)) == 0


async def test_a_recount_while_items_are_written_miscounts_nothing(platform: Platform, connection: Connection) -> None:
    """Writers and recounts take turns."""
    collection, number = await _fill(platform)

    async def write(start: int) -> None:
        for place in range(start, start + 5):
            await collection.add([{"_id": f"more{place}", "text": f"common more{place}"}])

    async def recount() -> list[int]:
        return [await recount_terms(CollectionPlace(platform.database, platform.tenant_id, number)) for _ in range(5)]

    *_, miscounts = await asyncio.gather(write(0), write(100), recount())
    assert miscounts == [0] * 5
    await fold_statistics(CollectionPlace(platform.database, platform.tenant_id, number))
    assert len(await _rows(connection, number)) == 22 + 10


async def test_another_tenants_collection_is_not_counted(platform: Platform) -> None:
    """Under the policies its rows are invisible."""
    _, number = await _fill(platform)
    assert await recount_terms(CollectionPlace(platform.database, platform.tenant_id + 1, number)) == 0
