"""List items page by page, by their keys or their last change, and list the lists under an attribute."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import sqlalchemy as sa

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace, Connection, Database
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.items.composed import StatementCache, facet_part
from retrieval.adapters.store.items.conditions import any_matching, condition, field_value, matching
from retrieval.adapters.store.items.items import ARCHIVED, STORED_COLUMNS, stored_from_row
from retrieval.adapters.store.round_trip import Row
from retrieval.adapters.store.tables import is_searchable, items, literal
from retrieval.domain.items.item import StoredItem
from retrieval.domain.search.filters import And, Compare, Field, Filter, Not, OneOf, Or

_STATUS = Field("status", is_attribute=False)

_STATEMENTS = StatementCache()

_FEW_LISTED = 1_000
"""The most items with a filter's facets that are read by their keys; if more have them, a page is read in order."""


async def rows_after(
    database: Database,
    tenant_id: int,
    collection: StoredCollection,
    filter_: Filter | None,
    columns: Sequence[str],
    *,
    after: str,
    limit: int,
    connection: Connection | None = None,
) -> list[Row]:
    """These columns of the next items that match the filter, by item id, at most ``limit``.

    Archived items are left out, unless the filter names that status. With ``connection``, they are read in its
    transaction.
    """

    def compose(own: Filter | None) -> sa.Select[Any] | sa.CompoundSelect[Any]:
        page = _in_order(collection, own, columns)
        if names_archived(own):
            return page
        page = page.where(is_searchable)
        by_facets = None if own is None else facet_part(own, collection.filterable)
        return page if by_facets is None else _few_or_in_order(page, collection, by_facets)

    shape = "page", tuple(columns), collection.collection_id, collection.filterable, names_archived(filter_)
    statement = _STATEMENTS.of(shape, filter_, collection.filterable, compose)
    bound = statement.bind(after=after, limit=limit)
    if connection is not None:
        return await connection.rows(bound.text, bound.parameters)
    return await database.read(tenant_id, bound)


async def all_rows(
    database: Database,
    tenant_id: int,
    collection: StoredCollection,
    filter_: Filter | None,
    columns: Sequence[str],
    *,
    at_a_time: int,
    connection: Connection | None = None,
) -> AsyncIterator[Row]:
    """These columns of all items that match the filter, the item id first, as ``rows_after`` reads them."""
    page: list[Row] | None = None
    while page is None or len(page) == at_a_time:
        after = page[-1][0] if page else ""
        page = await rows_after(
            database, tenant_id, collection, filter_, columns, after=after, limit=at_a_time, connection=connection
        )
        for row in page:
            yield row


def _in_order(collection: StoredCollection, filter_: Filter | None, columns: Sequence[str]) -> sa.Select[Any]:
    """The page of the items that match the filter, archived ones too, by item id."""
    after, limit = sa.bindparam("after", type_=sa.Text()), sa.bindparam("limit", type_=sa.BigInteger())
    later = items.c.collection_id == literal(collection.collection_id), items.c.item_id > after
    page = sa.select(*(items.c[name] for name in columns)).where(*later).order_by(items.c.item_id).limit(limit)
    if filter_ is None:
        return page
    return page.where(condition(filter_, collection.collection_id, collection.filterable))


def _few_or_in_order(page: sa.Select[Any], collection: StoredCollection, by_facets: Filter) -> sa.CompoundSelect[Any]:
    """The page by the keys of the items with the filter's facets, if these are few; else by reading in order."""
    few = sa.literal_column(str(_FEW_LISTED), sa.BigInteger)
    matches = matching(collection.collection_id, by_facets, collection.filterable, looks_up=True, most=few + 1)
    keys = matches.cte("matching").prefix_with("MATERIALIZED", dialect="postgresql")
    are_few = sa.select(sa.func.count() <= few).select_from(keys).scalar_subquery()
    any_key = sa.func.any(sa.func.array(sa.select(keys.c.item_id).scalar_subquery()))
    of_few, in_order = page.where(items.c.item_id == any_key, are_few), page.where(sa.not_(are_few))
    return sa.union_all(of_few.subquery().select(), in_order.subquery().select()).order_by("item_id")


_EXISTING_ATTRIBUTES = Compiled("""
    SELECT c.name FROM unnest(%(names)s::text[]) AS c (name)
    WHERE EXISTS (
        SELECT FROM items AS item
        WHERE item.collection_id = %(collection_id)s AND item.status <> %(archived)s AND item.attributes ? c.name
    )
""")


async def existing_attributes(at: CollectionPlace, names: Sequence[str]) -> frozenset[str]:
    """The attributes among these that an active item has; reads all items if none has them."""
    rows = await at.read(_EXISTING_ATTRIBUTES, names=list(names), archived=ARCHIVED)
    return frozenset(name for (name,) in rows)


def names_archived(filter_: Filter | None) -> bool:
    """Whether the filter names archived items."""
    match filter_:
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


_ANY_DEPTH = 2**31


async def latest_items(
    database: Database, tenant_id: int, collection: StoredCollection, filter_: Filter | None, *, limit: int, offset: int
) -> list[StoredItem]:
    """The active items that match the filter; the last changed first, then by item id."""

    def compose(own: Filter | None) -> sa.Select[Any]:
        statement = _active(collection, own, *(items.c[name] for name in STORED_COLUMNS))
        return _page(statement.order_by(items.c.updated_at.desc(), items.c.item_id))

    shape = "latest", collection.collection_id, collection.filterable
    statement = _STATEMENTS.of(shape, filter_, collection.filterable, compose).bind(limit=limit, offset=offset)
    return [stored_from_row(row) for row in await database.read(tenant_id, statement)]


async def lists_under(
    database: Database,
    tenant_id: int,
    collection: StoredCollection,
    name: str,
    filter_: Filter | None,
    *,
    depth: int | None,
    limit: int,
    offset: int,
) -> list[tuple[str, ...]]:
    """The distinct lists of the items that match the filter, each cut to ``depth``; ordered by element."""
    shape = "lists", collection.collection_id, collection.filterable, name
    statement = _STATEMENTS.of(shape, filter_, collection.filterable, lambda own: _page(_lists(collection, name, own)))
    values = {"limit": limit, "offset": offset, "depth": _ANY_DEPTH if depth is None else depth}
    return [tuple(row[0]) for row in await database.read(tenant_id, statement.bind(**values))]


def _lists(collection: StoredCollection, name: str, filter_: Filter | None) -> sa.Select[Any]:
    value = field_value(Field(name, is_attribute=True))
    is_list = sa.func.jsonb_typeof(value) == sa.literal_column("'array'")
    lists = _active(collection, filter_, value.label("list")).where(is_list).distinct().subquery("found")
    path = sa.func.array(_elements(lists.c.list)).label("path")
    paths = sa.select(path).select_from(lists).distinct().subquery("paths")
    return sa.select(paths.c.path).order_by(sa.collate(sa.type_coerce(paths.c.path, sa.Text()), "C"))


def _elements(of: sa.ColumnElement[Any]) -> sa.ScalarSelect[Any]:
    each = sa.func.jsonb_array_elements_text(of).table_valued("value", with_ordinality="place", name="element")
    element = each.render_derived()
    within = element.c.place <= sa.bindparam("depth", type_=sa.BigInteger())
    return sa.select(sa.collate(element.c.value, "C")).where(within).order_by(element.c.place).scalar_subquery()


def _active(collection: StoredCollection, filter_: Filter | None, *columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    statement = sa.select(*columns).where(items.c.collection_id == literal(collection.collection_id), is_searchable)
    if filter_ is None:
        return statement
    keys = any_matching(collection.collection_id, filter_, collection.filterable)
    return statement.where(items.c.item_id == keys)


def _page(statement: sa.Select[Any]) -> sa.Select[Any]:
    limit, offset = (sa.bindparam(name, type_=sa.BigInteger()) for name in ("limit", "offset"))
    return statement.limit(limit).offset(offset)
