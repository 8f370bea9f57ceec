"""When items came and changed: enough to tell what happened to them since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database

_READ = Compiled("""
    SELECT i.item_id, i.created_at, i.updated_at, i.status <> 'archived' FROM items i
    WHERE i.collection_id = %(collection_id)s AND i.item_id = ANY(%(item_ids)s)
""")


@dataclass(frozen=True, slots=True)
class ItemState:
    """An item as it stands today."""

    created_at: datetime
    updated_at: datetime
    is_active: bool = True
    """Whether searches find it."""


async def read_item_states(
    database: Database, tenant_id: int, collection_id: int, item_ids: Sequence[str]
) -> dict[str, ItemState]:
    """The states of those items that exist, by item id."""
    statement = _READ.bind(collection_id=collection_id, item_ids=list(item_ids))
    return {row[0]: ItemState(*row[1:]) for row in await database.read(tenant_id, statement)}
