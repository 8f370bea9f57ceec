"""How many items of a collection have each value of an attribute, and how many of them a vector."""

from __future__ import annotations

from psycopg import sql

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.spaces import StoredSpace
from retrieval.domain.value_count import ValueCount

_COUNT = """
    SELECT coalesce(item.attributes ->> %(attribute)s, ''), count(*), count(known.item_id)
    FROM items AS item
    LEFT JOIN {vectors} AS known
        ON known.collection_id = %(collection_id)s AND known.item_id = item.item_id
    WHERE item.collection_id = %(collection_id)s AND item.status <> 'archived'
    GROUP BY 1
    ORDER BY 2 DESC, 1
"""
_NO_VECTORS = "(SELECT NULL::bigint AS collection_id, NULL::text AS item_id WHERE false)"
_COUNT_VECTORS = "SELECT count(*) FROM {vectors} AS known WHERE known.collection_id = %(collection_id)s"


async def value_counts(
    database: Database, tenant_id: int, collection_id: int, space: StoredSpace | None, attribute: str
) -> list[ValueCount]:
    """The counts by value, the most frequent first, in one statement; archived items are left out."""
    statement = sql.SQL(_COUNT).format(vectors=_vectors(space)).as_string()
    bound = Compiled(statement, {"collection_id": collection_id, "attribute": attribute})
    rows = await database.read(tenant_id, bound)
    return [ValueCount(value=row[0], items=row[1], vectors=row[2]) for row in rows]


async def count_vectors(database: Database, tenant_id: int, collection_id: int, space: StoredSpace | None) -> int:
    """How many items have a vector in the space."""
    statement = sql.SQL(_COUNT_VECTORS).format(vectors=_vectors(space)).as_string()
    rows = await database.read(tenant_id, Compiled(statement, {"collection_id": collection_id}))
    return int(rows[0][0])


def _vectors(space: StoredSpace | None) -> sql.Composable:
    # Without a space there is a table of no rows in its place.
    return sql.SQL(_NO_VECTORS) if space is None else sql.Identifier(space.table_name)
