"""Items by the time of their last change, and the lists that stand under an attribute, a page at a time."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from retrieval.adapters.store.collections import StoredCollection
from retrieval.adapters.store.compiled import compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.hit_columns import field_value
from retrieval.adapters.store.matching import matching
from retrieval.adapters.store.stored_items import STORED_COLUMNS, stored_from_row
from retrieval.adapters.store.tables import items
from retrieval.domain.filters import Field, Filter
from retrieval.domain.stored_item import StoredItem


async def latest_items(
    database: Database, tenant_id: int, collection: StoredCollection, wanted: Filter | None, *, limit: int, offset: int
) -> list[StoredItem]:
    """Those that the filter lets through, archived ones apart; the last changed first, then by item id."""
    columns = [items.c[name] for name in STORED_COLUMNS]
    statement = _paged(_active(collection, wanted, *columns), limit, offset)
    statement = statement.order_by(items.c.updated_at.desc(), items.c.item_id)
    return [stored_from_row(row) for row in await database.read(tenant_id, compiled(statement))]


async def lists_under(
    database: Database,
    tenant_id: int,
    collection: StoredCollection,
    name: str,
    wanted: Filter | None,
    *,
    depth: int | None,
    limit: int,
    offset: int,
) -> list[tuple[str, ...]]:
    """The different lists of the items that the filter lets through, each cut to ``depth``; ordered by element."""
    value = field_value(Field(name, is_attribute=True))
    is_list = sa.func.jsonb_typeof(value) == sa.literal_column("'array'")
    found = _active(collection, wanted, value.label("list")).where(is_list).distinct().subquery("found")
    path = sa.func.array(_elements(found.c.list, depth)).label("path")
    paths = sa.select(path).select_from(found).distinct().subquery("paths")
    statement = sa.select(paths.c.path).order_by(sa.collate(sa.type_coerce(paths.c.path, sa.Text()), "C"))
    rows = await database.read(tenant_id, compiled(_paged(statement, limit, offset)))
    return [tuple(row[0]) for row in rows]


def _elements(of: sa.ColumnElement[Any], depth: int | None) -> sa.ScalarSelect[Any]:
    each = sa.func.jsonb_array_elements_text(of).table_valued("value", with_ordinality="place", name="element")
    element = each.render_derived()
    statement = sa.select(sa.collate(element.c.value, "C")).order_by(element.c.place)
    if depth is not None:
        statement = statement.where(element.c.place <= sa.bindparam("depth", depth, type_=sa.BigInteger()))
    return statement.scalar_subquery()


def _active(collection: StoredCollection, wanted: Filter | None, *columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    owner = collection.collection_id
    statement = sa.select(*columns).where(
        items.c.collection_id == sa.literal_column(str(int(owner)), sa.BigInteger),
        items.c.status != sa.literal_column("'archived'"),
    )
    if wanted is None:
        return statement
    return statement.where(items.c.item_id.in_(matching(owner, wanted, collection.filterable)))


def _paged(statement: sa.Select[Any], limit: int, offset: int) -> sa.Select[Any]:
    return statement.limit(sa.bindparam("limit", limit, type_=sa.BigInteger())).offset(
        sa.bindparam("offset", offset, type_=sa.BigInteger())
    )
