"""The items that match a filter: in Python, and by both ways of the database; generated filters, and items for them."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import sqlalchemy as sa
from hypothesis import strategies as st

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
            stored, operand = _value_of(item, field, filterable), _operand(value, field, filterable)
            return _matches_json(item, Exists(field)) and _ordered(stored, operator, operand)
        case Contains():
            raise AssertionError("no filter here is about words")


def _matches_json(item: Item, filter_: Exists | Is | HasType) -> bool:
    match filter_:
        case Exists(field):
            missing = (...,) if field.path else (..., None)  # an attribute that is null counts as missing
            return _at(item, field) not in missing if field.is_attribute else bool(getattr(item, field.name))
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


TIMES = [datetime(2024, 1, day, 12, tzinfo=UTC) for day in range(1, 6)]
SCALARS: list[Any] = [
    0,
    1,
    9,
    10,
    1.0,
    1.5,
    -3,
    True,
    False,
    "",
    "9",
    "10",
    "1",
    "true",
    "a",
    "b",
    "ab",
    "a'b",
    "%",
    "é",
]
NAMES = ["n", "s", "mixed", "list", "odd 'name\"%"]
DEEP: list[Any] = [
    {"a": {"b": 1, "c/d": "x"}},
    {"a": {"b": "1"}},
    {"a": {"b": [1, 2]}},
    {"a": {"b": [2, 1], "c/d": None}},
    {"a": {"b": True}},
    {"a": {"b": None}},
    {"a": {"b": {"0": 1.0}}},
    {"a": [{"b": 9}, {"b": 10}]},
    [9, 10, "9"],
    [],
    {},
    "a",
]
POINTERS = ["/deep", "/deep/a", "/deep/a/b", "/deep/a/b/0", "/deep/a/c~1d", "/deep/a/1/b", "/deep/0", "/deep/-1", "/n"]
TAGS = ["x", "y", "z", "x y", "%"]


def _item(number: int, chance: random.Random) -> Item:
    attributes: dict[str, Any] = {}
    for name in NAMES:
        if chance.random() < 0.7:
            attributes[name] = chance.choice(SCALARS)
            if chance.random() < 0.25:
                attributes[name] = chance.sample(SCALARS, chance.randrange(4))
            elif chance.random() < 0.1:
                attributes[name] = chance.choice([None, {"a": 1}, [["a"]], []])
    if chance.random() < 0.8:
        attributes["deep"] = chance.choice(DEEP)
    return Item(
        item_id=f"{number}",
        title="any words",
        kind=chance.choice(["", "bug", "task"]),
        status=chance.choice(["active", "open", "closed"]),
        source=chance.choice(["", "mail", "a'b"]),
        tags=tuple(chance.sample(TAGS, chance.randrange(4))),
        attributes=attributes,
        occurred_at=chance.choice([None, *TIMES]),
    )


ITEMS = [_item(number, random.Random(number)) for number in range(80)]


ORDERED = st.sampled_from([0, 1, 1.0, 1.5, 9, 10, -3, "", "9", "10", "a", "b", "ab"])
VALUES = st.sampled_from(SCALARS)
TIME = st.sampled_from([*TIMES, TIMES[2].astimezone(timezone(timedelta(hours=5))), TIMES[1].isoformat(), "2024-01-03"])
OPERATORS = ("gt", "gte", "lt", "lte")

conditions = st.one_of(
    VALUES,
    st.none(),
    st.lists(VALUES, max_size=4),
    st.builds(lambda value: {"eq": value}, VALUES | st.none()),
    st.builds(lambda value: {"ne": value}, VALUES | st.none()),
    st.builds(lambda values: {"in": values}, st.lists(VALUES, max_size=4)),
    st.builds(lambda values: {"nin": values}, st.lists(VALUES, max_size=4)),
    st.builds(lambda there: {"exists": there}, st.booleans()),
    st.dictionaries(st.sampled_from(OPERATORS), ORDERED, min_size=1, max_size=2),
)
exactly = st.one_of(
    st.builds(lambda value: {"is": value}, VALUES | st.none() | st.sampled_from([*DEEP, [1, 2], {"b": 1}, [1.0, 2]])),
    st.builds(lambda kind: {"type": kind}, st.sampled_from(["array", "boolean", "null", "number", "object", "string"])),
)
texts = st.sampled_from(["", "bug", "task", "open", "mail", "a'b"])
leaves = st.one_of(
    st.builds(lambda name, value: {name: value}, st.sampled_from([*NAMES, *POINTERS]), exactly),
    st.builds(lambda name, value: {name: value}, st.sampled_from(POINTERS), conditions),
    st.builds(lambda name, value: {name: value}, st.sampled_from(NAMES), conditions),
    st.builds(
        lambda name, value: {name: value},
        st.sampled_from(["kind", "status", "source"]),
        st.one_of(
            texts,
            st.lists(texts, max_size=3),
            st.dictionaries(st.sampled_from(("ne", *OPERATORS)), texts, min_size=1, max_size=2),
            st.just({"exists": True}),
        ),
    ),
    st.builds(lambda tags: {"tags": tags}, st.lists(st.sampled_from(TAGS), max_size=3)),
    st.builds(lambda tags: {"tags": {"all": tags}}, st.lists(st.sampled_from(TAGS), max_size=3)),
    st.builds(lambda tag: {"tags": {"ne": tag}}, st.sampled_from(TAGS)),
    st.builds(lambda there: {"tags": {"exists": there}}, st.booleans()),
    st.builds(lambda name, time: {"occurred_at": {name: time}}, st.sampled_from((*OPERATORS, "eq", "ne")), TIME),
    st.builds(lambda there: {"occurred_at": {"exists": there}}, st.booleans()),
)
wheres: st.SearchStrategy[dict[str, Any]] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda parts: {"and": parts}, st.lists(inner, max_size=3)),
        st.builds(lambda parts: {"or": parts}, st.lists(inner, max_size=3)),
        st.builds(lambda part: {"not": part}, inner),
        st.builds(lambda first, second: {**first, **second}, inner, inner),
    ),
    max_leaves=6,
)
"""The mappings of filters."""


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
