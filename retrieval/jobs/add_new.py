"""Adding items that must not be there yet, all of them or none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from retrieval.adapters.store.items.items import ItemIsThereError
from retrieval.domain.errors import InvalidItemError
from retrieval.domain.item import Item
from retrieval.jobs.add import AddReport, Writer


async def add_new(writer: Writer, batch: Sequence[Item]) -> AddReport:
    """Store the items, then embed them. Of those who add the same id at once, one does.

    Raises ``InvalidItemError`` for an id that is there already, archived or not, or that is given twice.
    """
    ids = Counter(item.item_id for item in batch)
    if twice := next((one for one, times in ids.items() if times > 1), None):
        raise InvalidItemError(f"item {twice!r:.80} is given twice; give each id once", item_id=twice)
    try:
        return (await writer.add_beside(batch, only_new=True))[0]
    except ItemIsThereError as error:
        first = error.item_id
        raise InvalidItemError(f"item {first!r:.80} is there already; give it another id", item_id=first) from error
