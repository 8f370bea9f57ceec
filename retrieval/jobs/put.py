"""One item is put, changed or removed, as long as it is what the caller takes it to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from retrieval.adapters.store.database import Connection, Database
from retrieval.adapters.store.items.items import (
    ARCHIVED,
    ItemIsThereError,
    ItemWrite,
    Settled,
    delete_items,
    hold_item,
    remove_items,
    stored_as,
    write_items,
)
from retrieval.domain.errors import UnknownItemError
from retrieval.domain.item import Item
from retrieval.domain.stored_item import ABSENT, Became, StoredItem, check_version
from retrieval.jobs.add import AddReport, Writer

Make = Callable[[Item | None], Item]
"""Says what an item becomes, from what it is (None: there is none)."""


async def put_whole(writer: Writer, item: Item) -> tuple[StoredItem, AddReport]:
    """Store the item, whatever is stored under its id, and embed it."""
    report, written = await writer.add_beside([item])
    stored = stored_as(item, written)
    # Unchanged, it was not written; or somebody else has changed it since.
    return (stored, report) if stored is not None else await put(writer, item.item_id, lambda _: item, None)


async def put(writer: Writer, item_id: str, make: Make, version: str | None) -> tuple[StoredItem, AddReport]:
    """Let the item become what ``make`` says, in one transaction with the look at its version; then embed it.

    Raises ``VersionConflictError`` where it is not in that version (see ``check_version``), and what ``make`` raises.
    """
    async with writer.database.transaction(writer.tenant_id) as connection:
        stored, settled = await _put(connection, writer, item_id, make, version)
    counted = replace(_counted(stored.became), settled=settled)
    if stored.item.status == ARCHIVED:
        return stored, counted
    waiting = [stored.item]
    if stored.became is Became.UNCHANGED:
        waiting = await writer.left_over(waiting)
    return stored, counted + await writer.embed(waiting)


async def _put(
    connection: Connection, writer: Writer, item_id: str, make: Make, version: str | None
) -> tuple[StoredItem, Settled | None]:
    collection = writer.collection
    held = await hold_item(connection, collection.collection_id, item_id)
    check_version(item_id, held[0].version if held else None, version)
    item = make(held[0].item if held else None)
    if held is not None and held[1] == item.content_hash:
        return replace(held[0], became=Became.UNCHANGED), None
    space_id = None if collection.space is None else collection.space.space_id
    write = ItemWrite(collection.collection_id, [item], space_id, only_new=version == ABSENT)
    try:
        written = await write_items(connection, write)
    except ItemIsThereError:
        # Somebody else added it after the look at it: what was written here is rolled back.
        check_version(item_id, "another", ABSENT)
        raise
    stored = stored_as(item, written)
    if stored is None:
        raise UnknownItemError(f"item {item_id!r:.80} was removed while it was written; put it again")
    return replace(stored, became=Became.CHANGED if held else Became.ADDED), written.settled


async def remove(
    database: Database, tenant_id: int, collection_id: int, item_id: str, version: str | None
) -> tuple[bool, Settled | None]:
    """Remove the item if it is in that version; whether it was there. Raises ``VersionConflictError``."""
    if version is None:
        removed, settled = await remove_items(database, tenant_id, collection_id, [item_id])
        return removed > 0, settled
    async with database.transaction(tenant_id) as connection:
        held = await hold_item(connection, collection_id, item_id)
        check_version(item_id, held[0].version if held else None, version)
        if held is None:
            return False, None
        removed, settled = await delete_items(connection, collection_id, [item_id])
    return removed > 0, settled


def _counted(became: Became | None) -> AddReport:
    return AddReport(
        added=became is Became.ADDED, changed=became is Became.CHANGED, unchanged=became is Became.UNCHANGED
    )
