"""The items that a filter lets through: in Python, and both ways in which the database finds them."""

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


def matches(item: Item, wanted: Filter, filterable: Filterable = ()) -> bool:
    """Whether the filter lets the item through; declared times compare as instants."""
    match wanted:
        case And(filters):
            return all(matches(item, part, filterable) for part in filters)
        case Or(filters):
            return any(matches(item, part, filterable) for part in filters)
        case Not(inner):
            return not matches(item, inner, filterable)
        case AllTags(tags):
            return set(tags) <= set(item.tags)
        case Exists() | Is() | HasType():
            return _matches_json(item, wanted)
        case OneOf(field, values):
            held = _held(item, field, filterable)
            among = held if isinstance(held, list | tuple) else [held]
            said = _all_said(values, field, filterable)
            # Values that are equal may differ in type: True and 1.
            return any(_same(member, value) for member in among if member in said for value in said if value == member)
        case Compare(field, operator, value):
            return _ordered(_held(item, field, filterable), operator, _said(value, field, filterable))
        case Contains():
            raise AssertionError("no filter here is about words")


def _matches_json(item: Item, wanted: Exists | Is | HasType) -> bool:
    match wanted:
        case Exists(field):
            return _at(item, field) is not ... if field.is_attribute else bool(getattr(item, field.name))
        case Is(field, said):
            return _is(_at(item, field), json.loads(said))
        case HasType(field, json_type):
            return _JSON_TYPES[_type(_at(item, field))] == json_type


def _held(item: Item, field: Field, filterable: Filterable) -> Any:
    if not field.is_attribute:
        return getattr(item, field.name)
    held = _at(item, field)
    if field.path:
        return held
    if isinstance(held, list):
        return [_said(part, field, filterable) for part in held]
    return _said(held, field, filterable)


def _at(item: Item, field: Field) -> Any:
    """The value at that place, ``...`` for nothing; a place in a list is a whole number, below 0 from the end."""
    held: Any = item.attributes.get(field.name, ...)
    for step in field.path:
        if isinstance(held, dict):
            held = held.get(step, ...)
        elif isinstance(held, list) and step.lstrip("-").isdigit() and -len(held) <= int(step) < len(held):
            held = held[int(step)]
        else:
            return ...
    return held


_JSON_TYPES = {
    "boolean": "boolean",
    "number": "number",
    "str": "string",
    "list": "array",
    "dict": "object",
    "NoneType": "null",
    "ellipsis": "nothing",
}


def _is(held: Any, wanted: Any) -> bool:
    """Equal as JSON: neither 1 nor 1.0 is true."""
    if isinstance(held, list) and isinstance(wanted, list):
        return len(held) == len(wanted) and all(map(_is, held, wanted))
    if isinstance(held, dict) and isinstance(wanted, dict):
        return held.keys() == wanted.keys() and all(_is(held[name], wanted[name]) for name in held)
    return _same(held, wanted)


def _all_said(values: tuple[Any, ...], field: Field, filterable: Filterable) -> tuple[Any, ...]:
    is_time = (field.name, AttributeType.TIME) in filterable
    return tuple(_said(value, field, filterable) for value in values) if is_time else values


def _said(value: Any, field: Field, filterable: Filterable) -> Any:
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


def _ordered(held: Any, operator: str, value: Any) -> bool:
    if _type(held) != _type(value):
        return False
    return bool({"gt": held > value, "gte": held >= value, "lt": held < value, "lte": held <= value}[operator])


async def found_both_ways(platform: Platform, stored: StoredCollection, where: Mapping[str, Any]) -> list[list[str]]:
    """The ids of the active items that the filter lets through: by keys, and as a question about each item."""
    wanted = parse_where(where)
    assert wanted is not None
    active = items.c.collection_id == stored.collection_id, items.c.status != "archived"
    asked = condition(wanted, stored.collection_id, stored.filterable)
    statements = (
        matching(stored.collection_id, wanted, stored.filterable),
        sa.select(items.c.item_id).where(*active, asked),
    )
    each = [await platform.database.read(platform.tenant_id, compiled(statement)) for statement in statements]
    return [sorted(row[0] for row in rows) for rows in each]
