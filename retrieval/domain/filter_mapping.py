"""A filter as the mapping that says it: the inverse of ``parse_where``, for storing filters as JSON."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from retrieval.domain.filters import (
    FIELDS,
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
    Scalar,
)


def as_mapping(wanted: Filter) -> dict[str, Any]:
    """Plain JSON values from which ``parse_where`` makes the same filter.

    Times are ISO 8601 texts. Raises ``ValueError`` for ``Contains``, which the mapping cannot say.
    """
    match wanted:
        case And(filters):
            return {"and": [as_mapping(part) for part in filters]}
        case Or(filters):
            return {"or": [as_mapping(part) for part in filters]}
        case Not(inner):
            return {"not": as_mapping(inner)}
        case AllTags(tags):
            return {"tags": {"all": list(tags)}}
        case Contains():
            raise ValueError("a filter by words in the text has no mapping")
        case _:
            return {field_name(wanted.field): _operator(wanted)}


def _operator(wanted: OneOf | Compare | Exists | Is | HasType) -> dict[str, Any]:
    match wanted:
        case OneOf(_, values):
            return {"in": [_plain(value) for value in values]}
        case Compare(_, operator, value):
            return {operator: _plain(value)}
        case Exists():
            return {"exists": True}
        case Is(_, said):
            return {"is": json.loads(said)}
        case HasType(_, json_type):
            return {"type": json_type}


def field_name(field: Field) -> str:
    """The key that means this field; an attribute named like a field, or a word of the language, says what it is."""
    if field.path:
        return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in (field.name, *field.path))
    if field.is_attribute and (
        field.name in FIELDS | {"and", "or", "not"} or field.name.startswith(("attributes.", "/"))
    ):
        return f"attributes.{field.name}"
    return field.name


def _plain(value: Scalar) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
