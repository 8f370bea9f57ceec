"""The calls of collections and platforms that read, change and index, each of which loads what it needs."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from retrieval.adapters.store.items.items import BULK_ITEMS, Settled
from retrieval.domain.errors import InvalidLimitError, InvalidRequestError, UnknownItemError
from retrieval.domain.items.attribute import checked_filterable, checked_name
from retrieval.domain.items.collection import Neighbours, checked_neighbours
from retrieval.domain.items.item import Item
from retrieval.domain.search.filters import Filter, Where
from retrieval.engine.collection_handle import FRESH_SECONDS, CollectionHandle, told_if_gone
from retrieval.engine.feedback import FeedbackCalls
from retrieval.engine.request import checked_item_ids
from retrieval.services.workplace import Workplace

if TYPE_CHECKING:
    from retrieval.domain.items.item import StoredItem
    from retrieval.domain.records.recorded import RecordedRetrieval
    from retrieval.engine.replay import Replay
    from retrieval.services.add import AddedEach, AddReport, Writer
    from retrieval.services.change import ChangeReport, Decide, Make
    from retrieval.services.collections import CollectionStatus


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
        from retrieval.services.add import as_item

        given = as_item(item)
        return await self._put(given.item_id, given, version)

    async def patch(self, item_id: str, changes: Mapping[str, Any], *, version: str | None = None) -> StoredItem:
        """Change parts of an item, by a JSON merge patch (RFC 7396) on what ``Item.as_dict`` gives; else as ``put``.

        ``{"title": "new", "attributes": {"level": None}}`` sets the title and takes an attribute away. Whatever others
        write meanwhile, no change is lost. Raises ``UnknownItemError`` where there is none of that id.
        """
        from retrieval.adapters.readers.records import item_from_fields
        from retrieval.domain.items.item import checked_changes, merged

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
        from retrieval.services.change import remove

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
        from retrieval.services.add import AddReport, add_each

        added = await add_each(await self._writer(), items)
        if more:
            return added
        notes = await self._keep_indexed(added.report)
        return replace(added, report=added.report + AddReport(notes=notes))

    @told_if_gone
    async def _put(self, item_id: str, what: Item | Make, version: str | None) -> StoredItem:
        from retrieval.services.change import put, put_whole

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
        from retrieval.services.add import Writer

        return Writer(self._database, self._tenant_id, await self._fresh(), self._embedder)

    async def _keep_indexed(self, written: AddReport) -> tuple[str, ...]:
        """After a write of new or changed items: weights and indexes follow the collection's size."""
        from retrieval.services.indexes import IndexOutcome, flush_lexical, is_index_off, keep_index

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
        from retrieval.services.weights import DRIFT, refresh_weights

        if settled is None:
            return
        if settled.drift > DRIFT:
            await refresh_weights(self._database, self._tenant_id, self._stored.collection_id)
        if number >= BULK_ITEMS or settled.has_new_fields or self._stored.documents < FEW_ITEMS:
            await self.refresh()
        else:
            await self._fresh()


class ChangingCalls(ItemCalls):
    """The calls that change items, for a collection to inherit."""

    @told_if_gone
    async def change(self, item_ids: Sequence[str], decide: Decide, *, keeps_time: bool = False) -> ChangeReport:
        """Let each of the items become what ``decide`` says, all of them or none, whatever other writers do meanwhile.

        ``decide`` is called with an id and the item that is stored under it, or None; it gives the item as it shall be,
        the same object to leave it, or None for no item. It may be called again, so it only decides. With
        ``keeps_time`` attributes alone can change, and ``updated_at`` stays: attributes that are put back have the
        item's former version again. Of those who make the same new item at once, the last counts. Raises
        ``InvalidItemError`` and what ``decide`` raises. An embedder that fails leaves items pending.
        """
        from retrieval.services.add import AddReport
        from retrieval.services.change import ChangeReport, RemovalError, change

        keys, writer = checked_item_ids(item_ids), await self._writer()
        if not keys:
            return ChangeReport()
        try:
            report = await change(writer, keys, decide, keeps_time=keeps_time, may_remove=self._recorder is None)
        except RemovalError:
            if self._recorder is not None:  # records could not name the items afterwards
                await self._recorder.recorded()
            report = await change(writer, keys, decide, keeps_time=keeps_time)
        if keeps_time or report.is_nothing:
            return report
        notes = await self._keep_indexed(report.written)
        return replace(report, written=report.written + AddReport(notes=notes))


class IndexingCalls(CollectionHandle):
    """The calls about indexing, for a collection to inherit."""

    @told_if_gone
    async def make_filterable(self, attributes: Mapping[str, str]) -> None:
        """Declare attributes as filterable, each with its type: ``text``, ``number``, ``boolean`` or ``time``.

        They get an index, the stored items too, while writers wait; filters then compare them by that type. What is
        declared so already costs nothing. Raises ``InvalidRequestError`` for a name or a type that cannot be, and for
        an attribute that is declared with another type.
        """
        from retrieval.adapters.store.items.indexing import declare

        wanted = checked_filterable(attributes)
        stored = await self.refresh()
        collection_id = stored.collection_id
        if set(wanted) <= set(stored.filterable):
            return
        async with self._database.transaction(self._tenant_id) as connection:
            await declare(connection, collection_id, self.name, wanted)
        await self.refresh()

    @told_if_gone
    async def make_unfilterable(self, names: Sequence[str]) -> None:
        """Take back what ``make_filterable`` did; the items keep their attributes, and filters still work, slower."""
        from retrieval.adapters.store.items.indexing import clear_undeclared, undeclare

        if isinstance(names, str):
            raise InvalidRequestError(f"names come in a list such as ['priority'], not {names!r:.80}")
        wanted, collection_id = [checked_name(name) for name in names], (await self._fresh()).collection_id
        async with self._database.transaction(self._tenant_id) as connection:
            await undeclare(connection, collection_id, wanted)
        await self.refresh()
        # Other handles go by the declaration, and so by its index, until they look again.
        await asyncio.sleep(1.5 * FRESH_SECONDS)
        async with self._database.transaction(self._tenant_id) as connection:
            await clear_undeclared(connection, collection_id, wanted)

    @told_if_gone
    async def set_neighbours(self, neighbours: Neighbours | None) -> int:
        """Index the items together with their neighbours in a sequence from now on, or each alone (None).

        The stored items are indexed anew, by their words and by the vectors that they have, while searches and writes
        go on; gives how many. Interrupted, the same call, or the job ``neighbours``, goes on from there. What is set
        already costs nothing. Raises ``InvalidRequestError`` for anything else than ``Neighbours`` or None.
        """
        from retrieval.adapters.store.items.indexing import are_windows_behind, set_neighbours
        from retrieval.services.collections import refresh_windows
        from retrieval.services.indexes import flush_lexical

        wanted, stored = checked_neighbours(neighbours), await self.refresh()
        collection_id = stored.collection_id
        if wanted != stored.neighbours:
            async with self._database.transaction(self._tenant_id) as connection:
                await set_neighbours(connection, collection_id, wanted)
        elif not await are_windows_behind(self._database, self._tenant_id, collection_id):
            return 0
        indexed = await refresh_windows(self._database, self._tenant_id, collection_id)
        await flush_lexical(self._database, indexed)
        await self.refresh()
        return indexed


class InstallationCalls(FeedbackCalls):
    """The calls about records and the state of things, for the platform to inherit."""

    @property
    @abstractmethod
    def workplace(self) -> Workplace:
        """What jobs need."""

    async def retrieval(self, retrieval_id: UUID | str, collection: str | None = None) -> RecordedRetrieval:
        """A recorded search: what was asked, in what context, how it was answered, and what was shown.

        With a ``collection``, of its searches alone. Raises ``UnknownRetrievalError`` where there is no such record,
        and ``InvalidRequestError`` for what is no identifier.
        """
        from retrieval.services.replay import read_retrieval

        await self.recorded()
        return await read_retrieval(self.database, self.tenant_id, retrieval_id, collection)

    async def replay(self, retrieval_id: UUID | str, collection: str | None = None) -> Replay:
        """Whether a recorded ranking follows from its record, and where and why today's answer differs, hit by hit.

        With a ``collection``, of its searches alone. The search is asked again and not recorded. Raises
        ``UnknownRetrievalError`` where there is no such record, and ``InvalidRequestError`` for what is no identifier.
        """
        from retrieval.services.replay import replay

        await self.recorded()
        return await replay(self.workplace, self.tenant_id, retrieval_id, collection)

    async def statistics(self) -> list[CollectionStatus]:
        """How each of the tenant's collections stands: what is stored, what waits, what ran, what was measured."""
        # Jobs come with it, and a process that only searches should not wait for them.
        from retrieval.services.collections import collection_statuses

        return await collection_statuses(self.workplace, self.tenant_id)
