"""Writes to a collection's items: each is followed by what weights, indexes and the collection's handle need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from retrieval.adapters.readers import InputLine
from retrieval.adapters.readers.records import item_from_fields
from retrieval.adapters.store.items.items import BULK_ITEMS, ItemIsThereError, Settled, remove_items, stored_as
from retrieval.adapters.store.replicas import token_of
from retrieval.adapters.store.search.terms import DRIFT, refresh_weights
from retrieval.domain import checks
from retrieval.domain.checks import check_functions
from retrieval.domain.errors import InvalidItemError, InvalidRequestError, UnknownItemError
from retrieval.domain.items.embedding import Vector, checked_vectors
from retrieval.domain.items.item import ITEM_FIELDS, Item, StoredItem, check_key, checked_changes, merged
from retrieval.engine.collection_handle import CollectionHandle, checks_existence
from retrieval.engine.request import checked_item_ids
from retrieval.services import add as adding
from retrieval.services import change as changing
from retrieval.services.add import AddedEach, AddReport, Writer, as_item, checked_items
from retrieval.services.change import ChangeReport, Decide, RemovalError
from retrieval.services.indexes import IndexOutcome, flush_lexical, is_index_off, keep_index
from retrieval.services.ingest import IngestReport, Progress, Rejected, WithoutText, checked_lines
from retrieval.services.ingest import ingest as ingest_lines

FEW_ITEMS = 1000
"""In a collection of fewer items, as last read, its size is read again after each write."""


@checks_existence
async def add(handle: CollectionHandle, items: Iterable[Item | Mapping[str, Any]], embeddings: object) -> AddReport:
    """See ``Collection.add``."""
    batch = [as_item(item) for item in checked_items(items)]
    vectors = None
    if embeddings is not None:
        space = (await handle.fresh()).space
        if space is None:
            raise InvalidRequestError(
                f"collection {handle.name!r} has no embedding space for the vectors; make it with "
                "platform.collection(name, space=EmbeddingSpace(provider=..., model=..., dimensions=...))"
            )
        vectors = checked_vectors(embeddings, space.space, [repr(item.item_id) for item in batch])
    report = await adding.add_in_parts(await writer_of(handle), batch, vectors)
    report += adding.repeated_among(item.item_id for item in batch)
    notes = WithoutText.among(batch).notes(len(batch)) if vectors is None else ()
    return report + AddReport(notes=notes) + await finished(handle, report)


@checks_existence
async def add_new(handle: CollectionHandle, item: Item | Mapping[str, Any], vector: Vector | None = None) -> AddReport:
    """Store an item that must not exist yet; of callers that add the same id at once, one succeeds.

    ``vector``, of shape (dimensions,) and length 1, is used instead of the embedder's. Raises ``InvalidItemError``,
    also for an id that is stored, archived or not. Otherwise it works like ``Collection.add``.
    """
    vectors = None if vector is None else vector[None]
    try:
        report, _ = await (await writer_of(handle)).add_beside([as_item(item)], vectors, only_new=True)
    except ItemIsThereError as error:
        known = error.item_id
        raise InvalidItemError(
            f"item {checks.written(known)} already exists; give it another id", item_id=known
        ) from error
    return report + await finished(handle, report)


@checks_existence
async def add_each(
    handle: CollectionHandle, items: Sequence[Item | Mapping[str, Any]], *, more: bool = False
) -> AddedEach:
    """Store the valid items, in one transaction; returns the outcome of each item.

    The outcome of an item that is refused has its ``InvalidItemError``; the other items are stored. ``more`` says that
    another call follows at once: ``finished`` is left to the caller then.
    """
    added = await adding.add_each(await writer_of(handle), checked_items(items))
    if more:
        return added
    repeated = adding.repeated_among(
        outcome.item_id for outcome in added.outcomes if outcome.item_id and outcome.error is None
    )
    return replace(added, report=added.report + repeated + await finished(handle, added.report))


@checks_existence
async def ingest(
    handle: CollectionHandle,
    lines: Iterator[InputLine],
    *,
    rejected: Rejected | None,
    prune: bool,
    progress: Progress | None,
) -> IngestReport:
    """See ``Collection.ingest``."""
    checked = checked_lines(lines)
    check_functions(rejected=rejected, progress=progress)
    report = await ingest_lines(await writer_of(handle), checked, rejected=rejected, prune=prune, progress=progress)
    return replace(report, items=report.items + await finished(handle, report.items))


@checks_existence
async def put(handle: CollectionHandle, item: Item | Mapping[str, Any], version: str | None) -> StoredItem:
    """See ``Collection.put``."""
    whole, writer = as_item(item), await writer_of(handle)
    stored = None
    if version is None:
        report, written = await writer.add_beside([whole])
        stored = stored_as(whole, written)
    if stored is None:  # a version is given; or the item was unchanged, or another caller has changed it since
        stored, report = await changing.put(writer, whole.item_id, lambda _: whole, version)
    await keep_indexed(handle, report)
    return stored


@checks_existence
async def patch(handle: CollectionHandle, item_id: str, changes: Mapping[str, Any], version: str | None) -> StoredItem:
    """See ``Collection.patch``."""
    [key] = checked_item_ids([item_id])
    checked = checked_changes(key, changes)

    def changed(former: Item | None) -> Item:
        if former is None:
            raise UnknownItemError(f"there is no item {checks.written(key)} in {handle.name!r}; put it whole")
        fields = merged({name: getattr(former, name) for name in ITEM_FIELDS}, checked)
        attributes = fields.pop("attributes", {})
        return item_from_fields({**fields, "item_id": key}, attributes)

    stored, report = await changing.put(await writer_of(handle), key, changed, version)
    await keep_indexed(handle, report)
    return stored


@checks_existence
async def change(
    handle: CollectionHandle, item_ids: Sequence[str], decide: Decide, *, keeps_time: bool
) -> ChangeReport:
    """See ``Collection.change``."""
    if not callable(decide):
        raise InvalidRequestError(f"decide is {checks.written(decide)}; it must be a function")
    keys, writer = checked_item_ids(item_ids), await writer_of(handle)
    if not keys:
        return ChangeReport()
    try:
        report = await changing.change(writer, keys, decide, keeps_time=keeps_time, may_remove=not handle.is_recorded)
    except RemovalError:
        await handle.recorded()  # records could not name the items afterwards
        report = await changing.change(writer, keys, decide, keeps_time=keeps_time)
    if report.is_nothing:
        return report
    return replace(report, written=report.written + await finished(handle, report.written))


@checks_existence
async def set_status(handle: CollectionHandle, item_id: str, status: str, *, was: str | None = None) -> bool:
    """Give an item another status if it has the status ``was`` (None: any other); returns whether it changed.

    Nothing else of it changes, and of callers that do the same at once, one succeeds. An item with the status
    ``archived`` is kept, but searches do not find it. Raises ``InvalidItemError`` for a status that no item can have.
    """
    [key] = checked_item_ids([item_id])
    for value in (status,) if was is None else (status, was):
        check_key("status", value, key)

    def with_status(_: str, item: Item | None) -> Item | None:
        if item is None or item.status == status or (was is not None and item.status != was):
            return item
        return item.changed(status=status)

    report = await changing.change(await writer_of(handle), [key], with_status)
    await keep_indexed(handle, report.written)
    return not report.is_nothing


@checks_existence
async def delete(handle: CollectionHandle, item_ids: str | Sequence[str], version: str | None = None) -> int:
    """See ``Collection.delete``."""
    keys = checked_item_ids(item_ids)
    if version is not None and len(keys) != 1:
        raise InvalidRequestError(f"a version is that of one item, and {len(keys)} are given; delete them one by one")
    await handle.recorded()
    place = await handle.place()
    if version is not None:
        deleted, settled = await changing.remove(place, keys[0], version)
    else:
        deleted, settled = await remove_items(place, sorted(set(keys)))
    await settle(handle, settled, deleted)
    return deleted


async def writer_of(handle: CollectionHandle) -> Writer:
    """A writer into the collection as it is."""
    stored = await handle.fresh()
    return Writer(handle.database, handle.tenant_id, stored, handle.embedder_of(stored))


async def finished(handle: CollectionHandle, written: AddReport) -> AddReport:
    """The notes at the end of a write, and its token where searches read from replicas."""
    notes = written.notes_on_waiting() + await keep_indexed(handle, written)
    token = None if handle.database.replicas is None else await token_of(handle.database)
    return AddReport(notes=notes, token=token)


async def keep_indexed(handle: CollectionHandle, written: AddReport) -> tuple[str, ...]:
    """Adapt weights and indexes to the collection's size after a write.

    A write that changed nothing builds a missing index too: it may repeat one that was interrupted during the build.
    """
    number = written.added + written.changed
    if written.settled is not None:
        await flush_lexical(handle.database, number)
        await settle(handle, written.settled, number)
    if number < BULK_ITEMS and not is_index_off(handle.stored):
        return ()
    outcome = await keep_index(handle.database, handle.tenant_id, await handle.refresh())
    if outcome not in {IndexOutcome.NOT_NEEDED, IndexOutcome.PRESENT}:
        await handle.refresh()
    return (f"HNSW index: {outcome.value}",) if outcome is IndexOutcome.NOT_ALLOWED else ()


async def settle(handle: CollectionHandle, settled: Settled | None, number: int) -> None:
    """Recompute weights that have drifted, and update the handle's size, after a write of that number of items."""
    if settled is None:
        return
    if settled.drift > DRIFT:
        await refresh_weights(handle.place_of(handle.stored))
    if number >= BULK_ITEMS or settled.has_new_fields or handle.stored.documents < FEW_ITEMS:
        await handle.refresh()
    else:
        await handle.fresh()
