"""The filter language as SQL conditions on ``items``."""

from __future__ import annotations

from datetime import datetime
from operator import ge, gt, le, lt
from typing import Any

import sqlalchemy as sa
from psycopg.types.json import Jsonb

from retrieval.adapters.store.tables import items
from retrieval.domain.filters import AllTags, And, Compare, Contains, Exists, Field, Filter, Not, OneOf, Or, Scalar

Condition = sa.ColumnElement[Any]

# Without their SQL types: a parameter beside them is then adapted by what it is, not cast to what they are.
_ATTRIBUTES = sa.type_coerce(items.c.attributes, sa.types.NullType())
_TAGS = sa.type_coerce(items.c.tags, sa.types.NullType())

_ORDER = {"gt": gt, "gte": ge, "lt": lt, "lte": le}


def condition(wanted: Filter, collection_id: int) -> Condition:
    """The SQL condition that the filter says of a row of ``items``. Every value is a parameter."""
    match wanted:
        case And(filters):
            return sa.and_(sa.true(), *(condition(one, collection_id) for one in filters))
        case Or(filters):
            return sa.or_(sa.false(), *(condition(one, collection_id) for one in filters))
        case Not(inner):
            # A comparison with nothing is unknown in SQL; here it is simply not so.
            return sa.not_(sa.func.coalesce(condition(inner, collection_id), sa.false()))
        case AllTags(tags):
            return _TAGS.op("@>", is_comparison=True)(_bind(list(tags)))
        case OneOf(field, values):
            return _one_of(field, values)
        case Compare(field, operator, value):
            return _compare(field, operator, value)
        case Exists(field):
            return _exists(field)
        case Contains(text):
            return _contains(text, collection_id)


def _bind(value: Any) -> sa.BindParameter[Any]:
    """A parameter that psycopg adapts by its Python type."""
    return sa.bindparam(None, value, unique=True, type_=sa.types.NullType())


def _attribute(field: Field) -> sa.ColumnElement[Any]:
    return _ATTRIBUTES.op("->", return_type=sa.types.NullType())(_name(field))


def _name(field: Field) -> sa.BindParameter[str]:
    return sa.bindparam(None, field.name, unique=True, type_=sa.Text())


def _one_of(field: Field, values: tuple[Scalar, ...]) -> Condition:
    if not values:
        return sa.false()
    if not field.is_attribute:
        if field.name == "tags":
            return _TAGS.op("&&", is_comparison=True)(_bind(list(values)))
        result: Condition = items.c[field.name] == sa.func.any(_bind(list(values)))
        return result
    in_list = _ATTRIBUTES.op("@>", is_comparison=True)
    return sa.or_(
        _attribute(field) == sa.func.any(_bind([Jsonb(value) for value in values])),
        in_list(sa.func.any(_bind([Jsonb({field.name: [value]}) for value in values]))),
    )


def _compare(field: Field, operator: str, value: Scalar) -> Condition:
    order = _ORDER[operator]
    if not field.is_attribute:
        result: Condition = order(items.c[field.name], _bind(value))
        return result
    # JSON orders values of different types too; only values of one type are compared here.
    kind = "string" if isinstance(value, str | datetime) else "number"
    same_type = sa.func.jsonb_typeof(_attribute(field)) == _bind(kind)
    return sa.and_(same_type, order(_attribute(field), _bind(Jsonb(value))))


def _contains(text: str, collection_id: int) -> Condition:
    # The words' index cannot be used under a policy; the function owns its rights and checks the tenant.
    found = sa.func.items_containing(
        sa.literal_column(str(int(collection_id)), sa.BigInteger), sa.cast(_bind(text), sa.Text)
    ).table_valued("item_id", name="found")
    return items.c.item_id.in_(sa.select(found.c.item_id))


def _exists(field: Field) -> Condition:
    if field.is_attribute:
        return _ATTRIBUTES.op("?", is_comparison=True)(_name(field))
    if field.name == "tags":
        return sa.func.cardinality(_TAGS) > 0
    if field.name in {"occurred_at", "created_at"}:
        return items.c[field.name].is_not(None)
    return items.c[field.name] != ""
