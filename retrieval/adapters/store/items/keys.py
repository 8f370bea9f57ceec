"""Which items hold a tag or a value of a declared attribute, from the tables that are in the order of their index."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from retrieval.adapters.store.compiled import late
from retrieval.adapters.store.tables import (
    attribute_numbers,
    attribute_texts,
    attribute_times,
    item_tags,
    memory_links,
)
from retrieval.domain.attribute import AttributeType, Filterable, typed_value
from retrieval.domain.filters import AllTags, Compare, Field, Filter, OneOf, Scalar

ORDER = {"gt": gt, "gte": ge, "lt": lt, "lte": le}

INDEXED_CHARACTERS = 300
"""So much of a text stands in the index (``sql/items/attributes.sql``)."""

EXACT_BELOW = 2**53
"""Whole numbers below it, and all floats, are in the index as they are; of greater ones the nearest."""

FEW_VALUES = 100
"""Up to so many values are given as an array, more as rows."""

ValuesOf = Callable[[Any], list[Any]]

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
    are_active: bool = True
    """Whether archived items have no rows there."""
    can_look_up: bool = False
    """Whether one item's key is looked up among them as fast as in an index of keys alone."""
    at_most: Callable[[sa.ColumnElement[int]], sa.Select[Any]] | None = None
    """The statement that stops when it has found so many; None: a limit behind it does as well."""

    def has(self, item_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
        """Whether the item is among them, looked up for each row of what ``item_id`` is a column of."""
        mine = self.statement.selected_columns[0] == item_id
        look_up: sa.Select[Any] = self.statement.with_only_columns(sa.literal_column("1")).where(mine).limit(1)
        return look_up.correlate(*sa.select(item_id).get_final_froms()).scalar_subquery() == sa.literal_column("1")

    def hold(self, item_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
        """Whether the item is among them, found once for all rows."""
        if self.at_most is None:
            return item_id.in_(self.statement)
        # The planner takes a function's rows for 1,000; as an array, each is looked up by its key.
        return item_id == sa.func.any(sa.func.array(self.statement.scalar_subquery()))


def is_one_of(column: sa.ColumnElement[Any], wanted: Filter, values_of: ValuesOf) -> sa.ColumnElement[Any]:
    """Whether the column has one of the values that ``values_of`` takes from a filter, however many there are."""
    values = values_of(wanted)
    given = late(wanted, values_of)
    if len(values) <= FEW_VALUES:
        return column == sa.func.any(given)
    # As an array, the planner would compare each of them with each of the column's common values.
    typed = sa.cast(given, ARRAY(sa.Text)) if isinstance(values[0], str) else given
    return column.in_(sa.select(sa.func.unnest(typed)).correlate(None))


def values_shape(field: Field, values: tuple[Scalar, ...], filterable: Filterable) -> Hashable:
    """What the text of a condition on these values depends on: how many there are, and of which kinds."""
    kind = declared_type(field, filterable)
    typed = [None if kind is None else typed_value(kind, value) for value in values]
    kinds = frozenset((type(value), one is not None, _is_whole(one)) for value, one in zip(values, typed, strict=True))
    different = len(set(typed) - {None})
    return kinds, _how_many(len(values)), _how_many(different)


def _how_many(number: int) -> int:
    """As far as it makes a difference: none, one, few, many."""
    return min(number, 2) if number <= FEW_VALUES else 3


def declared_type(field: Field, filterable: Filterable) -> AttributeType | None:
    """The declared type of an attribute; None for any other field, and for what stands within one."""
    return dict(filterable).get(field.name) if field.is_attribute and not field.path else None


def tag_keys(wanted: OneOf, collection_id: int) -> Keys:
    """The items that have one of the tags."""
    table = item_tags.alias()
    statement = _of(table, collection_id).where(is_one_of(table.c.tag, wanted, lambda one: list(one.values)))
    return Keys(statement, once=len(wanted.values) == 1, can_look_up=len(wanted.values) <= FEW_VALUES)


def every_tag_keys(wanted: AllTags, collection_id: int) -> list[Keys]:
    """For each of the tags, the items that have it."""
    return [_tag_keys_at(wanted, place, collection_id) for place in range(len(wanted.tags))]


def _tag_keys_at(wanted: AllTags, place: int, collection_id: int) -> Keys:
    table = item_tags.alias()
    has_tag = table.c.tag == late(wanted, lambda one: one.tags[place])
    return Keys(_of(table, collection_id).where(has_tag), once=True, can_look_up=True)


def link_keys(wanted: OneOf, collection_id: int) -> Keys:
    """The memories that are linked to one of the entities, archived ones too; each entity is ``type:id``."""
    table = memory_links.alias()

    def types(one: OneOf) -> list[str]:
        return list(dict.fromkeys(_entity(value)[0] for value in one.values))

    def ids(one: OneOf) -> list[str]:
        return list(dict.fromkeys(_entity(value)[1] for value in one.values))

    statement = _of(table, collection_id).where(
        table.c.entity_type == sa.func.any(late(wanted, types)), is_one_of(table.c.entity_id, wanted, ids)
    )
    if len(wanted.values) > 1:  # a type and an id that each are wanted need not be one entity
        name = table.c.entity_type + sa.literal_column("':'") + table.c.entity_id
        statement = statement.where(is_one_of(name, wanted, lambda one: list(one.values)))
    number = len(wanted.values)
    return Keys(statement, once=number == 1, are_active=False, can_look_up=number <= FEW_VALUES)


def linked_keys(collection_id: int) -> Keys:
    """The memories that are linked to anything, archived ones too."""
    return Keys(_of(memory_links.alias(), collection_id), once=False, are_active=False)


def _entity(link: Scalar) -> tuple[str, str]:
    entity_type, _, entity_id = str(link).partition(":")
    return entity_type, entity_id


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

    def typed(one: OneOf) -> list[object]:
        return list(dict.fromkeys(_indexed(kind, value) for value in fitting(one, kind)))

    number = len(typed(wanted))
    has_one = is_one_of(table.c.value, wanted, typed)
    return Keys(statement.where(has_one), once=number == 1, can_look_up=number <= FEW_VALUES)


def fitting(wanted: OneOf, kind: AttributeType) -> list[Scalar]:
    """The values that are of the declared type."""
    return [value for value in wanted.values if typed_value(kind, value) is not None]


def range_keys(wanted: Sequence[Compare], kind: AttributeType, collection_id: int) -> Keys:
    """The items whose attribute stands in all these orders; they are about one attribute, and of its type."""
    table, statement = _named(wanted[0].field, kind, collection_id)
    ordered = (
        ORDER[one.operator](table.c.value, late(one, lambda bound: _indexed(kind, bound.value))) for one in wanted
    )
    # A list has no order; its elements are there for equality.
    return Keys(statement.where(*ordered, sa.not_(table.c.listed)), once=True, can_look_up=True)


def _named(field: Field, kind: AttributeType, collection_id: int) -> tuple[sa.FromClause, sa.Select[Any]]:
    table = _TABLES[kind].alias()
    return table, _of(table, collection_id).where(
        table.c.name == sa.bindparam(None, field.name, unique=True, type_=sa.types.NullType())
    )


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
