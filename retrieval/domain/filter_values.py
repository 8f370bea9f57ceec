"""The values that a filter compares the item's own fields with, checked."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime

from retrieval.domain.errors import InvalidFilterError
from retrieval.domain.moment import fault_of


def number_value(name: str, value: object) -> float:
    """A number of verdicts, or how good they are. Raises ``InvalidFilterError``."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or (isinstance(value, float) and not math.isfinite(value))
    ):
        raise InvalidFilterError(f"{name!r} is a number; it cannot be compared with {value!r:.80}")
    if name == "verdict_count" and value != int(value):
        raise InvalidFilterError(f"'verdict_count' is a whole number; it cannot be compared with {value!r}")
    # Beyond these, there is nothing that a value could tell apart.
    return min(max(value, -(2**53)), 2**53)


def link_value(value: object) -> str:
    """An entity, as ``type:id``. Raises ``InvalidFilterError``."""
    entity_type, colon, entity_id = value.partition(":") if isinstance(value, str) else ("", "", "")
    if not (entity_type and colon and entity_id):
        raise InvalidFilterError(f"'links': an entity is 'type:id', such as 'questions:q1', not {value!r:.80}")
    return text_value("links", f"{entity_type}:{entity_id}")


def text_value(name: str, value: str) -> str:
    """A text that an item can have. Raises ``InvalidFilterError``."""
    if "\x00" in value:
        raise InvalidFilterError(f"{name!r}: the value holds a NUL byte; no item can have it")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidFilterError(f"{name!r}: the value holds half of a surrogate pair") from None
    return value


def time_value(name: str, value: object) -> datetime:
    """A time; without a zone it is UTC. Raises ``InvalidFilterError``."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise InvalidFilterError(f"{name!r}: {value!r} is no ISO 8601 time such as 2024-05-01T12:00Z") from None
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if not isinstance(value, datetime):
        raise InvalidFilterError(f"{name!r} is a time; it cannot be compared with {value!r}")
    moment = value if value.tzinfo else value.replace(tzinfo=UTC)
    if fault := fault_of(moment):
        raise InvalidFilterError(f"{name!r}: {value!r:.80} cannot be compared with; {fault}")
    return moment
