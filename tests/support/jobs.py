"""Helpers for the tests of jobs."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from retrieval import Collection, Platform
from retrieval.services.workplace import JobTarget

WAITING = 300
"""Items that wait for their vector: more than two pages."""


async def target_of(platform: Platform, collection: Collection) -> JobTarget:
    """The collection as a job sees it, read now."""
    return JobTarget(platform.tenant_id, await collection.refresh())


async def make_pending(
    platform: Platform, name: str, count: int = WAITING, words: Sequence[str] = ("thing",)
) -> Collection:
    """A collection whose items all wait for their vector."""
    collection = await platform.collection(name)
    await collection.add(
        [{"_id": f"{number:04}", "text": f"{words[number % len(words)]} {number}"} for number in range(count)]
    )
    stored = await collection.refresh()
    assert stored.space is not None
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(stored.space.table_name)))
    return collection
