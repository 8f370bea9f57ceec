"""Items with their versions: read, and held while a writer decides what becomes of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Connection, Database
from retrieval.adapters.store.items import ITEM_COLUMNS, item_from_row
from retrieval.domain.stored_item import StoredItem, version_of

STORED_COLUMNS = (*ITEM_COLUMNS, "created_at", "updated_at", "content_hash")
"""What is read of an item with its version, in this order."""

_READ = Compiled(
    f"SELECT {', '.join(STORED_COLUMNS)} FROM items "  # noqa: S608 - of the names above
    "WHERE collection_id = %(collection_id)s AND item_id = ANY(%(item_ids)s)"
)
_HELD = (
    f"SELECT {', '.join(STORED_COLUMNS)} FROM items "  # noqa: S608 - of the names above
    "WHERE collection_id = %s AND item_id = %s FOR NO KEY UPDATE"
)


async def read_stored(
    database: Database, tenant_id: int, collection_id: int, item_ids: Sequence[str]
) -> dict[str, StoredItem]:
    """The items of those ids that exist, by item id."""
    statement = _READ.bind(collection_id=collection_id, item_ids=list(item_ids))
    return {row[0]: stored_from_row(row) for row in await database.read(tenant_id, statement)}


async def hold_item(connection: Connection, collection_id: int, item_id: str) -> tuple[StoredItem, bytes] | None:
    """The item and its content hash, which nobody else changes before the transaction ends; None where it is not."""
    row = await (await connection.execute(_HELD, (collection_id, item_id))).fetchone()
    return None if row is None else (stored_from_row(row), bytes(row[-1]))


def stored_from_row(row: tuple[Any, ...]) -> StoredItem:
    """The item whose ``STORED_COLUMNS`` were read."""
    created_at, updated_at, content_hash = row[len(ITEM_COLUMNS) :]
    return StoredItem(
        item=item_from_row(row[: len(ITEM_COLUMNS)]),
        version=version_of(bytes(content_hash), updated_at),
        created_at=created_at,
        updated_at=updated_at,
    )
