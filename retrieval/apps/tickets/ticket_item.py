"""A ticket as an item of its collection, from JSON or the columns of a CSV file. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from retrieval.adapters.readers import item_from_record
from retrieval.adapters.readers.csv_files import parse_tags
from retrieval.adapters.readers.records import ATTRIBUTE_PREFIX, FIELD_NAMES
from retrieval.domain.checks import is_finite, parse_value, stored_time, written
from retrieval.domain.errors import InvalidItemError
from retrieval.domain.items.item import Item
from retrieval.domain.search.signals import resolved_at_of

DOMAIN = "domain"
PRIORITY = "priority"
RESOLUTION = "resolution"
HOURS = "resolution_time_hours"
RESOLVED_AT = "resolved_at"

TICKET_FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "_id": ("ticket_id", "issue_key"),
        "title": ("title", "summary"),
        "text": ("description", "text", "body"),
        "tags": ("labels", "tags"),
        "occurred_at": ("created", "created_at", "occurred_at", "event_time"),
        PRIORITY: ("priority",),
        DOMAIN: ("domain",),
        RESOLUTION: ("resolution",),
        HOURS: (HOURS, "resolution_hours", "hours_to_resolve"),
        RESOLVED_AT: (RESOLVED_AT, "resolved"),
    }
)
"""The parts of a ticket's item, each with its possible names in a file, the preferred one first."""

TICKET_FILTERABLE: Mapping[str, str] = MappingProxyType(
    {DOMAIN: "text", PRIORITY: "text", HOURS: "number", RESOLVED_AT: "time"}
)
"""The attributes of tickets with an index for filters, and their types."""

TICKET_TEXTS = (DOMAIN, PRIORITY, RESOLUTION)
"""Attributes of tickets that are texts even if they look like numbers."""

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)", re.ASCII)
_LONGEST_NUMBER = 30
_SECONDS_AN_HOUR = 3600.0


def ticket_item(record: Mapping[str, Any]) -> Item:
    """The item of a ticket record with ``ticket_id``, ``title``, ``description``, ``priority`` and so on.

    Names are those of ``TICKET_FIELDS``, in any case, with spaces and hyphens as underscores; they may also be in
    ``metadata``. Everything else becomes an attribute. A text of spaces counts as missing, and labels may be one text.
    A record that holds only texts is read like a row of a CSV file: numbers in other columns become numbers. Raises
    ``InvalidItemError``.
    """
    if not isinstance(record, Mapping):
        raise InvalidItemError(f"a ticket must be a dictionary with a 'ticket_id', not {written(record)}")
    metadata = record.get("metadata")
    if isinstance(metadata, Mapping):
        record = {**metadata, **{name: value for name, value in record.items() if name != "metadata"}}
    if None in record:  # the key of csv.DictReader for surplus fields
        raise InvalidItemError("a row has more fields than the header; a text that holds a comma needs quotes")
    record = {name: value for name, value in record.items() if not (isinstance(value, str) and not value.strip())}
    names = {plain_name(name): name for name in reversed(list(record)) if isinstance(name, str)}
    renamed = {field: names[name] for field, aliases in TICKET_FIELDS.items() if (name := first(aliases, names))}
    fields = {field: record[name] for field, name in renamed.items()}
    if isinstance(fields.get("tags"), str):
        fields["tags"] = parse_tags(fields["tags"])
    reserved = {*renamed.values(), *(name for aliases in FIELD_NAMES.values() for name in aliases)}
    is_row = all(isinstance(value, str | None) for value in record.values())
    others = {
        name: parse_value(value) if is_row and isinstance(value, str) and name not in reserved else value
        for name, value in record.items()
        if name not in renamed.values()
    }
    return as_ticket(item_from_record(others | fields))


def as_ticket(item: Item) -> Item:
    """The same item with a ticket's attributes typed, and its hours or its time of resolution computed if missing.

    Raises ``InvalidItemError`` as ``typed_attributes`` does.
    """
    typed = typed_attributes(item.attributes, item.item_id)
    return replace(item, attributes=typed | _missing_times(item.occurred_at, typed))


def typed_attributes(attributes: Mapping[str, Any], ticket_id: str) -> dict[str, Any]:
    """A ticket's attributes: domain, priority and resolution as texts without outer spaces, and hours as a number.

    Raises ``InvalidItemError`` for hours that are not a number.
    """
    typed = {name: _text(value) if name in TICKET_TEXTS else value for name, value in attributes.items()}
    hours = typed.get(HOURS)
    if hours is not None and not is_finite(hours):
        del typed[HOURS]
        if isinstance(hours, int) or str(hours).strip():
            typed[HOURS] = _hours(hours, ticket_id)
    return typed


def with_ticket_parts(item: Item) -> Item:
    """The item; a ticket gets its hours and its time of resolution under the attributes that signals read.

    An item is a ticket if it has resolution hours, or a priority and a time of resolution, under any name of
    ``TICKET_FIELDS``. No attribute is removed.
    """
    attributes = item.attributes
    hours, resolved = (first(TICKET_FIELDS[name], attributes) for name in (HOURS, RESOLVED_AT))
    if hours is None and (resolved is None or PRIORITY not in attributes):
        return item
    sources = {HOURS: hours, RESOLVED_AT: resolved}
    parts = {name: attributes[source] for name, source in sources.items() if source is not None}
    return as_ticket(replace(item, attributes={**attributes, **parts}))


def plain_name(name: str) -> str:
    """The normalised name of a column: in lower case, with underscores for spaces and hyphens."""
    return name.strip().casefold().replace(" ", "_").replace("-", "_")


def first(names: tuple[str, ...], present: Mapping[str, object]) -> str | None:
    """The first of the names that is present."""
    return next((name for name in names if name in present), None)


def hours_of(attributes: Mapping[str, Any]) -> float | None:
    """The stored hours until the resolution; None if they are unknown."""
    hours = attributes.get(HOURS)
    return float(hours) if is_finite(hours) else None


def _missing_times(created: datetime | None, attributes: Mapping[str, Any]) -> dict[str, Any]:
    if created is None:
        return {}
    hours, resolved = hours_of(attributes), stored_time(attributes.get(RESOLVED_AT))
    if hours is None and HOURS not in attributes and resolved is not None:
        return {HOURS: max(0.0, (resolved - created).total_seconds() / _SECONDS_AN_HOUR)}
    if hours is not None and hours >= 0 and RESOLVED_AT not in attributes:
        resolved = resolved_at_of(created, None, hours)
        return {RESOLVED_AT: resolved.isoformat()} if resolved else {}
    return {}


def _text(value: Any) -> Any:
    """The text of a value that was read from CSV as a number or a boolean."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value.strip()
    return str(value) if isinstance(value, int | float) else value


def _hours(hours: object, key: str) -> float:
    """The number in a text; ``+5`` and ``.5`` are numbers too."""
    # A whole number that comes here is too large for a float, and may be too long to be written.
    text = "" if isinstance(hours, int) else str(hours).strip()
    if len(text) > _LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        raise InvalidItemError(
            f"ticket {key!r}: {HOURS} is {written(hours)}; write hours such as 4.5",
            item_id=key,
        )
    return float(text)


def ticket_columns(header: Sequence[str]) -> dict[str, str] | None:
    """The column of each part of a ticket's item, as a mapping for ``read_items``; None if the file has no tickets.

    A file has tickets if it has a column ``ticket_id`` (or ``issue_key``), no column with an item's id, and a title or
    a description; see ``plain_name``.
    """
    present = {plain_name(name): name.strip() for name in reversed(header)}
    columns = {field: present[name] for field, names in TICKET_FIELDS.items() if (name := first(names, present))}
    has_id = any(name in present for name in FIELD_NAMES["item_id"])
    is_ticket = "_id" in columns and not has_id and ("title" in columns or "text" in columns)
    return {_target(part): column for part, column in columns.items()} if is_ticket else None


def _target(part: str) -> str:
    is_field = any(part in names for names in FIELD_NAMES.values())
    return part if is_field else f"{ATTRIBUTE_PREFIX}{part}"
