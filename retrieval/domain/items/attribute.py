"""The attributes that a collection declares as filterable: each has a type and is indexed by it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum

from retrieval.domain.checks import choices_hint, is_storable, time_fault, written
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.item import MAX_KEY_BYTES
from retrieval.domain.search.filters import FIELDS


class AttributeType(StrEnum):
    """The type of a filterable attribute's values, which decides how they compare."""

    TEXT = "text"
    NUMBER = "number"
    BOOLEAN = "boolean"
    TIME = "time"


# Texts that the database reads as times too (sql/items/attributes.sql).
_ISO_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]+)?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?"
)

Filterable = tuple[tuple[str, AttributeType], ...]
"""The filterable attributes by name, in order of name."""


def checked_filterable(declared: Mapping[str, str]) -> Filterable:
    """Attributes and the names of their types as they are stored. Raises ``InvalidRequestError``."""
    if not isinstance(declared, Mapping):
        raise InvalidRequestError(
            f'filterable must be a mapping such as {{"priority": "text"}}, not {written(declared)}'
        )
    checked = ((checked_name(name), _type(name, kind)) for name, kind in declared.items())
    return tuple(sorted(checked))


def checked_name(name: object) -> str:
    """The name, if an attribute can have it. Raises ``InvalidRequestError``."""
    if not is_storable(name) or not 0 < len(name.encode()) <= MAX_KEY_BYTES:
        raise InvalidRequestError(f"an attribute's name has 1 to {MAX_KEY_BYTES} bytes and no NUL, not {written(name)}")
    if name in FIELDS or name.startswith("attributes."):
        raise InvalidRequestError(
            f"{name!r} cannot be an attribute's name: {', '.join(sorted(FIELDS))} need no declaration, and "
            "an attribute is declared without 'attributes.' before it"
        )
    return name


def typed_value(kind: AttributeType, value: object) -> str | float | datetime | None:
    """The value as one of that type: a time with its zone, a boolean as text; None if it has another type."""
    match kind, value:
        case AttributeType.TEXT, str():
            return value
        case AttributeType.BOOLEAN, bool():
            return "true" if value else "false"
        case AttributeType.NUMBER, int() | float() if not isinstance(value, bool):
            return value
        case AttributeType.TIME, str():
            return instant(value)
        case AttributeType.TIME, datetime():
            return _with_zone(value)
        case _:
            return None


def instant(text: str) -> datetime | None:
    """The instant of an ISO 8601 text, in UTC where it names no zone; None for any other text."""
    try:
        return _with_zone(datetime.fromisoformat(text)) if _ISO_TIME.fullmatch(text) else None
    except ValueError:
        return None


def _with_zone(time: datetime) -> datetime | None:
    """The time with a zone, UTC unless it has one; None for a time that the database cannot read."""
    zoned = time if time.tzinfo else time.replace(tzinfo=UTC)
    return None if time_fault(zoned) else zoned


def _type(name: str, kind: object) -> AttributeType:
    try:
        return AttributeType(str(kind))
    except ValueError:
        types = choices_hint(kind, AttributeType)
        raise InvalidRequestError(f"attribute {name!r}: there is no type {written(kind)}; {types}") from None
