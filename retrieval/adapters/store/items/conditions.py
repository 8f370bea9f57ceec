"""Filters as SQL conditions on a row of ``items``, and the columns that a hit reads."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from psycopg.types.json import Jsonb
from sqlalchemy.dialects.postgresql import JSONB

from retrieval.adapters.store.arrays import jsonbs
from retrieval.adapters.store.compiled import late
from retrieval.adapters.store.items.keys import (
    ORDER,
    ValuesOf,
    declared_type,
    fitting,
    is_one_of,
    keys_of,
    link_keys,
    linked_keys,
)
from retrieval.adapters.store.learning.ratings import is_of_verdicts, rated_condition
from retrieval.adapters.store.tables import items
from retrieval.domain.attribute import AttributeType, Filterable, typed_value
from retrieval.domain.filters import (
    TEXT_FIELDS,
    AllTags,
    And,
    Compare,
    Contains,
    Exists,
    Field,
    Filter,
    HasType,
    Is,
    Not,
    OneOf,
    Or,
)

HIT_COLUMNS = ("title", "body", "kind", "tags", "attributes", "status", "source", "occurred_at")
"""In this order."""


def field_value(field: Field) -> sa.ColumnElement[Any]:
    """A field's value; an attribute's as JSON says it, and nothing where there is none."""
    if not field.is_attribute:
        column: sa.ColumnElement[Any] = items.c[field.name]
        return column
    attributes = sa.type_coerce(items.c.attributes, sa.types.NullType())
    if field.path:
        path = sa.bindparam(None, [field.name, *field.path], unique=True, type_=sa.types.NullType())
        return attributes.op("#>", return_type=sa.types.NullType())(path)
    name: sa.BindParameter[str] = sa.bindparam(None, field.name, unique=True, type_=sa.Text())
    return attributes.op("->", return_type=sa.types.NullType())(name)


Condition = sa.ColumnElement[Any]

# Without their SQL types: a parameter beside them is then adapted by what it is, not cast to what they are.
_ATTRIBUTES = sa.type_coerce(items.c.attributes, sa.types.NullType())
_NOWHERE: sa.ColumnClause[Any] = sa.literal_column("'{}'")
_TAGS = sa.type_coerce(items.c.tags, sa.types.NullType())

_NEVER_NULL = [Field(name, is_attribute=False) for name in sorted(TEXT_FIELDS)]


def condition(wanted: Filter, collection_id: int, filterable: Filterable = ()) -> Condition:
    """The SQL condition that the filter says of a row of ``items``. Every value is a parameter.

    The values of ``filterable`` attributes compare by their declared type; those of another type match nothing.
    """

    def of(inner: Filter) -> Condition:
        return condition(inner, collection_id, filterable)

    match wanted:
        case And(filters):
            return sa.and_(sa.true(), *map(of, filters))
        case Or(filters):
            return sa.or_(sa.false(), *map(of, filters))
        case Not(OneOf(field, [_, *_])) if field in _NEVER_NULL:
            return sa.not_(of(wanted.filter))
        case Not(inner):
            # A comparison with nothing is unknown in SQL; here it is simply not so.
            return sa.not_(sa.func.coalesce(of(inner), sa.false()))
        case AllTags():
            return _TAGS.op("@>", is_comparison=True)(late(wanted, lambda one: list(one.tags)))
        case Contains() | Exists(Field("links", False)) | OneOf(Field("links", False), [_, *_]):
            return items.c.item_id.in_(_found_elsewhere(wanted, collection_id))
        case Exists() | Is() | HasType():
            return _of_json(wanted)
        case OneOf() | Compare():
            return _of_values(wanted, collection_id, filterable)


def _found_elsewhere(wanted: Contains | Exists | OneOf, collection_id: int) -> sa.Select[Any]:
    """The keys of the items that the filter lets through by what stands in other tables alone."""
    match wanted:
        case Contains():
            return containing(wanted, collection_id)
        case Exists():
            return linked_keys(collection_id).statement
        case OneOf():
            return link_keys(wanted, collection_id).statement


def containing(wanted: Contains, collection_id: int) -> sa.Select[Any]:
    """The keys of the items that hold the words.

    The words' index cannot be used under a policy; the function owns its rights and checks the tenant.
    """
    found = sa.func.items_containing(
        sa.literal_column(str(int(collection_id)), sa.BigInteger), sa.cast(late(wanted, lambda one: one.text), sa.Text)
    ).table_valued("item_id", name="found")
    return sa.select(found.c.item_id)


def _of_values(wanted: OneOf | Compare, collection_id: int, filterable: Filterable) -> Condition:
    if is_of_verdicts(wanted.field):
        return rated_condition(wanted, collection_id, items.c.item_id)
    kind = declared_type(wanted.field, filterable)
    return _declared(wanted, kind, collection_id) if kind else _compared(wanted)


def _declared(wanted: OneOf | Compare, kind: AttributeType, collection_id: int) -> Condition:
    values = wanted.values if isinstance(wanted, OneOf) else (wanted.value,)
    if all(typed_value(kind, value) is None for value in values):
        return sa.false()
    if kind is AttributeType.TIME:  # only the index knows which instant a text says
        return items.c.item_id.in_(keys_of(wanted, kind, collection_id).statement)
    return _compared(wanted, lambda one: fitting(one, kind))


def _compared(wanted: OneOf | Compare, values_of: ValuesOf = lambda one: list(one.values)) -> Condition:
    return _one_of(wanted, values_of) if isinstance(wanted, OneOf) else _compare(wanted)


def _of_json(wanted: Exists | Is | HasType) -> Condition:
    match wanted:
        case Exists(field):
            return _exists(field)
        case Is(field):
            return field_value(field) == sa.cast(late(wanted, lambda one: one.json), JSONB)
        case HasType(field, json_type):
            return _has_type(field_value(field), json_type)


def _name(field: Field) -> sa.BindParameter[str]:
    return sa.bindparam(None, field.name, unique=True, type_=sa.Text())


def _one_of(wanted: OneOf, values_of: ValuesOf) -> Condition:
    name = wanted.field.name
    if not wanted.values:
        return sa.false()
    if not wanted.field.is_attribute:
        if name == "tags":
            return _TAGS.op("&&", is_comparison=True)(late(wanted, values_of))
        return is_one_of(items.c[name], wanted, values_of)
    attribute = field_value(wanted.field)
    is_value = attribute == sa.func.any(late(wanted, lambda one: jsonbs(values_of(one))))
    if wanted.field.path:
        in_list = attribute.op("@>", is_comparison=True)
        return sa.or_(
            is_value, in_list(sa.func.any(late(wanted, lambda one: jsonbs([value] for value in values_of(one)))))
        )
    in_list = _ATTRIBUTES.op("@>", is_comparison=True)
    return sa.or_(
        is_value,
        in_list(sa.func.any(late(wanted, lambda one: jsonbs({name: [value]} for value in values_of(one))))),
    )


def _compare(wanted: Compare) -> Condition:
    order, field = ORDER[wanted.operator], wanted.field
    if not field.is_attribute:
        result: Condition = order(items.c[field.name], late(wanted, lambda one: one.value))
        return result
    # JSON orders values of different types too; only values of one type are compared here.
    attribute = field_value(field)
    if isinstance(wanted.value, str | datetime):
        text = sa.collate(attribute.op("#>>", return_type=sa.Text())(_NOWHERE), "C")
        return sa.and_(_has_type(attribute, "string"), order(text, late(wanted, lambda one: str(one.value))))
    return sa.and_(_has_type(attribute, "number"), order(attribute, late(wanted, lambda one: Jsonb(one.value))))


def _has_type(attribute: sa.ColumnElement[Any], name: str) -> Condition:
    return sa.func.jsonb_typeof(attribute) == sa.literal_column(f"'{name}'")


def _exists(field: Field) -> Condition:
    if field.path:
        return field_value(field).is_not(None)
    if field.is_attribute:
        return _ATTRIBUTES.op("?", is_comparison=True)(_name(field))
    if field.name == "tags":
        return sa.func.cardinality(_TAGS) > 0
    if field.name in {"occurred_at", "created_at"}:
        return items.c[field.name].is_not(None)
    if is_of_verdicts(field):
        return sa.true()
    return items.c[field.name] != ""
