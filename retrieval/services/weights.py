"""BM25 statistics and weights: differences are added up, items weighed again when their average length has moved."""

from __future__ import annotations

from retrieval.adapters.store.database import Database

DRIFT = 0.01
"""How far the average length may move, as a share, before all items are weighed again."""

_STEP = 1000

_BEGIN = "SELECT begin_weighing(%(id)s, %(drift)s)"


_FOLD = "SELECT fold_statistics(%(id)s)"


async def fold_statistics(database: Database, tenant_id: int, collection_id: int) -> None:
    """Add what writers have left so far to the collection's statistics: they are exact then."""
    async with database.transaction(tenant_id) as connection:
        await connection.execute(_FOLD, {"id": collection_id})


async def refresh_weights(database: Database, tenant_id: int, collection_id: int, drift: float = DRIFT) -> int:
    """Weigh every item again if the average length has drifted; gives how many were weighed.

    Step by step, each in a transaction of its own: searches and writes go on. Interrupted, the next refresh goes on
    from there.
    """
    async with database.transaction(tenant_id) as connection:
        await connection.execute(_BEGIN, {"id": collection_id, "drift": drift})
    weighed = 0
    while True:
        async with database.transaction(tenant_id) as connection:
            cursor = await connection.execute("SELECT refresh_weights(%s, %s)", (collection_id, _STEP))
            row = await cursor.fetchone()
        if row is None or not row[0]:
            return weighed
        weighed += int(row[0])
