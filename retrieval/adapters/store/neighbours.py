"""The neighbours that a collection's items are indexed with (``sql/search/neighbours.sql``)."""

from __future__ import annotations

from psycopg.types.json import Jsonb

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Connection, Database
from retrieval.domain.neighbours import Neighbours

_IS_WALKING = Compiled(
    "SELECT EXISTS (SELECT FROM collection_statistics WHERE collection_id = %(id)s AND windowing_after IS NOT NULL)"
)


async def set_neighbours(connection: Connection, collection_id: int, neighbours: Neighbours | None) -> None:
    """Change the setting and find every item's place; ``reindex_windows`` then does the rest."""
    setting = None if neighbours is None else Jsonb(neighbours.as_dict())
    await connection.execute("SELECT set_neighbours(%s, %s::jsonb)", (collection_id, setting))


async def reindex_windows(connection: Connection, collection_id: int, step: int) -> int:
    """Index the next items by the setting as it is now; gives how many, 0 when all are."""
    cursor = await connection.execute("SELECT reindex_windows(%s, %s)", (collection_id, step))
    row = await cursor.fetchone()
    return int(row[0] or 0) if row else 0


async def are_windows_behind(database: Database, tenant_id: int, collection_id: int) -> bool:
    """Whether items are still to be indexed by the setting as it is now."""
    return bool((await database.read(tenant_id, _IS_WALKING.bind(id=collection_id)))[0][0])
