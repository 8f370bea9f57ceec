"""Which items a filter lets through, in Python: what the database is compared with."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from retrieval import Item
from retrieval.domain.attribute import AttributeType, Filterable
from retrieval.domain.filters import AllTags, And, Compare, Contains, Exists, Field, Filter, Not, OneOf, Or


def matches(item: Item, wanted: Filter, filterable: Filterable = ()) -> bool:
    """Whether the filter lets the item through; declared times compare as instants."""
    match wanted:
        case And(filters):
            return all(matches(item, one, filterable) for one in filters)
        case Or(filters):
            return any(matches(item, one, filterable) for one in filters)
        case Not(inner):
            return not matches(item, inner, filterable)
        case AllTags(tags):
            return set(tags) <= set(item.tags)
        case Exists(field):
            return field.name in item.attributes if field.is_attribute else bool(getattr(item, field.name))
        case OneOf(field, values):
            held = _held(item, field, filterable)
            among = held if isinstance(held, list | tuple) else [held]
            return any(_same(one, _said(value, field, filterable)) for one in among for value in values)
        case Compare(field, operator, value):
            return _ordered(_held(item, field, filterable), operator, _said(value, field, filterable))
        case Contains():
            raise AssertionError("no filter here is about words")


def _held(item: Item, field: Field, filterable: Filterable) -> Any:
    if not field.is_attribute:
        return getattr(item, field.name)
    held = item.attributes.get(field.name, ...)
    if isinstance(held, list):
        return [_said(one, field, filterable) for one in held]
    return _said(held, field, filterable)


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


def _same(one: Any, other: Any) -> bool:
    return _type(one) == _type(other) and bool(one == other)


def _ordered(held: Any, operator: str, value: Any) -> bool:
    if _type(held) != _type(value):
        return False
    return bool({"gt": held > value, "gte": held >= value, "lt": held < value, "lte": held <= value}[operator])
