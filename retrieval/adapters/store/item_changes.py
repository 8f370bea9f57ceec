"""Stored items that a writer holds while it decides what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.types.json import Jsonb

from retrieval.adapters.store.database import Connection
from retrieval.adapters.store.items import ITEM_COLUMNS, index_attributes, item_from_row, know_attributes
from retrieval.domain.item import Item

# In the order in which every writer locks them, so that no two wait for each other.
_HOLD = (
    f"SELECT {', '.join(ITEM_COLUMNS)} FROM items "  # noqa: S608 - of names that are the code's own
    "WHERE collection_id = %s AND item_id = ANY(%s) ORDER BY item_id FOR NO KEY UPDATE"
)
_SET_ATTRIBUTES = """
    UPDATE items SET attributes = fresh.attributes, content_hash = fresh.content_hash
    FROM unnest(%(ids)s::text[], %(attributes)s::jsonb[], %(hashes)s::bytea[])
        AS fresh (item_id, attributes, content_hash)
    WHERE items.collection_id = %(id)s AND items.item_id = fresh.item_id
"""
# A declaration that comes meanwhile waits for this transaction, and then indexes what it wrote.
_DECLARED = """
    SELECT filterable IS NOT NULL FROM collection_attributes
    WHERE collection_id = %s AND name = ANY(%s) ORDER BY name COLLATE "C" FOR SHARE
"""


async def hold_items(connection: Connection, collection_id: int, item_ids: Sequence[str]) -> dict[str, Item]:
    """Those of the items that exist, by item id; nobody else changes them before the transaction ends."""
    cursor = await connection.execute(_HOLD, (collection_id, list(item_ids)))
    return {row[0]: item_from_row(row) for row in await cursor.fetchall()}


async def write_attributes(connection: Connection, collection_id: int, changed: Sequence[Item]) -> None:
    """Store the attributes of items that are held; nothing else of them is written, ``updated_at`` neither."""
    ids = [item.item_id for item in changed]
    values = {
        "id": collection_id,
        "ids": ids,
        "attributes": [Jsonb(dict(item.attributes)) for item in changed],
        "hashes": [item.content_hash for item in changed],
    }
    await connection.execute(_SET_ATTRIBUTES, values)
    await know_attributes(connection, collection_id, ids)
    names = sorted({name for item in changed for name in item.attributes})
    declared = await (await connection.execute(_DECLARED, (collection_id, names))).fetchall()
    if any(row[0] for row in declared):
        await index_attributes(connection, collection_id, ids)
