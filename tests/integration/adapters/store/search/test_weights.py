"""BM25 weights follow the collection's average length, step by step, through every interruption."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from retrieval import Collection, Platform
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.search import terms
from retrieval.adapters.store.search.terms import refresh_weights

Connection = psycopg.AsyncConnection[Any]


async def _fill(platform: Platform, words: int) -> tuple[Collection, int]:
    """A collection of 30 items, and its number."""
    collection = await platform.collection("docs")
    text = " ".join(f"word{number}" for number in range(words))
    await collection.add([{"_id": f"{number:02}", "text": text} for number in range(30)])
    return collection, (await collection.refresh()).collection_id


async def _stale(connection: Connection, number: int) -> int:
    """Items whose weights are not those of the collection's average."""
    cursor = await connection.execute(
        "SELECT count(*) FROM item_terms JOIN collection_statistics USING (collection_id) WHERE collection_id = %s AND "
        "weights IS DISTINCT FROM bm25_weights(lexemes, frequencies, length, (total_length::real / documents)::real)",
        (number,),
    )
    row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


async def _drift(platform: Platform, number: int) -> None:
    """Pretend that the items were weighed with another average."""
    async with platform.database.transaction(platform.tenant_id) as transaction:
        await transaction.execute(
            "UPDATE collection_statistics SET weighed_length = weighed_length * 2 WHERE collection_id = %s", (number,)
        )
        await transaction.execute(
            "UPDATE item_terms SET weights = bm25_weights(lexemes, frequencies, length, (length * 2)::real) "
            "WHERE collection_id = %s",
            (number,),
        )


async def test_nothing_is_weighed_while_the_average_stands(platform: Platform) -> None:
    """Without drift a refresh is free."""
    _, number = await _fill(platform, 10)
    assert await refresh_weights(CollectionPlace(platform.database, platform.tenant_id, number)) == 0


async def test_all_items_are_weighed_once_the_average_has_moved(platform: Platform, connection: Connection) -> None:
    """Adding longer items changes the weights of the others."""
    collection, number = await _fill(platform, 10)
    await collection.add([{"_id": "long", "text": " ".join(f"other{place}" for place in range(200))}])
    assert await _stale(connection, number) == 0


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
async def test_a_refresh_that_was_interrupted_is_gone_on_with(
    platform: Platform, connection: Connection, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """The new average is stored first, and the remaining items are still weighed later."""
    monkeypatch.setattr(terms, "_STEP", 7)
    _, number = await _fill(platform, 10)
    await _drift(platform, number)
    async with platform.database.transaction(platform.tenant_id) as transaction:
        await transaction.execute(terms._BEGIN.text, {"collection_id": number, "drift": terms.DRIFT})  # noqa: SLF001
        for _ in range(steps):
            await transaction.execute("SELECT refresh_weights(%s, 7)", (number,))
    assert await _stale(connection, number) == 30 - 7 * steps
    assert await refresh_weights(CollectionPlace(platform.database, platform.tenant_id, number)) == 30 - 7 * steps
    assert await _stale(connection, number) == 0
    assert await refresh_weights(CollectionPlace(platform.database, platform.tenant_id, number)) == 0


async def test_refreshes_at_once_share_the_work_while_others_write(
    platform: Platform, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each item is weighed once, by either process, and writers neither deadlock nor leave stale weights."""
    monkeypatch.setattr(terms, "_STEP", 2)
    collection, number = await _fill(platform, 10)
    await _drift(platform, number)
    reports = await asyncio.gather(
        *(refresh_weights(CollectionPlace(platform.database, platform.tenant_id, number)) for _ in range(3))
    )
    assert sum(reports) == 30
    await _drift(platform, number)
    text = " ".join(f"word{place}" for place in range(10))
    refreshing = [refresh_weights(CollectionPlace(platform.database, platform.tenant_id, number)) for _ in range(3)]
    writing = [
        collection.add([{"_id": f"{place:02}", "text": f"{text} again{start}"} for place in range(start, 30, 4)])
        for start in range(4)
    ]
    await asyncio.gather(*refreshing, *writing)
    await refresh_weights(CollectionPlace(platform.database, platform.tenant_id, number), drift=0)
    assert await _stale(connection, number) == 0
