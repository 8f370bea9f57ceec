"""How many items of a collection have each value of a field, and how many of them a vector."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from psycopg import sql

from retrieval.adapters.store.collections import StoredCollection
from retrieval.adapters.store.compiled import Compiled, compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.matching import any_matching
from retrieval.adapters.store.spaces import StoredSpace
from retrieval.adapters.store.tables import embeddings_table, item_tags, items
from retrieval.domain.filters import Field, Filter
from retrieval.domain.value_count import ValueCount

_COUNT_VECTORS = "SELECT count(*) FROM {} AS known WHERE known.collection_id = %(collection_id)s"


async def value_counts(
    database: Database, tenant_id: int, collection: StoredCollection, field: Field, wanted: Filter | None
) -> list[ValueCount]:
    """The counts by value, the most frequent first, in one statement; archived items are left out.

    An item counts once for each of its tags.
    """
    found = _values(collection, field, wanted).subquery("found")
    value, number = found.c.value, sa.func.count()
    statement = sa.select(value, number)
    if collection.space is None:
        statement = statement.add_columns(sa.literal_column("0"))
    else:
        known = embeddings_table(collection.space.space_id, collection.space.space.dimensions)
        is_its = sa.and_(known.c.collection_id == _owner(collection), known.c.item_id == found.c.item_id)
        statement = statement.add_columns(sa.func.count(known.c.item_id)).outerjoin_from(found, known, is_its)
    statement = statement.group_by(value).order_by(number.desc(), value)
    rows = await database.read(tenant_id, compiled(statement))
    return [ValueCount(value=row[0], items=row[1], vectors=row[2]) for row in rows]


def _values(collection: StoredCollection, field: Field, wanted: Filter | None) -> sa.Select[Any]:
    """Rows of (value, item_id)."""
    table = item_tags if field.name == "tags" and not field.is_attribute else items
    statement = sa.select(_value(field).label("value"), table.c.item_id)
    statement = statement.where(table.c.collection_id == _owner(collection))
    if table is items:
        statement = statement.where(items.c.status != sa.literal_column("'archived'"))
    if wanted is not None:
        matches = any_matching(collection.collection_id, wanted, collection.filterable)
        statement = statement.where(table.c.item_id == matches)
    return statement


def _value(field: Field) -> sa.ColumnElement[str]:
    if field.is_attribute:
        attributes = sa.type_coerce(items.c.attributes, sa.types.NullType())
        name: sa.BindParameter[Any] = sa.bindparam("attribute", [field.name, *field.path], type_=sa.ARRAY(sa.Text()))
        return sa.func.coalesce(attributes.op("#>>", return_type=sa.Text())(name), sa.literal_column("''"))
    column: sa.ColumnElement[str] = item_tags.c.tag if field.name == "tags" else items.c[field.name]
    return column


def _owner(collection: StoredCollection) -> sa.ColumnElement[int]:
    return sa.literal_column(str(int(collection.collection_id)), sa.BigInteger)


async def count_vectors(database: Database, tenant_id: int, collection_id: int, space: StoredSpace | None) -> int:
    """How many items have a vector in the space."""
    if space is None:
        return 0
    statement = sql.SQL(_COUNT_VECTORS).format(sql.Identifier(space.table_name)).as_string()
    rows = await database.read(tenant_id, Compiled(statement, {"collection_id": collection_id}))
    return int(rows[0][0])
