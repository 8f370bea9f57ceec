"""What feedback costs: it depends neither on what others say nor on the indexes of what it changes."""

from __future__ import annotations

from typing import Any, cast

import pytest

from retrieval import Context, Feedback, Platform, Settings, connect
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Connection, Database
from retrieval.adapters.store.learning.feedback import record_feedback

MANY = 2_000

_READ = """
    SELECT sum(pg_stat_get_xact_tuples_returned(indexrelid)) FROM pg_index WHERE indrelid = 'feedback'::regclass
"""
_UPDATED = """
    SELECT pg_stat_get_xact_tuples_updated('arms'::regclass), pg_stat_get_xact_tuples_hot_updated('arms'::regclass)
"""


class _Within:
    """Reads in a transaction that is open."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self, _: int, statement: Compiled) -> list[Any]:
        return await (await self._connection.execute(statement.text.encode(), statement.parameters)).fetchall()


async def _stored(platform: Platform) -> int:
    collection = await platform.collection("docs")
    await collection.add([{"_id": one, "text": "timeout"} for one in "ab"])
    return (await collection.refresh()).collection_id


@pytest.mark.parametrize("items", ["a", "ab"])
async def test_a_verdict_changes_no_index_of_the_statistics(platform: Platform, items: str) -> None:
    """Alone or in a batch, in each context: an item that has verdicts is updated where it lies in the table."""
    await _stored(platform)
    async with platform.database.transaction(platform.tenant_id) as connection:
        database = cast(Database, _Within(connection))
        for helpful in (True, False, True):
            events = [
                Feedback(collection="docs", item_id=one, helpful=helpful, context=Context(domain="network"))
                for one in items
            ]
            await record_feedback(database, platform.tenant_id, events, platform.now)
        updated, hot = await (await connection.execute(_UPDATED)).fetchone() or (0, 0)
    assert updated >= 2 * 2 * len(items)
    assert hot == updated


async def _entries_read(platform: Platform, events: list[Feedback]) -> int:
    async with platform.database.transaction(platform.tenant_id) as connection:
        before = (await (await connection.execute(_READ)).fetchone() or (0,))[0]
        await record_feedback(cast(Database, _Within(connection)), platform.tenant_id, events, platform.now)
        return int((await (await connection.execute(_READ)).fetchone() or (0,))[0] - before)


@pytest.mark.parametrize("items", ["a", "ab"])
async def test_actors_of_another_tenant_are_not_counted_through(
    platform: Platform, settings: Settings, database_url: str, items: str
) -> None:
    """They have the same name and say much; alone or in a batch, an event reads few entries of any index."""
    await _stored(platform)
    async with connect(database_url, settings=settings.changed(tenant=f"{settings.tenant}-loud")) as loud:
        number = await _stored(loud)
        async with loud.database.transaction(loud.tenant_id) as connection:
            await connection.execute(
                "INSERT INTO feedback (collection_id, item_id, feedback_key, subject, actor, kind, reward, weight, "
                "contexts, occurred_at) SELECT %s, 'a', gen_random_uuid(), gen_random_uuid(), 'assistant', 'rating', "
                "1, 1, '{\"\"}', now() FROM generate_series(1, %s)",
                (number, MANY),
            )
    events = [Feedback(collection="docs", item_id=one, helpful=True, actor="assistant") for one in items]
    assert await _entries_read(platform, events) < MANY / 10
