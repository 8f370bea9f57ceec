"""Forget items: by name, or because they have expired."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items.removal import expired_memories, forget_items
from retrieval.jobs.weights import refresh_weights
from retrieval.jobs.workplace import Advance, Target, Workplace, unheeded

BATCH = 200
"""Items forgotten in one transaction, which feedback waits for."""


async def forget(
    database: Database, tenant_id: int, collection_id: int, ids: Sequence[str], *, expired_by: datetime | None = None
) -> int:
    """Forget the items batch by batch; gives how many there were. An interruption costs a batch.

    With ``expired_by``, only memories whose time is over by then.
    """
    forgotten = 0
    for start in range(0, len(ids), BATCH):
        part = {item_id: f"forgotten-{secrets.token_hex(16)}" for item_id in ids[start : start + BATCH]}
        forgotten += await forget_items(database, tenant_id, collection_id, part, expired_by)
    await refresh_weights(database, tenant_id, collection_id)
    return forgotten


async def is_anything_expired(workplace: Workplace, target: Target) -> bool:
    """Whether a memory's time is over."""
    where = (workplace.database, target.tenant_id, target.collection.collection_id)
    return bool(await expired_memories(*where, now=workplace.now(), most=1))


async def forget_expired(
    workplace: Workplace, target: Target, advance: Advance = unheeded, *, now: datetime | None = None
) -> dict[str, Any]:
    """Forget the memories whose time is over, batch by batch; gives how many."""
    moment = now or workplace.now()
    where = (workplace.database, target.tenant_id, target.collection.collection_id)
    forgotten = 0
    while ids := await expired_memories(*where, now=moment, most=BATCH):
        forgotten += await forget(*where, ids, expired_by=moment)
        advance(forgotten)
        workplace.end_of_step()
    return {"forgotten": forgotten}
