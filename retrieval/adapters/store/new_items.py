"""Items that must not be there yet."""

from __future__ import annotations

from collections.abc import Sequence

from retrieval.adapters.store.database import Connection
from retrieval.adapters.store.items import known_hashes

_ALONE = "SELECT pg_advisory_xact_lock(hashtextextended('retrieval new item ' || %s || ' ' || %s, 0))"


async def hold_new(connection: Connection, collection_id: int, item_ids: Sequence[str]) -> set[str]:
    """Let those who bring a new item of the same id wait for each other; gives the ids that are there already."""
    for item_id in sorted(item_ids):
        await connection.execute(_ALONE, (str(collection_id), item_id))
    return set(await known_hashes(connection, collection_id, item_ids))
