"""Embed what waits for its vector."""

from __future__ import annotations

from typing import Any

from retrieval.adapters.store.search.vectors import count_pending
from retrieval.jobs.add import AddReport, Writer
from retrieval.jobs.workplace import Advance, Target, Workplace, unheeded


async def is_anything_pending(workplace: Workplace, target: Target) -> bool:
    """Whether items wait, and somebody could embed them."""
    space = target.collection.space
    if space is None or workplace.embedder_of(target.tenant_id, space) is None:
        return False
    pending = await count_pending(workplace.database, target.tenant_id, target.collection.collection_id, space)
    return pending > 0


async def embed_pending(workplace: Workplace, target: Target, advance: Advance = unheeded) -> dict[str, Any]:
    """Embed the collection's pending items, page by page; what is refused stays pending and is named.

    Each page is stored when it is done: an interruption costs one.
    """
    space = target.collection.space
    if space is None:
        return {"embedded": 0, "pending": 0}
    embedder = workplace.embedder_of(target.tenant_id, space)
    writer = Writer(workplace.database, target.tenant_id, target.collection, embedder)
    report, after = AddReport(), ""
    while not report.stopped and embedder is not None and (page := await writer.next_pending(after)):
        report += await writer.embed(page)
        advance(report.embedded)
        after = page[-1].item_id
        workplace.end_of_step()
    left = await count_pending(workplace.database, target.tenant_id, target.collection.collection_id, space)
    notes = report.notes
    if embedder is None and left:
        notes = (f"no embedder for the space {space.space.name} is configured",)
    return {"embedded": report.embedded, "pending": left, **({"notes": list(notes)} if notes else {})}
