"""What is called about single items: read with their versions, put, changed and removed without losing an update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from retrieval.adapters.store.items.items import BULK_ITEMS, Settled
from retrieval.domain.errors import InvalidLimitError, UnknownItemError
from retrieval.domain.filters import Filter, Where
from retrieval.domain.item import Item
from retrieval.engine.collection_handle import CollectionHandle, told_if_gone
from retrieval.engine.item_ids import checked_item_ids

if TYPE_CHECKING:
    from retrieval.domain.stored_item import StoredItem
    from retrieval.jobs.add import AddReport, Writer
    from retrieval.jobs.add_each import AddedEach
    from retrieval.jobs.put import Make

FEW_ITEMS = 1000
"""A handle of a collection that had fewer when it was read last reads its size anew after each write."""

MAX_PAGE = 1000
"""Items that one page holds at most."""


class ItemCalls(CollectionHandle):
    """The calls about single items, for a collection to inherit."""

    async def stored(self, item_ids: Sequence[str]) -> dict[str, StoredItem]:
        """The items of those ids that exist, each with its version and times, by item id."""
        from retrieval.adapters.store.items.items import read_stored

        keys = checked_item_ids(item_ids)
        return await read_stored(self._database, self._tenant_id, (await self._fresh()).collection_id, keys)

    async def page(self, where: Where | Filter | None = None, *, after: str = "", limit: int = 100) -> list[StoredItem]:
        """The next items that the filter lets through, in order of item id: those whose id comes after ``after``.

        ``limit`` is 1 to 1000; fewer items mean that these are the last. Archived ones as for ``scan``. Raises
        ``InvalidLimitError``, and the errors of filters.
        """
        from retrieval.adapters.store.items.listing import stored_items_after

        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_PAGE:
            raise InvalidLimitError(f"limit is {limit!r:.80}; it must be a whole number from 1 to {MAX_PAGE}")
        [start] = checked_item_ids([after])
        stored, wanted = await self._filtered(where)
        return await stored_items_after(self._database, self._tenant_id, stored, wanted, after=start, limit=limit)

    async def put(self, item: Item | Mapping[str, Any], *, version: str | None = None) -> StoredItem:
        """Store one item, new or in place of the one of its id, and embed it; ``became`` tells what that made of it.

        ``version``: only if it is still in that version (as ``stored`` gives it), if it is there at all (``"*"``), or
        only if it is not (``""``). Else ``VersionConflictError`` is raised and nothing is changed; of those who put the
        same version at once, one does. Raises ``InvalidItemError``. An embedder that fails leaves the item pending.
        """
        from retrieval.jobs.add_each import as_item

        given = as_item(item)
        return await self._put(given.item_id, given, version)

    async def patch(self, item_id: str, changes: Mapping[str, Any], *, version: str | None = None) -> StoredItem:
        """Change parts of an item, by a JSON merge patch (RFC 7396) on what ``Item.as_dict`` gives; else as ``put``.

        ``{"title": "new", "attributes": {"level": None}}`` sets the title and takes an attribute away. Whatever others
        write meanwhile, no change is lost. Raises ``UnknownItemError`` where there is none of that id.
        """
        from retrieval.adapters.readers.records import item_from_fields
        from retrieval.domain.merge_patch import checked_changes, merged

        [key] = checked_item_ids([item_id])
        wanted = checked_changes(key, changes)

        def changed(found: Item | None) -> Item:
            if found is None:
                raise UnknownItemError(f"there is no item {key!r:.80} in {self.name!r:.80}; put it whole")
            fields = merged(found.as_dict(), wanted)
            attributes = fields.pop("attributes", {})
            return item_from_fields({**fields, "item_id": key}, attributes)

        return await self._put(key, changed, version)

    @told_if_gone
    async def remove(self, item_id: str, *, version: str | None = None) -> bool:
        """Remove one item with its terms and vectors, and whether it was there; ``version`` is as for ``put``.

        Else as ``delete``.
        """
        from retrieval.jobs.put import remove

        [key] = checked_item_ids([item_id])
        if self._recorder is not None:
            await self._recorder.recorded()
        collection_id = (await self._fresh()).collection_id
        removed, settled = await remove(self._database, self._tenant_id, collection_id, key, version)
        await self._settle(settled, int(removed))
        return removed

    @told_if_gone
    async def add_each(self, items: Sequence[Item | Mapping[str, Any]], *, more: bool = False) -> AddedEach:
        """Store those of the items that can be, in one transaction, and tell of each what became of it.

        What is refused holds up no other: its outcome has the ``InvalidItemError``. Once this returns, the others are
        stored. With ``more`` another call follows at once, and the last one, which may be of no items, sees to indexes.
        """
        from retrieval.jobs.add import AddReport
        from retrieval.jobs.add_each import add_each

        added = await add_each(await self._writer(), items)
        if more:
            return added
        notes = await self._keep_indexed(added.report)
        return replace(added, report=added.report + AddReport(notes=notes))

    @told_if_gone
    async def _put(self, item_id: str, what: Item | Make, version: str | None) -> StoredItem:
        from retrieval.jobs.put import put, put_whole

        writer = await self._writer()
        if not isinstance(what, Item):
            stored, report = await put(writer, item_id, what, version)
        elif version is None:
            stored, report = await put_whole(writer, what)
        else:
            stored, report = await put(writer, item_id, lambda _: what, version)
        await self._keep_indexed(report)
        return stored

    async def _writer(self) -> Writer:
        from retrieval.jobs.add import Writer

        return Writer(self._database, self._tenant_id, await self._fresh(), self._embedder)

    async def _keep_indexed(self, written: AddReport) -> tuple[str, ...]:
        """After a write of new or changed items: weights and indexes follow the collection's size."""
        from retrieval.jobs.indexes import IndexOutcome, flush_lexical, is_index_off, keep_index

        if written.settled is None:
            return ()
        number = written.added + written.changed
        await flush_lexical(self._database, number)
        await self._settle(written.settled, number)
        if number < BULK_ITEMS and not is_index_off(self._stored):
            return ()
        outcome = await keep_index(self._database, self._tenant_id, await self.refresh())
        if outcome not in {IndexOutcome.NOT_NEEDED, IndexOutcome.PRESENT}:
            await self.refresh()
        return (f"HNSW index: {outcome.value}",) if outcome is IndexOutcome.NOT_ALLOWED else ()

    async def _settle(self, settled: Settled | None, number: int) -> None:
        """After a write of so many items: they are weighed, and the handle knows how many there are."""
        from retrieval.jobs.weights import DRIFT, refresh_weights

        if settled is None:
            return
        if settled.drift > DRIFT:
            await refresh_weights(self._database, self._tenant_id, self._stored.collection_id)
        if number >= BULK_ITEMS or settled.has_new_fields or self._stored.documents < FEW_ITEMS:
            await self.refresh()
        else:
            await self._fresh()
