"""Changes items: several together by a function of each stored item, or one in the version that the caller names."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from retrieval.adapters.store.database import CollectionPlace, Connection, despite_deadlocks
from retrieval.adapters.store.items import items as store
from retrieval.adapters.store.items.items import ARCHIVED, ItemIsThereError, ItemWrite, Settled
from retrieval.domain import checks
from retrieval.domain.checks import kind_of
from retrieval.domain.errors import InvalidItemError, UnknownItemError
from retrieval.domain.items.item import ABSENT, Became, Item, StoredItem, check_version, version_of
from retrieval.services.add import AddReport, Writer, later

_log = logging.getLogger(__name__)

Make = Callable[[Item | None], Item]
"""Returns the new item for the stored one (None: there is no such item)."""


async def put(writer: Writer, item_id: str, make: Make, version: str | None) -> tuple[StoredItem, AddReport]:
    """Replace the item by what ``make`` returns, in the transaction that checks its version; then embed it.

    Raises ``VersionConflictError`` where it is not in that version (see ``check_version``), and what ``make`` raises.
    """

    async def written() -> tuple[Item, StoredItem, AddReport]:
        async with writer.database.transaction(writer.tenant_id) as connection:
            former = await store.hold_item(connection, writer.collection.collection_id, item_id)
            check_version(item_id, former.version if former else None, version)
            item = make(former.item if former else None)
            await writer.check([item])
            # By the stored hash: JSON in the database has no -0.0, and reads 1e22 as an integer.
            if former is not None and former.version == version_of(item.content_hash, former.updated_at):
                return item, replace(former, became=Became.UNCHANGED), AddReport(unchanged=1)
            return item, *await _write_one(connection, writer, item, former, only_new=version == ABSENT)

    item, stored, report = await despite_deadlocks(written)
    waiting = [] if item.status == ARCHIVED else [item]
    if stored.became is Became.UNCHANGED:
        waiting = await writer.left_over(waiting)
    return stored, report + await writer.embed(waiting)


async def _write_one(
    connection: Connection, writer: Writer, item: Item, former: StoredItem | None, *, only_new: bool
) -> tuple[StoredItem, AddReport]:
    write = ItemWrite(writer.collection.collection_id, [item], writer.collection.space_id, only_new=only_new)
    try:
        written = await store.write_items(connection, write)
    except ItemIsThereError:
        # Another caller added it after the check: this write is rolled back.
        check_version(item.item_id, "another", ABSENT)
        raise
    stored = store.stored_as(item, written)
    if stored is None:
        raise UnknownItemError(f"item {checks.written(item.item_id)} was removed while it was written; put it again")
    # Without a former item, another caller may have added it after the check.
    became = Became.CHANGED if former else stored.became
    report = AddReport(
        added=became is Became.ADDED,
        changed=became is Became.CHANGED,
        unchanged=became is Became.UNCHANGED,
        settled=written.settled,
    )
    return replace(stored, became=became), report


async def remove(at: CollectionPlace, item_id: str, version: str) -> tuple[int, Settled | None]:
    """Remove the item if it is in that version; returns how many were removed. Raises ``VersionConflictError``."""
    async with at.database.transaction(at.tenant_id) as connection:
        former = await store.hold_item(connection, at.collection_id, item_id)
        check_version(item_id, former.version if former else None, version)
        return (0, None) if former is None else await store.remove_items(at._replace(connection=connection), [item_id])


Decide = Callable[[str, Item | None], Item | None]
"""Returns the new item for an id and its stored item; None stands for no item."""

Find = Callable[[Connection], Awaitable[Sequence[str]]]
"""Returns the ids of the items to change, read in the transaction that changes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeReport:
    """The outcome of a change of many items."""

    written: AddReport = field(default_factory=AddReport)
    removed: int = 0

    @property
    def is_nothing(self) -> bool:
        """Whether the change changes nothing."""
        return not (self.written.added or self.written.changed or self.removed)


class RemovalError(Exception):
    """Items would be removed, and the caller has something to do first; nothing was changed."""


async def change(
    writer: Writer, item_ids: Sequence[str] | Find, decide: Decide, *, keeps_time: bool = False, may_remove: bool = True
) -> ChangeReport:
    """Replace each item by what ``decide`` returns, all in one transaction; then embed those that need it.

    ``item_ids`` may be a function that finds them. An item that ``decide`` returns as the same object is left alone. If
    another caller creates one of the items meanwhile, everything is decided again. Raises ``InvalidItemError`` for an
    item of another id, or with ``keeps_time`` for more than a change of attributes, and ``RemovalError`` unless it
    ``may_remove``.
    """
    collection_id = writer.collection.collection_id

    async def decided() -> tuple[dict[str, Item], list[Item], list[str], Settled | None]:
        while True:
            try:
                return await decided_once()
            except ItemIsThereError as error:
                _log.info("item %.80r was created by another caller; deciding again", error.item_id)

    async def decided_once() -> tuple[dict[str, Item], list[Item], list[str], Settled | None]:
        async with writer.database.transaction(writer.tenant_id) as connection:
            ids = await item_ids(connection) if callable(item_ids) else item_ids
            former = await store.hold_items(connection, collection_id, ids)
            written, removed = _decide(former, sorted(set(ids)), decide)
            await writer.check(written)
            if removed and not may_remove:
                raise RemovalError
            if not keeps_time:
                return former, written, removed, await _write(connection, writer, former, written, removed)
            _check_annotations(former, written, removed)
            await store.write_attributes(connection, collection_id, written)
            return former, written, removed, None

    former, written, removed, settled = await despite_deadlocks(decided)
    added = sum(item.item_id not in former for item in written)
    report = AddReport(added=added, changed=len(written) - added, settled=settled)
    if not keeps_time:
        waiting = [item for item in written if item.status != ARCHIVED]
        embedded = {item_id: item.indexed_text for item_id, item in former.items() if item.status != ARCHIVED}
        fresh = [item for item in waiting if embedded.get(item.item_id) != item.indexed_text]
        report += await writer.embed(fresh + await writer.left_over(waiting, fresh))
    return ChangeReport(written=report, removed=len(removed))


def _decide(former: Mapping[str, Item], item_ids: Sequence[str], decide: Decide) -> tuple[list[Item], list[str]]:
    """The items to write, and the ids of those to remove."""
    written, removed = list[Item](), list[str]()
    for item_id in item_ids:
        before = former.get(item_id)
        after = decide(item_id, before)
        if after is None:
            removed.extend([] if before is None else [item_id])
        elif not isinstance(after, Item):
            raise InvalidItemError(
                f"decide returned {kind_of(after)} for item {checks.written(item_id)}; "
                "it must return an Item, or None to remove the item",
                item_id=item_id,
            )
        elif after.item_id != item_id:
            raise InvalidItemError(f"item {checks.written(item_id)} cannot become another one", item_id=item_id)
        elif after is not before:
            written.append(after)
    return written, removed


async def _write(
    connection: Connection, writer: Writer, former: Mapping[str, Item], written: Sequence[Item], removed: Sequence[str]
) -> Settled | None:
    collection = writer.collection
    settled: Settled | None = None
    if written:
        # Together, because each call locks new attributes in the order in which all writers lock them.
        write = await store.write_items(connection, ItemWrite(collection.collection_id, written, collection.space_id))
        if created := write.formers.keys() - former.keys():
            raise ItemIsThereError(min(created))
        settled = write.settled
        known = [(former[item.item_id], item) for item in written if item.item_id in former]
        unchanged = [after.item_id for before, after in known if before.content_hash == after.content_hash]
        await store.touch_items(connection, collection.collection_id, unchanged)
    if removed:
        place = writer.place._replace(connection=connection)
        settled = later(settled, (await store.remove_items(place, removed))[1])
    return settled


def _check_annotations(former: Mapping[str, Item], written: Sequence[Item], removed: Sequence[str]) -> None:
    for item in written:
        before = former.get(item.item_id)
        if before is None or before.changed(attributes=item.attributes) != item:
            raise InvalidItemError(
                f"item {checks.written(item.item_id)}: only attributes can change while its time stays",
                item_id=item.item_id,
            )
    if removed:
        raise InvalidItemError("nothing can be removed while times stay", item_id=removed[0])
