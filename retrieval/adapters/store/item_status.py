"""An item's status is changed, and nothing else of it, whatever other writers do at the moment."""

from __future__ import annotations

from retrieval.adapters.store.database import Connection
from retrieval.adapters.store.items import ARCHIVED, ITEM_COLUMNS, item_from_row, remove_embeddings, write_items
from retrieval.adapters.store.spaces import table_of
from retrieval.domain.item import Item

_HELD = (
    f"SELECT {', '.join(ITEM_COLUMNS)} FROM items "  # noqa: S608 - of names that are the code's own
    "WHERE collection_id = %s AND item_id = %s FOR NO KEY UPDATE"
)

_SPACE = "SELECT space_id FROM collections WHERE collection_id = %s"


async def change_status(
    connection: Connection,
    collection_id: int,
    item_id: str,
    status: str,
    *,
    was: str | None = None,
) -> tuple[Item, Item] | None:
    """Give the item that status if it has the status ``was`` (None: any other); gives it before and after.

    None where it is not there, or has another status. Of those who change the same status at once, one does.
    Its embedding goes when it is archived.
    """
    cursor = await connection.execute(_HELD, (collection_id, item_id))
    row = await cursor.fetchone()
    if row is None:
        return None
    before = item_from_row(row)
    if before.status == status or (was is not None and before.status != was):
        return None
    after = before.changed(status=status)
    await write_items(connection, collection_id, [after])
    if status == ARCHIVED:
        # Read here: the space may have come a moment ago, and from here on nobody embeds the item.
        space = await (await connection.execute(_SPACE, (collection_id,))).fetchone()
        if space is not None and space[0] is not None:
            await remove_embeddings(connection, table_of(space[0]), collection_id, [item_id])
    return before, after
