"""Items are changed together, by what is stored of each at that moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from retrieval.adapters.store.database import Connection
from retrieval.adapters.store.items.items import (
    ARCHIVED,
    ItemWrite,
    Settled,
    delete_items,
    hold_items,
    touch_items,
    write_attributes,
    write_items,
)
from retrieval.domain.errors import InvalidItemError
from retrieval.domain.item import Item
from retrieval.jobs.add import AddReport, Writer

Decide = Callable[[str, Item | None], Item | None]
"""Says what the item of an id becomes, from what it is; None: no item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeReport:
    """What became of the items."""

    written: AddReport = field(default_factory=AddReport)
    removed: int = 0

    @property
    def is_nothing(self) -> bool:
        """Whether all is as it was."""
        return not (self.written.added or self.written.changed or self.removed)


class RemovalError(Exception):
    """Items are to go, and the caller has something to do before that; nothing was changed."""


@dataclass(frozen=True, slots=True)
class _Decided:
    held: Mapping[str, Item]
    written: list[Item]
    removed: list[str]

    @property
    def report(self) -> ChangeReport:
        added = sum(item.item_id not in self.held for item in self.written)
        written = AddReport(added=added, changed=len(self.written) - added)
        return ChangeReport(written=written, removed=len(self.removed))

    @property
    def same(self) -> list[str]:
        """The ids of what is written as it was."""
        held = self.held
        return [
            one.item_id
            for one in self.written
            if one.item_id in held and held[one.item_id].content_hash == one.content_hash
        ]

    def is_fresh(self, item: Item) -> bool:
        """Whether the item's vector cannot be there yet."""
        before = self.held.get(item.item_id)
        return before is None or before.text != item.text or before.status == ARCHIVED


async def change(
    writer: Writer, item_ids: Sequence[str], decide: Decide, *, keeps_time: bool = False, may_remove: bool = True
) -> ChangeReport:
    """Let each of the items become what ``decide`` says, all in one transaction; then embed those that need it.

    An item that is given back as the same object is left alone. Raises ``InvalidItemError`` for an item of another id,
    or with ``keeps_time`` for more than a change of attributes, and ``RemovalError`` unless it ``may_remove``.
    """
    settled: Settled | None = None
    async with writer.database.transaction(writer.tenant_id) as connection:
        held = await hold_items(connection, writer.collection.collection_id, item_ids)
        decided = _decided(held, sorted(set(item_ids)), decide)
        if decided.removed and not may_remove:
            raise RemovalError
        if keeps_time:
            await _annotate(connection, writer.collection.collection_id, decided)
        else:
            settled = await _write(connection, writer, decided)
    if keeps_time:
        return decided.report
    waiting = [item for item in decided.written if item.status != ARCHIVED]
    fresh = [item for item in waiting if decided.is_fresh(item)]
    embedded = await writer.embed(fresh + await writer.left_over(waiting, fresh))
    return replace(decided.report, written=decided.report.written + embedded + AddReport(settled=settled))


def _decided(held: Mapping[str, Item], item_ids: Sequence[str], decide: Decide) -> _Decided:
    decided = _Decided(held, [], [])
    for item_id in item_ids:
        before = held.get(item_id)
        after = decide(item_id, before)
        if after is None:
            decided.removed.extend([] if before is None else [item_id])
        elif after.item_id != item_id:
            raise InvalidItemError(f"item {item_id!r:.80} cannot become another one", item_id=item_id)
        elif after is not before:
            decided.written.append(after)
    return decided


async def _write(connection: Connection, writer: Writer, decided: _Decided) -> Settled | None:
    collection, settled = writer.collection, None
    if decided.written:
        space_id = None if collection.space is None else collection.space.space_id
        write = ItemWrite(collection.collection_id, decided.written, space_id)
        settled = (await write_items(connection, write)).settled
        await touch_items(connection, collection.collection_id, decided.same)
    if decided.removed:
        _, after = await delete_items(connection, collection.collection_id, decided.removed)
        settled = after if settled is None else replace(after, has_new_fields=settled.has_new_fields)
    return settled


async def _annotate(connection: Connection, collection_id: int, decided: _Decided) -> None:
    for item in decided.written:
        before = decided.held.get(item.item_id)
        if before is None or before.changed(attributes=item.attributes) != item:
            raise InvalidItemError(
                f"item {item.item_id!r:.80}: attributes alone can change while its time stays", item_id=item.item_id
            )
    if decided.removed:
        raise InvalidItemError("nothing can be removed while times stay", item_id=decided.removed[0])
    if decided.written:
        await write_attributes(connection, collection_id, decided.written)
