"""Names are replaced beside those who write feedback, and nothing of it is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg

from retrieval import Platform

BLOCKED = """
    SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND NOT granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


async def test_a_name_is_replaced_in_events_that_were_being_written_too(
    platform: Platform, connection: psycopg.AsyncConnection[Any]
) -> None:
    """It waits for those who write feedback, and then sees what they wrote."""
    collection = await platform.collection("docs")
    await collection.add([{"_id": "a", "text": "timeout"}])
    for actor in ("ann", "bob"):
        await platform.feedback(collection="docs", item_id="a", helpful=True, actor=actor)
    async with platform.database.transaction(platform.tenant_id) as writer:
        await writer.execute("SELECT pg_advisory_xact_lock_shared(feedback_lock())")
        await writer.execute("UPDATE feedback SET actor = 'ann' WHERE actor = 'bob'")
        replacing = asyncio.create_task(platform.pseudonymise("ann"))
        while (await (await connection.execute(BLOCKED)).fetchone()) != (1,):
            assert not replacing.done()
    assert (await replacing).feedback == 2
