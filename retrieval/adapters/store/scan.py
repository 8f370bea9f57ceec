"""Items in the order of their keys, page by page."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from retrieval.adapters.store.collections import StoredCollection
from retrieval.adapters.store.compiled import compiled
from retrieval.adapters.store.conditions import condition
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items import ARCHIVED, ITEM_COLUMNS, item_from_row
from retrieval.adapters.store.round_trip import Row
from retrieval.adapters.store.stored_items import STORED_COLUMNS, stored_from_row
from retrieval.adapters.store.tables import items
from retrieval.domain.filters import And, Compare, Field, Filter, Not, OneOf, Or
from retrieval.domain.item import Item
from retrieval.domain.stored_item import StoredItem

_STATUS = Field("status", is_attribute=False)


async def items_after(
    database: Database, tenant_id: int, collection: StoredCollection, wanted: Filter | None, *, after: str, limit: int
) -> list[Item]:
    """The next items that the filter lets through, by item id: at most so many.

    Archived ones only where the filter names that status: then it alone decides.
    """
    rows = await _rows_after(database, tenant_id, collection, wanted, ITEM_COLUMNS, after=after, limit=limit)
    return [item_from_row(row) for row in rows]


async def stored_items_after(
    database: Database, tenant_id: int, collection: StoredCollection, wanted: Filter | None, *, after: str, limit: int
) -> list[StoredItem]:
    """The same items, each with its version and times."""
    rows = await _rows_after(database, tenant_id, collection, wanted, STORED_COLUMNS, after=after, limit=limit)
    return [stored_from_row(row) for row in rows]


async def _rows_after(
    database: Database,
    tenant_id: int,
    collection: StoredCollection,
    wanted: Filter | None,
    columns: Sequence[str],
    *,
    after: str,
    limit: int,
) -> list[Row]:
    owner = collection.collection_id
    statement = (
        sa.select(*(items.c[name] for name in columns))
        .where(
            items.c.collection_id == sa.literal_column(str(int(owner)), sa.BigInteger),
            items.c.item_id > sa.bindparam("after", after, type_=sa.Text()),
        )
        .order_by(items.c.item_id)
        .limit(sa.bindparam("limit", limit, type_=sa.BigInteger()))
    )
    if not names_archived(wanted):
        statement = statement.where(items.c.status != sa.literal_column(f"'{ARCHIVED}'"))
    if wanted is not None:
        statement = statement.where(condition(wanted, owner, collection.filterable))
    return await database.read(tenant_id, compiled(statement))


def names_archived(wanted: Filter | None) -> bool:
    """Whether the filter speaks of archived items."""
    match wanted:
        case And(filters) | Or(filters):
            return any(map(names_archived, filters))
        case Not(inner):
            return names_archived(inner)
        case OneOf(field, values) if field == _STATUS:
            return ARCHIVED in values
        case Compare(field, _, value) if field == _STATUS:
            return value == ARCHIVED
        case _:
            return False
