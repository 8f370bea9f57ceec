"""Items as they are sent: what was read may be sent again, what contradicts itself is refused, tickets are tickets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrieval.adapters.readers import item_from_record
from retrieval.adapters.readers.records import FIELD_NAMES
from retrieval.apps.tickets.ticket_item import with_ticket_parts
from retrieval.domain.errors import InvalidItemError
from retrieval.domain.item import Item

_TOLD = ("version", "created_at", "updated_at")
"""What the service tells of a stored item besides the item."""

_ATTRIBUTES = ("metadata", "attributes")
_TWO_NAMES = (("text", "body"), _ATTRIBUTES, ("occurred_at", "event_time"))
"""The names of one part each."""

_VECTORS = ("embedding", "vector")
_FIELDS = frozenset(name for names in FIELD_NAMES.values() for name in names)


def sent_item(record: Mapping[str, Any]) -> Item:
    """The item that was sent. A ticket's hours have the name that they have when a file of tickets is read.

    Raises ``InvalidItemError`` for what cannot be stored, and for what says two things at once.
    """
    record = _without_told(record)
    _check_told_once(record)
    item = item_from_record(record)
    try:
        return with_ticket_parts(item)
    except InvalidItemError:
        # It may be no ticket at all.
        return item


def _without_told(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """An answer that is sent back is the item alone; whether its version still holds is what ``If-Match`` asks."""
    if isinstance(record, Mapping) and all(name in record for name in ("attributes", *_TOLD)):
        return {name: value for name, value in record.items() if name not in _TOLD}
    return record


def _check_told_once(record: Mapping[str, Any]) -> None:
    if not isinstance(record, Mapping):
        return
    for name in _TOLD:
        if record.get(name) is not None:
            raise _refused(record, f"{name!r} is the service's; leave it out, or send one of your own in 'attributes'")
    for name, other in _TWO_NAMES:
        if record.get(name) is not None and record.get(other) is not None and record[name] != record[other]:
            raise _refused(record, f"{name!r} and {other!r} are two names of one thing, and say two things; give one")
    for name in _VECTORS:
        if _is_vector(record.get(name)):
            raise _refused(record, f"{name!r} is no attribute; send vectors to POST .../items as 'embeddings'")
    _check_attributes(record)


def _check_attributes(record: Mapping[str, Any]) -> None:
    within = next((found for name in _ATTRIBUTES if isinstance(found := record.get(name), Mapping)), {})
    for name in within.keys() & record.keys() - _FIELDS:
        if None not in (within[name], record[name]) and within[name] != record[name]:
            raise _refused(record, f"{name!r:.60} stands in the attributes and beside them, with two values; give one")


def _is_vector(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(type(one) in (int, float) for one in value)


def _refused(record: Mapping[str, Any], reason: str) -> InvalidItemError:
    key = next((found for name in ("_id", "item_id", "id") if (found := record.get(name)) is not None), None)
    return InvalidItemError(reason, item_id=None if key is None else str(key))
