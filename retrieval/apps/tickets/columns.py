"""Which columns of a CSV file are a ticket's."""

from __future__ import annotations

from collections.abc import Sequence

from retrieval.adapters.readers.records import ATTRIBUTE_PREFIX, FIELD_NAMES
from retrieval.apps.tickets.ticket_item import TICKET_FIELDS, first, plain_name


def ticket_columns(header: Sequence[str]) -> dict[str, str] | None:
    """The column of each part of a ticket's item, as ``read_items`` maps it; None where the header is no tickets'.

    A file holds tickets when it has a column ``ticket_id`` (or ``issue_key``), none that is an item's id already,
    and a title or a description. Names are compared whatever their case, with spaces and hyphens as underscores.
    """
    present = {plain_name(name): name.strip() for name in reversed(header)}
    columns = {field: present[name] for field, known in TICKET_FIELDS.items() if (name := first(known, present))}
    has_id = any(name in present for name in FIELD_NAMES["item_id"])
    is_ticket = "_id" in columns and not has_id and ("title" in columns or "text" in columns)
    return {_target(part): column for part, column in columns.items()} if is_ticket else None


def _target(part: str) -> str:
    is_field = any(part in names for names in FIELD_NAMES.values())
    return part if is_field else f"{ATTRIBUTE_PREFIX}{part}"
