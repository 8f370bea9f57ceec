"""Which items hold a tag or a value of a declared attribute, from the tables that are in the order of their index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from retrieval.adapters.store.tables import attribute_numbers, attribute_texts, attribute_times, item_tags
from retrieval.domain.attribute import AttributeType, Filterable, typed_value
from retrieval.domain.filters import Compare, Field, OneOf, Scalar

ORDER = {"gt": gt, "gte": ge, "lt": lt, "lte": le}

INDEXED_CHARACTERS = 300
"""So much of a text stands in the index (``sql/index_attributes.sql``)."""

EXACT_BELOW = 2**53
"""Whole numbers below it, and all floats, are in the index as they are; of greater ones the nearest."""

_FEW = 100

_TABLES = {
    AttributeType.TEXT: attribute_texts,
    AttributeType.BOOLEAN: attribute_texts,
    AttributeType.NUMBER: attribute_numbers,
    AttributeType.TIME: attribute_times,
}


@dataclass(frozen=True, slots=True)
class Keys:
    """Items by their keys."""

    statement: sa.Select[Any]
    """Rows of ``item_id``."""
    once: bool
    """Whether each item comes at most once."""


def bind(value: Any) -> sa.BindParameter[Any]:
    """A parameter that psycopg adapts by its Python type."""
    return sa.bindparam(None, value, unique=True, type_=sa.types.NullType())


def is_one_of(column: sa.ColumnElement[Any], values: list[Any]) -> sa.ColumnElement[Any]:
    """Whether the column has one of the values, however many there are."""
    given = bind(values)
    if len(values) <= _FEW:
        return column == sa.func.any(given)
    # As an array, the planner would compare each of them with each of the column's common values.
    typed = sa.cast(given, ARRAY(sa.Text)) if isinstance(values[0], str) else given
    return column.in_(sa.select(sa.func.unnest(typed)).correlate(None))


def declared_type(field: Field, filterable: Filterable) -> AttributeType | None:
    """The declared type of an attribute; None for any other field."""
    return dict(filterable).get(field.name) if field.is_attribute else None


def tag_keys(tags: tuple[Scalar, ...], collection_id: int) -> Keys:
    """The items that have one of the tags."""
    table = item_tags.alias()
    statement = _of(table, collection_id).where(is_one_of(table.c.tag, list(tags)))
    return Keys(statement, once=len(tags) == 1)


def is_indexed(wanted: OneOf | Compare, kind: AttributeType) -> bool:
    """Whether the index of that type has the whole answer."""
    values = wanted.values if isinstance(wanted, OneOf) else (wanted.value,)
    typed = [one for one in (typed_value(kind, value) for value in values) if one is not None]
    return bool(typed) and all(map(_is_whole, typed))


def keys_of(wanted: OneOf | Compare, kind: AttributeType, collection_id: int) -> Keys:
    """The items that the condition on a declared attribute lets through."""
    if isinstance(wanted, OneOf):
        return attribute_keys(wanted, kind, collection_id)
    return range_keys([wanted], kind, collection_id)


def attribute_keys(wanted: OneOf, kind: AttributeType, collection_id: int) -> Keys:
    """The items whose attribute, or an element of it, is one of the values; those of another type do not count."""
    table, statement = _named(wanted.field, kind, collection_id)
    typed = dict.fromkeys(_indexed(kind, value) for value in wanted.values if typed_value(kind, value) is not None)
    return Keys(statement.where(is_one_of(table.c.value, list(typed))), once=len(typed) == 1)


def range_keys(wanted: Sequence[Compare], kind: AttributeType, collection_id: int) -> Keys:
    """The items whose attribute stands in all these orders; they are about one attribute, and of its type."""
    table, statement = _named(wanted[0].field, kind, collection_id)
    ordered = (ORDER[one.operator](table.c.value, bind(_indexed(kind, one.value))) for one in wanted)
    # A list has no order; its elements are there for equality.
    return Keys(statement.where(*ordered, sa.not_(table.c.listed)), once=True)


def _named(field: Field, kind: AttributeType, collection_id: int) -> tuple[sa.FromClause, sa.Select[Any]]:
    table = _TABLES[kind].alias()
    return table, _of(table, collection_id).where(table.c.name == bind(field.name))


def _of(table: sa.FromClause, collection_id: int) -> sa.Select[Any]:
    owner = sa.literal_column(str(int(collection_id)), sa.BigInteger)
    return sa.select(table.c.item_id).where(table.c.collection_id == owner).correlate(None)


def _is_whole(value: object) -> bool:
    if isinstance(value, str):
        return len(value) < INDEXED_CHARACTERS
    return not isinstance(value, int | float) or abs(value) < EXACT_BELOW


def _indexed(kind: AttributeType, value: Scalar) -> object:
    typed = typed_value(kind, value)
    return float(typed) if isinstance(typed, int) else typed
