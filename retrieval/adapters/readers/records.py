"""Records of files and documents of LangChain, as items. Pure."""

from __future__ import annotations

import difflib
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from typing import Any

from retrieval.domain.checks import choices_hint, clean_text, clean_value, text_fault
from retrieval.domain.errors import Advice, ConfigurationError, InvalidItemError
from retrieval.domain.items.item import MAX_KEY_BYTES, Item
from retrieval.domain.serialization import json_names

FIELD_NAMES: Mapping[str, tuple[str, ...]] = {
    "item_id": ("_id", "item_id", "id"),
    "title": ("title",),
    "body": ("text", "body", "content", "page_content", "document"),
    "kind": ("kind",),
    "tags": ("tags",),
    "status": ("status",),
    "source": ("source",),
    "occurred_at": ("occurred_at", "event_time"),
}
"""Each field of an item, and the names that it has in a record; an earlier name goes before a later one."""

ATTRIBUTE_PREFIX = "attributes."
"""The prefix that tells an attribute's name from a field's."""

_ONLY_AS_TEXTS = ("content", "page_content", "document")
"""These name a field where they are texts; whatever else they are is an attribute."""

MAX_DEPTH = 64
"""Most levels of lists and objects inside one attribute."""

_METADATA_NAMES = ("metadata", "attributes")
_ALSO_IN_METADATA = ("kind", "tags", "status", "source", "occurred_at")


def item_from_record(record: Mapping[str, Any], *, clean: bool = False) -> Item:
    """The item that a record in BEIR's format describes.

    - ``id`` (or ``_id``, which goes first, or ``item_id``): text, or a whole number, which becomes its text.
    - ``title`` and ``text`` (or ``body``; or ``content``, ``page_content``, ``document``, where that is a text): texts,
      missing is empty.
    - ``metadata`` (or ``attributes``): an object.
    - ``kind``, ``tags``, ``status``, ``source`` and ``occurred_at`` (or ``event_time``) may stand at the top
      or in the metadata; the top goes first. An empty status is the default one. A time is ISO 8601 text or a
      ``datetime``: without a zone it is UTC, a date alone is midnight UTC, empty is none.
    - Every other entry, at the top or in the metadata, becomes an attribute; so does the second of two names
      for one field, and a field's name in the metadata when the top has it already. The top goes first.
    - An entry that is null counts as missing.
    - With ``clean``, texts are stored without the characters that are refused (see ``retrieval.domain.checks``).

    Raises ``InvalidItemError`` for anything else.
    """
    if not isinstance(record, Mapping):
        raise InvalidItemError(f"an item is written as an object with an 'id', not as {_kind_of(record)}")
    top = _without_nulls(record)
    if lacks_id(top):
        raise InvalidItemError(
            f"no 'id' (or '_id', 'item_id'), a text or a whole number; {choices_hint('id', top, are_quoted=True)}"
        )
    fields = {field: _taken(top, names) for field, names in FIELD_NAMES.items()}
    key = _item_id(fields["item_id"])
    metadata = _metadata(_taken(top, _METADATA_NAMES), key)
    for field in _ALSO_IN_METADATA:
        if fields[field] is None:
            fields[field] = _taken(metadata, FIELD_NAMES[field])
    return item_from_fields(fields, {**metadata, **top}, clean=clean)


def target_of(target: str, entry: str) -> tuple[str | None, str]:
    """The field that a mapping names, with its name in a record; None and a name where it is an attribute's.

    Raises ``ConfigurationError`` for a name that is neither a field's nor ``attributes.`` and a name.
    """
    field = next((field for field, names in FIELD_NAMES.items() if target in names), None)
    if field is not None:
        return field, FIELD_NAMES[field][0]
    name = target.removeprefix(ATTRIBUTE_PREFIX)
    if name and name != target:
        return None, name
    fields = list(json_names(Item).values())
    near = difflib.get_close_matches(target, [name for names in FIELD_NAMES.values() for name in names], n=1)
    raise ConfigurationError(
        f"an item has no field {target!r:.80}{f'; did you mean {near[0]!r}? The' if near else '; the'} fields are "
        f"{', '.join(fields)}; for an attribute write {ATTRIBUTE_PREFIX}{target:.80}={entry:.80}"
    )


def mapped_columns(pairs: Iterable[str]) -> dict[str, str]:
    """Columns by the field or attribute that they become, from ``id=ticket_id`` and the like.

    Raises ``ConfigurationError`` for a pair that is none, for a field that is mapped twice, and for what is no field.
    """
    columns: dict[str, str] = {}
    for pair in pairs:
        field, equals, column = (part.strip() for part in pair.partition("="))
        if not (field and equals and column):
            raise ConfigurationError(f"cannot read the mapping {pair!r:.80}: write FIELD=NAME, such as id=ticket_id")
        if field in columns:
            raise ConfigurationError(f"{field!r:.80} is mapped twice; map it to one column")
        target_of(field, column)
        columns[field] = column
    return columns


def mapped_record(record: Mapping[str, Any], columns: Mapping[str, str]) -> Mapping[str, Any]:
    """The record with the entries that are mapped under the names that they are mapped to.

    ``columns`` maps a field or an attribute (see ``target_of``) to an entry, at the top or in the metadata. What has
    the name of a field that is mapped to another entry becomes an attribute. Raises ``InvalidItemError`` where the id's
    entry is missing.
    """
    top = dict(record)
    inner = next((name for name in _METADATA_NAMES if isinstance(top.get(name), Mapping)), _METADATA_NAMES[0])
    within = dict(top.get(inner) or {}) if isinstance(top.get(inner), Mapping | None) else {}
    fields: dict[str, Any] = {}
    attributes: dict[str, Any] = {}
    for target, entry in columns.items():
        field, name = target_of(target, entry)
        value = top.pop(entry, None) if entry in top else within.pop(entry, None)
        if field == "item_id" and value is None:
            raise InvalidItemError(
                f"no {entry!r:.80}, which is mapped to {target!r}; {choices_hint(entry, record, are_quoted=True)}"
            )
        (attributes if field is None else fields)[name] = value
    others = {other for name in fields for names in FIELD_NAMES.values() if name in names for other in names}
    left = {name: top.pop(name) for name in list(top) if name in others}
    return {**top, inner: {**within, **left, **attributes}, **fields}


def lacks_id(record: Any) -> bool:
    """True if it is a record without an id."""
    return isinstance(record, Mapping) and all(record.get(name) is None for name in FIELD_NAMES["item_id"])


def check_id(record: Any) -> None:
    """Raise ``InvalidItemError`` for a record of a file that lacks an id."""
    if lacks_id(record):
        error = InvalidItemError(f"no 'id' (or '_id', 'item_id'); {choices_hint('id', record, are_quoted=True)}")
        raise error.advising(Advice.MAP_OR_MAKE_ID)


def with_hashed_id(record: Any, entry: str) -> Any:
    """The record with a hash of an entry, or of all entries (``*``), as its id, where it has none.

    ``entry`` is a field of ``FIELD_NAMES``, by any of its names, or another entry. Equal contents have equal ids. What
    is no record is given back. Raises ``InvalidItemError`` where the entry is missing or empty.
    """
    if not lacks_id(record):
        return record
    names = next((names for names in FIELD_NAMES.values() if entry in names), (entry,))
    said = record if entry == "*" else next((record[name] for name in names if record.get(name)), None)
    if not said:
        raise InvalidItemError(f"no 'id', and no {entry!r:.80} to make one of")
    content = said if isinstance(said, str) else json.dumps(said, sort_keys=True, default=str)
    return {"_id": hashlib.sha256(content.encode(errors="replace")).hexdigest()[:24], **record}


def item_as_it_is_or_cleaned(make: Callable[..., Item], *, clean: bool) -> tuple[Item, bool]:
    """The item that ``make`` makes, and whether it had to be cleaned: where it is refused as it is.

    Raises what ``make`` raises; where ``clean`` is false, also for what cleaning would mend.
    """
    try:
        return make(), False
    except InvalidItemError:
        if not clean:
            raise
        return make(clean=True), True


def item_from_fields(fields: Mapping[str, Any], attributes: Mapping[str, Any], *, clean: bool = False) -> Item:
    """The item with these fields, by their names in ``Item`` (None is missing), and these attributes; clean if asked.

    Raises ``InvalidItemError`` as ``item_from_record`` does.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    key = given["item_id"] = _item_id(given.get("item_id"))
    if given.get("status") == "":
        del given["status"]
    if "occurred_at" in given:
        given["occurred_at"] = _time(given["occurred_at"], key)
    for value in attributes.values():
        _check_attribute(value, MAX_DEPTH, key)
    if clean:
        given = {name: _cleaned(name, value) for name, value in given.items()}
        attributes = {clean_text(str(name), is_line=True): clean_value(value) for name, value in attributes.items()}
    return Item(**given, attributes=attributes)


def _cleaned(field: str, value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_cleaned(field, element) for element in value]
    return clean_text(value, is_line=field != "body") if isinstance(value, str) else value


def _without_nulls(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if value is not None}


def _taken(entries: dict[str, Any], names: tuple[str, ...]) -> Any:
    for name in names:
        if name in entries and (name not in _ONLY_AS_TEXTS or isinstance(entries[name], str)):
            return entries.pop(name)
    return None


def _item_id(value: object) -> str:
    if value is None:
        raise InvalidItemError("no 'id' (or '_id', 'item_id'); every item needs one, a text or a whole number")
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) > sys.float_info.max:
            raise InvalidItemError("'id' is a number beyond ±1.8e308; write it as text")
        return str(value)
    if not isinstance(value, str):
        raise InvalidItemError(
            f"'id' must be a text or a whole number, not {value if isinstance(value, float) else _kind_of(value)}"
        )
    return value


def _metadata(value: object, key: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidItemError(f"item {key!r}: metadata must be an object, not {_kind_of(value)}", item_id=key)
    return _without_nulls(value)


def _time(value: object, key: str) -> datetime | None:
    if value == "":
        return None
    try:
        moment = _moment(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        raise InvalidItemError(
            f"item {key!r}: occurred_at is {repr(value)[:60]}, which is no time; "
            "write ISO 8601, such as 2024-05-31T12:00:00Z",
            item_id=key,
        ) from None


def _moment(value: object) -> datetime:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime.combine(value, time())
    if isinstance(value, str):
        return datetime.fromisoformat(value.strip())
    raise TypeError


def _check_attribute(value: object, depth: int, key: str) -> None:
    """Refuses numbers beyond double precision, and values that nest too deeply to be traversed safely."""
    if value is None or isinstance(value, str | bytes | float):
        return
    if isinstance(value, int):
        if abs(value) > sys.float_info.max:
            raise InvalidItemError(
                f"item {key!r}: an attribute is a number beyond ±1.8e308; write it as text", item_id=key
            )
    elif isinstance(value, Mapping | Sequence):
        if depth == 0:
            raise InvalidItemError(
                f"item {key!r}: an attribute is nested more than {MAX_DEPTH} levels deep; flatten it",
                item_id=key,
            )
        for inner in value.values() if isinstance(value, Mapping) else value:
            _check_attribute(inner, depth - 1, key)


def _kind_of(value: object) -> str:
    """The value's type in the words of JSON."""
    return _JSON_KINDS.get(type(value), f"a {type(value).__name__}")


_JSON_KINDS: Mapping[type, str] = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "an object",
}


EXPLANATION_KEY = "_retrieval"
"""The name in a document's metadata under which its hit is explained. No metadata of this name are stored."""

_KEY_FIELDS = ("kind", "source", "status")
_HIDDEN = "archived"


def document_item(item_id: str, text: str, metadata: Mapping[str, Any]) -> Item:
    """The text is the body and the metadata the attributes, so that both come back as they were given.

    Metadata that an item has a field for (``kind``, ``source``, ``status``, ``tags``) fill that field too: a filter
    that names it then finds the document, as it finds any other item. Raises ``InvalidItemError``.
    """
    attributes = {name: value for name, value in metadata.items() if name != EXPLANATION_KEY}
    fields = {name: attributes[name] for name in _KEY_FIELDS if _is_key(attributes.get(name))}
    # An archived item would not be found, which is never wanted for a document.
    if fields.get("status") == _HIDDEN:
        del fields["status"]
    tags = attributes.get("tags")
    if isinstance(tags, list | tuple) and all(map(_is_key, tags)):
        fields["tags"] = tuple(tags)
    return Item(item_id=item_id, body=text, attributes=attributes, **fields)


def _is_key(value: object) -> bool:
    """Whether the value is a text that a field can hold."""
    is_short = isinstance(value, str) and value != "" and len(value.encode(errors="replace")) <= MAX_KEY_BYTES
    return is_short and text_fault(str(value), is_line=True) is None
