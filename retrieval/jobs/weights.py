"""BM25 weights follow the collection's average length: weighed again when it has moved enough."""

from __future__ import annotations

from retrieval.adapters.store.database import Database

DRIFT = 0.01
"""How far the average length may move, as a share, before all items are weighed again."""

_STEP = 1000

_MOVE = """
    UPDATE collection_statistics
    SET weighed_length = total_length::real / documents, weighing_after = ''
    WHERE collection_id = %(id)s AND documents > 0
        AND abs(total_length::real / documents - coalesce(weighed_length, 0)) > %(drift)s * coalesce(weighed_length, 0)
"""


async def refresh_weights(database: Database, tenant_id: int, collection_id: int, drift: float = DRIFT) -> int:
    """Weigh every item again if the average length has drifted; gives how many were weighed.

    Step by step, each in a transaction of its own: searches and writes go on. Interrupted, the next refresh goes on
    from there.
    """
    async with database.transaction(tenant_id) as connection:
        await connection.execute(_MOVE, {"id": collection_id, "drift": drift})
    weighed = 0
    while True:
        async with database.transaction(tenant_id) as connection:
            cursor = await connection.execute("SELECT refresh_weights(%s, %s)", (collection_id, _STEP))
            row = await cursor.fetchone()
        if row is None or not row[0]:
            return weighed
        weighed += int(row[0])
