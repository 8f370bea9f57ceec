"""BM25 weights follow the collection's average length: weighed again when it has moved enough."""

from __future__ import annotations

from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items import item_ids_after

DRIFT = 0.01
"""How far the average length may move, as a share, before all items are weighed again."""

_PAGE = 1000

_MOVE = """
    UPDATE collection_statistics
    SET weighed_length = total_length::real / documents
    WHERE collection_id = %(id)s AND documents > 0
        AND abs(total_length::real / documents / nullif(weighed_length, 0) - 1) > %(drift)s
"""


async def refresh_weights(database: Database, tenant_id: int, collection_id: int, drift: float = DRIFT) -> int:
    """Weigh every item again if the average length has drifted; gives how many were weighed.

    Page by page, each in a transaction of its own: searches and writes go on. Interrupted, some items keep the former
    average's weights, a difference of about the drift, until the next refresh.
    """
    async with database.transaction(tenant_id) as connection:
        cursor = await connection.execute(_MOVE, {"id": collection_id, "drift": drift})
        if cursor.rowcount == 0:
            return 0
    after, weighed = "", 0
    while True:
        async with database.transaction(tenant_id) as connection:
            page = await item_ids_after(connection, collection_id, after, _PAGE)
            if not page:
                return weighed
            await connection.execute("SELECT refresh_weights(%s, %s)", (collection_id, page))
        after = page[-1]
        weighed += len(page)
