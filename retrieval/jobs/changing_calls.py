"""The call that changes stored items, given what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from retrieval.engine.collection_handle import told_if_gone
from retrieval.engine.item_ids import checked_item_ids
from retrieval.jobs.item_calls import ItemCalls

if TYPE_CHECKING:
    from retrieval.jobs.change import ChangeReport, Decide


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
        from retrieval.jobs.add import AddReport
        from retrieval.jobs.change import ChangeReport, RemovalError, change

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
