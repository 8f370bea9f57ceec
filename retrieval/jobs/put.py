"""One item is put, changed or removed, as long as it is what the caller takes it to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from retrieval.adapters.store.database import Connection
from retrieval.adapters.store.items.items import (
    ARCHIVED,
    delete_items,
    hold_item,
    remove_embeddings,
    write_items,
    write_new_items,
)
from retrieval.domain.errors import UnknownItemError
from retrieval.domain.item import Item
from retrieval.domain.stored_item import ABSENT, Became, StoredItem, check_version
from retrieval.jobs.add import AddReport, Writer

Make = Callable[[Item | None], Item]
"""Says what an item becomes, from what it is (None: there is none)."""


async def put(writer: Writer, item_id: str, make: Make, version: str | None) -> tuple[StoredItem, AddReport]:
    """Let the item become what ``make`` says, in one transaction with the look at its version; then embed it.

    Raises ``VersionConflictError`` where it is not in that version (see ``check_version``), and what ``make`` raises.
    """
    async with writer.database.transaction(writer.tenant_id) as connection:
        stored = await _put(connection, writer, item_id, make, version)
    if stored.item.status == ARCHIVED:
        return stored, _counted(stored.became)
    waiting = [stored.item]
    if stored.became is Became.UNCHANGED:
        waiting = await writer.left_over(waiting)
    return stored, _counted(stored.became) + await writer.embed(waiting)


async def _put(connection: Connection, writer: Writer, item_id: str, make: Make, version: str | None) -> StoredItem:
    collection_id = writer.collection.collection_id
    held = await hold_item(connection, collection_id, item_id)
    check_version(item_id, held[0].version if held else None, version)
    item = make(held[0].item if held else None)
    if held is not None and held[1] == item.content_hash:
        return replace(held[0], became=Became.UNCHANGED)
    if version != ABSENT:
        await write_items(connection, collection_id, [item])
    elif await write_new_items(connection, collection_id, [item]):
        # Somebody else added it after the look at it: what was written here is rolled back.
        check_version(item_id, "another", ABSENT)
    if item.status == ARCHIVED and writer.collection.space is not None:
        await remove_embeddings(connection, writer.collection.space.table_name, collection_id, [item_id])
    written = await hold_item(connection, collection_id, item_id)
    if written is None:
        raise UnknownItemError(f"item {item_id!r:.80} was removed while it was written; put it again")
    return replace(written[0], became=Became.CHANGED if held else Became.ADDED)


async def remove(connection: Connection, collection_id: int, item_id: str, version: str | None) -> bool:
    """Remove the item if it is in that version; whether it was there. Raises ``VersionConflictError``."""
    held = await hold_item(connection, collection_id, item_id)
    check_version(item_id, held[0].version if held else None, version)
    return held is not None and await delete_items(connection, collection_id, [item_id]) > 0


def _counted(became: Became | None) -> AddReport:
    return AddReport(
        added=became is Became.ADDED, changed=became is Became.CHANGED, unchanged=became is Became.UNCHANGED
    )
