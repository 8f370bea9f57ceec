"""Declaring an attribute while items are taken away: neither waits for the other for ever."""

from __future__ import annotations

import asyncio

import pytest

from retrieval import Platform
from retrieval.adapters.store import filterable, items
from retrieval.adapters.store.database import Connection
from retrieval.domain.attribute import AttributeType


@pytest.mark.parametrize("what", ["archive", "delete"])
async def test_items_are_removed_while_an_attribute_is_declared(platform: Platform, what: str) -> None:
    """The remover holds its items and waits for the totals, which the declaration holds: both come to an end."""
    collection = await platform.collection("docs")
    await collection.add([{"_id": str(number), "text": "disk", "priority": "High"} for number in range(20)])
    number = (await collection.refresh()).collection_id
    totals_held, item_held = asyncio.Event(), asyncio.Event()

    async def declare() -> None:
        async with platform.database.transaction(platform.tenant_id) as connection:
            await connection.execute("SELECT FROM collection_statistics WHERE collection_id = %s FOR UPDATE", (number,))
            totals_held.set()
            await item_held.wait()
            await filterable.declare(connection, number, "docs", (("priority", AttributeType.TEXT),))

    async def remove() -> None:
        await totals_held.wait()
        async with platform.database.transaction(platform.tenant_id) as connection:
            await _hold(connection)
            item_held.set()
            if what == "archive":
                await items.archive_items(connection, number, [], ["3"])
            else:
                await items.delete_items(connection, number, ["3"])

    async def _hold(connection: Connection) -> None:
        lock = "SELECT FROM items WHERE collection_id = %s AND item_id = '3' FOR NO KEY UPDATE"
        await connection.execute(lock, (number,))

    await asyncio.wait_for(asyncio.gather(declare(), remove()), 30)
    hits = await collection.search("disk", where={"priority": "High"}, limit=50)
    assert len(hits) == 19
    assert "3" not in {hit.item_id for hit in hits}
