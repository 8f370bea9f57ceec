"""A collection really gone: what it holds, part by part in transactions of bounded size, and at last itself."""

from __future__ import annotations

from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items import delete_items

_ALONE = "SELECT pg_advisory_xact_lock(feedback_lock())"
_NEXT_ITEMS = "SELECT item_id FROM items WHERE collection_id = %s ORDER BY item_id LIMIT %s"
# What months part has no row addresses of its own, and an index by time.
_BY_TIME = """
    DELETE FROM {table} AS old
    WHERE old.collection_id = %(id)s AND old.retrieved_at <= coalesce(
        (SELECT one.retrieved_at FROM {table} AS one WHERE one.collection_id = %(id)s
         ORDER BY one.retrieved_at OFFSET %(most)s - 1 LIMIT 1), 'infinity')
"""
_BY_ADDRESS = """
    DELETE FROM {table} WHERE collection_id = %(id)s
        AND ctid = ANY (ARRAY(SELECT one.ctid FROM {table} AS one WHERE one.collection_id = %(id)s LIMIT %(most)s))
"""
_PARTS = (
    *(_BY_TIME.format(table=table) for table in ("impressions", "retrievals")),
    *(
        _BY_ADDRESS.format(table=table)
        for table in ("feedback", "arms", "arm_baselines", "rewarded_queries", "query_samples", "job_runs")
    ),
    _BY_ADDRESS.format(table="term_statistics"),
)
"""The tables that may be large, beside the items; what is small goes with the collection."""

_ITSELF = "DELETE FROM collections WHERE tenant_id = %s AND collection_id = %s"


async def remove_next_items(database: Database, tenant_id: int, collection_id: int, most: int) -> int:
    """Remove so many items with all that hangs on them, in one transaction; gives how many there were.

    The statistics are kept exact, so that what is left of the collection can be searched.
    """
    async with database.transaction(tenant_id) as connection:
        rows = await (await connection.execute(_NEXT_ITEMS, (collection_id, most))).fetchall()
        return await delete_items(connection, collection_id, [row[0] for row in rows]) if rows else 0


async def remove_records(database: Database, tenant_id: int, collection_id: int, most: int) -> None:
    """Remove what was recorded and learned of the collection, about so many rows in a transaction.

    Each is alone with what feedback changes, which waits for it.
    """
    for statement in _PARTS:
        removed = 1
        while removed:
            async with database.transaction(tenant_id) as connection:
                await connection.execute(_ALONE)
                cursor = await connection.execute(statement.encode(), {"id": collection_id, "most": most})
                removed = cursor.rowcount


async def remove_itself(database: Database, tenant_id: int, collection_id: int) -> bool:
    """Remove the collection with what is left of it, and whether it was there; writers of its items are waited for."""
    async with database.transaction(tenant_id) as connection:
        await connection.execute(_ALONE)
        return (await connection.execute(_ITSELF, (tenant_id, collection_id))).rowcount > 0
