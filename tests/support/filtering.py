"""The items that match a filter: in Python, and by both ways of the database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from retrieval import Item, Platform
from retrieval.adapters.store.compiled import compiled
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.items.conditions import condition, matching
from retrieval.adapters.store.tables import items
from retrieval.domain.items.attribute import AttributeType, Filterable
from retrieval.domain.search.filters import (
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
    parse_where,
)


def matches(item: Item, filter_: Filter, filterable: Filterable = ()) -> bool:
    """Whether the item matches the filter; declared times compare as instants."""
    match filter_:
        case And(filters):
            return all(matches(item, part, filterable) for part in filters)
        case Or(filters):
            return any(matches(item, part, filterable) for part in filters)
        case Not(inner):
            return not matches(item, inner, filterable)
        case AllTags(tags):
            return set(tags) <= set(item.tags)
        case Exists() | Is() | HasType():
            return _matches_json(item, filter_)
        case OneOf(field, values):
            value_or_values = _value_of(item, field, filterable)
            among = value_or_values if isinstance(value_or_values, list | tuple) else [value_or_values]
            operands = _all_said(values, field, filterable)
            # Values that are equal may differ in type: True and 1.
            return any(
                _same(member, value) for member in among if member in operands for value in operands if value == member
            )
        case Compare(field, operator, value):
            return _ordered(_value_of(item, field, filterable), operator, _operand(value, field, filterable))
        case Contains():
            raise AssertionError("no filter here is about words")


def _matches_json(item: Item, filter_: Exists | Is | HasType) -> bool:
    match filter_:
        case Exists(field):
            return _at(item, field) is not ... if field.is_attribute else bool(getattr(item, field.name))
        case Is(field, said):
            return _is(_at(item, field), json.loads(said))
        case HasType(field, json_type):
            return _JSON_TYPES[_type(_at(item, field))] == json_type


def _value_of(item: Item, field: Field, filterable: Filterable) -> Any:
    if not field.is_attribute:
        return getattr(item, field.name)
    value = _at(item, field)
    if field.path:
        return value
    if isinstance(value, list):
        return [_operand(part, field, filterable) for part in value]
    return _operand(value, field, filterable)


def _at(item: Item, field: Field) -> Any:
    """The value at that place, ``...`` for nothing; a place in a list is a whole number, below 0 from the end."""
    value: Any = item.attributes.get(field.name, ...)
    for step in field.path:
        if isinstance(value, dict):
            value = value.get(step, ...)
        elif isinstance(value, list) and step.lstrip("-").isdigit() and -len(value) <= int(step) < len(value):
            value = value[int(step)]
        else:
            return ...
    return value


_JSON_TYPES = {
    "boolean": "boolean",
    "number": "number",
    "str": "string",
    "list": "array",
    "dict": "object",
    "NoneType": "null",
    "ellipsis": "nothing",
}


def _is(value: Any, operand: Any) -> bool:
    """Equal as JSON: neither 1 nor 1.0 is true."""
    if isinstance(value, list) and isinstance(operand, list):
        return len(value) == len(operand) and all(map(_is, value, operand))
    if isinstance(value, dict) and isinstance(operand, dict):
        return value.keys() == operand.keys() and all(_is(value[name], operand[name]) for name in value)
    return _same(value, operand)


def _all_said(values: tuple[Any, ...], field: Field, filterable: Filterable) -> tuple[Any, ...]:
    is_time = (field.name, AttributeType.TIME) in filterable
    return tuple(_operand(value, field, filterable) for value in values) if is_time else values


def _operand(value: Any, field: Field, filterable: Filterable) -> Any:
    if not isinstance(value, str) or (field.name, AttributeType.TIME) not in filterable:
        return value
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return ...
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else type(value).__name__


def _same(member: Any, other: Any) -> bool:
    return _type(member) == _type(other) and bool(member == other)


def _ordered(stored: Any, operator: str, value: Any) -> bool:
    if _type(stored) != _type(value):
        return False
    return bool({"gt": stored > value, "gte": stored >= value, "lt": stored < value, "lte": stored <= value}[operator])


async def found_both_ways(platform: Platform, stored: StoredCollection, where: Mapping[str, Any]) -> list[list[str]]:
    """The ids of the active items that match the filter: by keys, and by a condition on each item."""
    filter_ = parse_where(where)
    assert filter_ is not None
    active = items.c.collection_id == stored.collection_id, items.c.status != "archived"
    asked = condition(filter_, stored.collection_id, stored.filterable)
    statements = (
        matching(stored.collection_id, filter_, stored.filterable),
        sa.select(items.c.item_id).where(*active, asked),
    )
    each = [await platform.database.read(platform.tenant_id, compiled(statement)) for statement in statements]
    return [sorted(row[0] for row in rows) for rows in each]
