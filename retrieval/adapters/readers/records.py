"""Make items from records of files and from documents of LangChain. Pure."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, time
from numbers import Real
from typing import Any

from retrieval.domain.checks import choices_hint, clean_text, clean_value, kind_of, text_fault, written
from retrieval.domain.errors import Advice, ConfigurationError, InvalidItemError
from retrieval.domain.items.item import ITEM_FIELDS, MAX_KEY_BYTES, Item
from retrieval.domain.serialization import json_names

_OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "item_id": ("_id", "item_id", "id"),
    "body": ("text", "body", "content", "page_content", "document"),
    "occurred_at": ("occurred_at", "event_time"),
}
FIELD_NAMES: Mapping[str, tuple[str, ...]] = {
    name: _OTHER_NAMES.get(name, (name,)) for name in ITEM_FIELDS if name != "attributes"
}
"""Each field of an item, and its names in a record; an earlier name takes precedence."""

ATTRIBUTE_PREFIX = "attributes."
"""The prefix that distinguishes an attribute's name from a field's."""

_ONLY_AS_TEXTS = ("content", "page_content", "document")
"""Names of the body if the value is a text; any other value is an attribute."""

_VECTOR_NAMES = ("embedding", "embeddings", "vector", "vectors")
"""Names under which other systems keep an item's vector beside its text."""

_METADATA_NAMES = ("metadata", "attributes")
_ALSO_IN_METADATA = tuple(name for name in FIELD_NAMES if name not in {"item_id", "title", "body"})


def item_from_record(record: Mapping[str, Any], *, clean: bool = False) -> Item:
    """The item that a record in BEIR's format describes.

    - ``_id`` (else ``item_id``, else ``id``): a text, or a whole number, which is converted to a text.
    - ``title`` and ``text`` (else ``body``, else ``content``, ``page_content`` or ``document`` if that is text): texts.
    - ``metadata`` (else ``attributes``): an object.
    - ``kind``, ``tags``, ``status``, ``source`` and ``occurred_at`` (else ``event_time``): at the top or in the
      metadata; the top takes precedence. A time is ISO 8601 text or a ``datetime``: without a zone it is UTC, a date
      alone is midnight UTC, an empty text is no time.
    - Every other entry becomes an attribute; so does the second of two names of one field.
    - A vector at the top (see ``check_no_vector``) is refused; an entry that is null counts as missing.
    - With ``clean``, texts are stored without the characters that are refused (see ``retrieval.domain.checks``).

    Raises ``InvalidItemError`` for anything else.
    """
    if not isinstance(record, Mapping):
        raise InvalidItemError(f"an item is written as an object with an 'id', not as {kind_of(record)}")
    top = _without_nulls(record)
    if lacks_id(top):
        raise InvalidItemError(f"{_missing_id(record)}; an id is a text or a whole number; {_entries_like('id', top)}")
    fields = {field: _pop_first(top, names) for field, names in FIELD_NAMES.items()}
    key = _item_id(fields["item_id"])
    check_no_vector(top, key)
    metadata = _metadata(_pop_first(top, _METADATA_NAMES), key)
    for field in _ALSO_IN_METADATA:
        if fields[field] is None:
            fields[field] = _pop_first(metadata, FIELD_NAMES[field])
    return item_from_fields(fields, {**metadata, **top}, clean=clean)


def check_no_vector(entries: Mapping[str, Any], item_id: str) -> None:
    """Raise ``InvalidItemError`` if an entry with one of ``_VECTOR_NAMES`` holds numbers alone.

    As an attribute a vector would never be compared, and the entry does not say of which embedding space it is.
    """
    for name in _VECTOR_NAMES:
        if name in entries and _is_vector(entries[name]):
            raise InvalidItemError(
                f"item {written(item_id)}: {name!r} holds a vector, which no search would compare there",
                item_id=item_id,
            ).advising(Advice.GIVE_VECTORS, name=name)


def _is_vector(value: object, levels: int = 2) -> bool:
    """Whether the value is a list of numbers, or of such lists; an array and the text of a list count as well.

    ``levels``: the most levels of lists. Deeper ones are checked with all attributes.
    """
    if isinstance(value, str):
        text = value.strip()
        return text[:1] == "[" and text[-1:] == "]" and _NUMBERS.fullmatch(text, 1, len(text) - 1) is not None
    values = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(values, list | tuple) or not values:
        return False
    return all(
        (isinstance(each, Real) and not isinstance(each, bool)) or (levels > 1 and _is_vector(each, levels - 1))
        for each in values
    )


_NUMBERS = re.compile(r"[-+.eE,\s]*\d[-+.\deE,\s]*")
"""The text of numbers between a vector's brackets. The first part holds no digit, so matching takes linear time."""


def target_of(target: str, entry: str) -> tuple[str | None, str]:
    """The field that a mapping names, with its name in a record; None and the attribute's name for an attribute.

    Raises ``ConfigurationError`` for a name that is neither a field's nor ``attributes.`` and a name.
    """
    field = next((field for field, names in FIELD_NAMES.items() if target in names), None)
    if field is not None:
        return field, FIELD_NAMES[field][0]
    name = target.removeprefix(ATTRIBUTE_PREFIX)
    if name and name != target:
        return None, name
    fields = [name for name in json_names(Item).values() if name != "metadata"]
    raise ConfigurationError(
        f"an item has no field {written(target)}; {choices_hint(target, fields, are_quoted=True)}; "
        f"for an attribute write {ATTRIBUTE_PREFIX}{target:.80}={entry:.80}"
    )


def mapped_columns(pairs: Iterable[str]) -> dict[str, str]:
    """Columns by the field or attribute that they become, from ``id=ticket_id`` and the like.

    Raises ``ConfigurationError`` for a malformed pair, a field that is mapped twice, and an unknown field.
    """
    columns: dict[str, str] = {}
    for pair in pairs:
        field, equals, column = (part.strip() for part in pair.partition("="))
        if not (field and equals and column):
            raise ConfigurationError(f"cannot read the mapping {written(pair)}: write FIELD=NAME, such as id=ticket_id")
        if field in columns:
            raise ConfigurationError(f"{written(field)} is mapped twice; map it to one column")
        target_of(field, column)
        columns[field] = column
    return columns


def mapped_record(record: Any, columns: Mapping[str, str]) -> Any:
    """The record with the mapped entries renamed to their fields and attributes; another value, unchanged.

    ``columns`` maps a field or an attribute (see ``target_of``) to an entry, at the top or in the metadata. An entry
    with the name of a field that is mapped becomes an attribute. Raises ``InvalidItemError`` if the id's entry is
    missing.
    """
    if not columns or not isinstance(record, Mapping):
        return record
    top = dict(record)
    inner = next((name for name in _METADATA_NAMES if isinstance(top.get(name), Mapping)), _METADATA_NAMES[0])
    within = dict(top.get(inner) or {}) if isinstance(top.get(inner), Mapping | None) else {}
    fields: dict[str, Any] = {}
    attributes: dict[str, Any] = {}
    for target, entry in columns.items():
        field, name = target_of(target, entry)
        is_null = (top if entry in top else within).get(entry, "") is None
        value = top.pop(entry, None) if entry in top else within.pop(entry, None)
        if field == "item_id" and value is None:
            mapped = f"{written(entry)}, which is mapped to {target!r}"
            fault = f"{mapped}, is null" if is_null else f"no {mapped}"
            raise InvalidItemError(f"{fault}; {_entries_like(entry, _without_nulls(record))}")
        (attributes if field is None else fields)[name] = value
    aliases = {alias for name in fields for names in FIELD_NAMES.values() if name in names for alias in names}
    displaced = {name: top.pop(name) for name in list(top) if name in aliases}
    return {**top, inner: {**within, **displaced, **attributes}, **fields}


def lacks_id(record: Any) -> bool:
    """Whether the value is a record without an id."""
    return isinstance(record, Mapping) and all(record.get(name) is None for name in FIELD_NAMES["item_id"])


def check_id(record: Any) -> None:
    """Raise ``InvalidItemError`` for a record of a file that lacks an id."""
    if lacks_id(record):
        error = InvalidItemError(f"{_missing_id(record)}; {_entries_like('id', _without_nulls(record))}")
        raise error.advising(Advice.MAP_OR_MAKE_ID)


def _missing_id(record: Mapping[str, Any]) -> str:
    """Whether a record without an id has an entry of that name, which is null, or none."""
    empty = next((name for name in FIELD_NAMES["item_id"] if name in record), None)
    return f"{empty!r} is null" if empty else "no 'id' (or '_id', 'item_id')"


def _entries_like(name: str, entries: Iterable[str]) -> str:
    return choices_hint(name, entries, are_quoted=True)


def with_hashed_id(record: Any, entry: str) -> Any:
    """The record; if it has no id, with a hash of an entry, or of all entries (``*``), as its id.

    A value that is not a record is returned unchanged. Raises ``InvalidItemError`` if the entry is missing or empty.
    """
    if not lacks_id(record):
        return record
    names = next((names for names in FIELD_NAMES.values() if entry in names), (entry,))
    source = record if entry == "*" else next((record[name] for name in names if record.get(name)), None)
    if not source:
        raise InvalidItemError(f"no 'id', and no {written(entry)} to make one of")
    content = source if isinstance(source, str) else json.dumps(source, sort_keys=True, default=str)
    return {"_id": hashlib.sha256(content.encode(errors="replace")).hexdigest()[:24], **record}


def item_cleaned_if_needed(make: Callable[..., Item], *, clean: bool) -> tuple[Item, bool]:
    """The item that ``make`` makes, and whether it was cleaned, which happens only if it is refused otherwise.

    Raises the errors of ``make``; if ``clean`` is false, also those that cleaning would avoid.
    """
    try:
        return make(), False
    except InvalidItemError as refusal:
        if not clean:
            raise
        try:
            return make(clean=True), True
        except RecursionError:  # attributes that are nested too deeply, for which the item was refused
            raise refusal from None


def item_from_fields(fields: Mapping[str, Any], attributes: Mapping[str, Any], *, clean: bool = False) -> Item:
    """The item with these fields of ``Item`` (None is missing) and these attributes, cleaned with ``clean``.

    An id is never cleaned: it would be another item's. Raises ``InvalidItemError`` as ``item_from_record`` does.
    """
    present = {name: value for name, value in fields.items() if value is not None}
    key = present["item_id"] = _item_id(present.get("item_id"))
    if present.get("status") == "":
        del present["status"]
    if "occurred_at" in present:
        present["occurred_at"] = _time(present["occurred_at"], key)
    if clean:
        present = {name: value if name == "item_id" else _clean(name, value) for name, value in present.items()}
        attributes = _cleaned_attributes(attributes, key)
    return Item(**present, attributes=attributes)


def _cleaned_attributes(attributes: Mapping[str, Any], key: str) -> dict[str, Any]:
    cleaned = {clean_text(str(name), is_line=True): clean_value(value) for name, value in attributes.items()}
    if len(cleaned) < len(attributes):
        twice = next(name for name in attributes if clean_text(str(name), is_line=True) != str(name))
        raise InvalidItemError(
            f"item {key!r}: cleaned, attribute {written(twice, 60)} has the name of another", item_id=key
        )
    return cleaned


def _clean(field: str, value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_clean(field, element) for element in value]
    return clean_text(value, is_line=field != "body") if isinstance(value, str) else value


def _without_nulls(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if value is not None}


def _pop_first(entries: dict[str, Any], names: tuple[str, ...]) -> Any:
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
            f"'id' must be a text or a whole number, not {value if isinstance(value, float) else kind_of(value)}"
        )
    return value


def _metadata(value: object, key: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidItemError(f"item {key!r}: metadata must be an object, not {kind_of(value)}", item_id=key)
    return _without_nulls(value)


def _time(value: Any, key: str) -> datetime | None:
    if value == "":
        return None
    try:
        moment = datetime.fromisoformat(value.strip()) if isinstance(value, str) else value
        if not isinstance(moment, datetime):
            moment = datetime.combine(moment, time())  # of a date; anything else raises TypeError
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        raise InvalidItemError(
            f"item {key!r}: occurred_at is {written(value)}, which is not a time; "
            "write ISO 8601, such as 2024-05-31T12:00:00Z",
            item_id=key,
        ) from None


EXPLANATION_KEY = "_retrieval"
"""The metadata entry of a document that holds its hit's explanation; it is never stored."""

_KEY_FIELDS = ("kind", "source", "status")
_HIDDEN = "archived"


def document_item(item_id: str, text: str, metadata: Mapping[str, Any]) -> Item:
    """The item with the text as its body and the metadata as its attributes, so that both come back unchanged.

    Metadata with the name of a field (``kind``, ``source``, ``status``, ``tags``) also set that field, for filters.
    Raises ``InvalidItemError``.
    """
    attributes = {name: value for name, value in metadata.items() if name != EXPLANATION_KEY}
    fields = {name: attributes[name] for name in _KEY_FIELDS if is_key(attributes.get(name))}
    # No search finds an archived item, but a document should be found.
    if fields.get("status") == _HIDDEN:
        del fields["status"]
    tags = attributes.get("tags")
    if isinstance(tags, list | tuple) and all(map(is_key, tags)):
        fields["tags"] = tuple(tags)
    return Item(item_id=item_id, body=text, attributes=attributes, **fields)


def is_key(value: object) -> bool:
    """Whether the value is a text that ``document_item`` stores in a field too."""
    is_short = isinstance(value, str) and value != "" and len(value.encode(errors="replace")) <= MAX_KEY_BYTES
    return is_short and text_fault(str(value), is_line=True) is None
