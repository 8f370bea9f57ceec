"""An item: one retrievable thing of a collection, new, stored or changed. Pure."""

from __future__ import annotations

import hashlib
import json
import math
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Self

from retrieval.domain.checks import checks_argument_names, kind_of, nesting_fault, text_fault, time_fault, written
from retrieval.domain.errors import Advice, InvalidItemError, InvalidRequestError, VersionConflictError
from retrieval.domain.frozen import Frozen
from retrieval.domain.serialization import Serializable, json_names

MAX_KEY_BYTES = 512
"""Longest ``item_id``, kind, status, source or tag, in UTF-8 bytes: these values are in B-tree indexes."""

MAX_BODY_BYTES = 64 * 1024 * 1024

MAX_ATTRIBUTES = 1_000
"""The attributes of an item: every write and search reads the names of all attributes of its collection."""

MAX_NESTING = 64

MAX_INTEGER_BITS = 1024
"""The range of a double, which every JSON parser supports."""


_EMPTY: Mapping[str, Any] = Frozen()

_SHOWN, _TITLE_SHOWN, _METADATA_SHOWN = 150, 24, 40
"""The characters of an item's ``repr`` without names and quotes of its text, and those of its title and metadata."""


def _beginning(text: str, most: int) -> str:
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


@dataclass(frozen=True, kw_only=True, repr=False)
class PublicNames(Serializable):
    """The fields of an item, which a hit has too, and their public names ``id``, ``text`` and ``metadata``.

    Without slots, so that one assignment gives a stored item or a hit all of its fields.
    """

    serialized_names = MappingProxyType({"item_id": "id", "body": "text", "attributes": "metadata"})

    item_id: str
    """The application's own key, unique within its collection; 1 to 512 bytes."""
    title: str = ""
    body: str = ""
    kind: str = ""
    """The sort of thing, in the application's words."""
    tags: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    """JSON values by name; filterable."""
    status: str = "active"
    """``archived`` items are kept and not found; any other value is the application's own."""
    source: str = ""
    """The origin of the item: a system, a file, a person."""
    occurred_at: datetime | None = None
    """The time when the thing happened (event time); always with a time zone."""

    @classmethod
    def _with(cls, values: dict[str, Any]) -> Self:
        """The object whose fields have these values, unchecked. It keeps the dictionary."""
        made = object.__new__(cls)
        object.__setattr__(made, "__dict__", values)
        return made

    def __repr__(self) -> str:
        return self._short()

    def _short(self, *facts: str) -> str:
        """At most two lines of a terminal, under the public names; ``as_dict`` has everything."""
        parts = [*facts[:1], f"id={written(self.item_id, 40)}", *facts[1:]]
        parts += [f"title={_beginning(self.title, _TITLE_SHOWN)!r}"] if self.title else []
        metadata = f"metadata={dict(self.attributes)!r}"
        metadata = metadata if len(metadata) <= _METADATA_SHOWN else "metadata={…}"
        rest = [metadata] if self.attributes else []
        room = _SHOWN - len(f"{type(self).__name__}({', '.join([*parts, *rest])})")
        parts += [f"text={_beginning(self.body, room)!r}"] if self.body and room > 0 else []
        return f"{type(self).__name__}({', '.join([*parts, *rest])})"

    @property
    def id(self) -> str:
        """The item's id."""
        return self.item_id

    @property
    def text(self) -> str:
        """The text without the title."""
        return self.body

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The attributes."""
        return self.attributes


@checks_argument_names
@dataclass(frozen=True, kw_only=True, repr=False)
class Item(PublicNames):
    """One retrievable thing.

    Raises ``InvalidItemError`` for anything PostgreSQL could not hold or a search could not use, and for control and
    format characters, which ``clean_text`` removes. Tabs and line breaks may be in a body and in an attribute.
    """

    def __post_init__(self) -> None:
        check_key("id", self.item_id, self.item_id)
        if not self.item_id:
            raise InvalidItemError("an item needs a non-empty id")
        _check_text("title", self.title, self.item_id, is_line=True)
        _check_text("'text'", self.body, self.item_id)
        if _has_more_bytes(self.body, MAX_BODY_BYTES):
            raise refusal(self.item_id, f"text is longer than {MAX_BODY_BYTES} bytes; split it into several items")
        for name in ("kind", "status", "source"):
            check_key(name, getattr(self, name), self.item_id)
        object.__setattr__(self, "tags", _checked_tags(self.tags, self.item_id))
        object.__setattr__(self, "attributes", _checked_attributes(self.attributes, self.item_id))
        if self.occurred_at is not None and (fault := time_fault(self.occurred_at)):
            raise refusal(self.item_id, f"occurred_at is {written(self.occurred_at)}; {fault}")

    @classmethod
    def as_stored(cls, *, item_id: str, tags: Sequence[str] = (), **fields: Any) -> Self:
        """The item as a database holds it, without checks: it may be older than the checks."""
        attributes = Frozen(fields.pop("attributes", _EMPTY))
        checked = {"item_id": item_id, "tags": tuple(tags), "attributes": attributes}
        return cls._with({**_BLANK, **fields, **checked})

    def changed(self, **fields: Any) -> Self:
        """The item with these fields replaced; the caller has checked them."""
        return self.as_stored(**{**{name: getattr(self, name) for name in ITEM_FIELDS}, **fields})

    @property
    def indexed_text(self) -> str:
        """Title and body as one text, which is embedded and indexed."""
        return f"{self.title}\n{self.body}".strip()

    @property
    def content_hash(self) -> bytes:
        """SHA-256 over every field, 32 bytes: equal exactly when nothing about the item changed."""
        at = self.occurred_at.astimezone(UTC).isoformat() if self.occurred_at else None
        values = list({**self.as_dict(), "occurred_at": at}.values())
        return hashlib.sha256(_ENCODE(values).encode()).digest()


_ENCODE = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode

ITEM_FIELDS = tuple(each.name for each in fields(Item))
"""The fields of an item, its id first; the columns, a hit's parts and what surfaces show follow from them."""

_BLANK = {each.name: each.default for each in fields(Item) if each.default is not MISSING}

_FIELD_OF = {name: field for field, name in json_names(Item).items()}


def text_hash(text: str) -> bytes:
    """SHA-256 of a text, 32 bytes: the key under which its embedding is kept."""
    return hashlib.sha256(text.encode()).digest()


def refusal(item_id: object, reason: str) -> InvalidItemError:
    """The error about the item of that id; it has no id if ``item_id`` is not a text."""
    key = item_id if isinstance(item_id, str) else None
    return InvalidItemError(f"item {written(key)}: {reason}", item_id=key)


def _check_text(name: str, value: object, item_id: object, *, is_line: bool = False) -> None:
    if type(value) is str and value.isascii() and value.isprintable():
        return  # the fast path: most texts of one line
    if not isinstance(value, str):
        raise refusal(item_id, f"{name} must be text, not {type(value).__name__}")
    if fault := text_fault(value, is_line=is_line):
        raise refusal(item_id, f"{name} holds {fault}, which cannot be stored there").advising(Advice.CLEAN_TEXT)


def check_key(name: str, value: object, item_id: object, *, is_line: bool = True) -> str:
    """The value, if a key, kind, status, source or tag can have it. Raises ``InvalidItemError``."""
    _check_text(name, value, item_id, is_line=is_line)
    if _has_more_bytes(str(value), MAX_KEY_BYTES):
        raise refusal(item_id, f"{name} is longer than {MAX_KEY_BYTES} bytes")
    return str(value)


def _has_more_bytes(text: str, most: int) -> bool:
    # A character has at most four bytes, so short texts need not be encoded.
    return len(text) > most // 4 and len(text.encode()) > most


def _checked_tags(tags: object, item_id: str) -> tuple[str, ...]:
    if type(tags) is not tuple and (isinstance(tags, str) or not isinstance(tags, Sequence)):
        raise refusal(item_id, "tags must be a list of texts")
    return tuple(dict.fromkeys(check_key("a tag", tag, item_id) for tag in tags))


def _checked_attributes(attributes: object, item_id: str) -> Mapping[str, Any]:
    if type(attributes) is not dict and not isinstance(attributes, Mapping):
        raise refusal(item_id, "metadata must be a mapping")
    if len(attributes) > MAX_ATTRIBUTES:
        hint = "put names that are data into one attribute, as a list or an object"
        raise refusal(
            item_id, f"metadata has {len(attributes):,} attributes, and at most {MAX_ATTRIBUTES:,} fit; {hint}"
        )
    return Frozen(
        {
            check_key("an attribute's name", k, item_id): json_value(v, item_id, f"attribute {written(k, 60)}")
            for k, v in attributes.items()
        }
    )


def json_value(value: object, item_id: str, name: str = "an attribute", path: list[str | int] | None = None) -> Any:
    """An attribute's value as JSON can hold it; dates and times become ISO 8601 texts. Raises ``InvalidItemError``.

    ``path``: the names and positions that lead to the value within the attribute, for the error.
    """
    if isinstance(value, str):
        if not (value.isascii() and value.isprintable()):
            _check_text(_at(name, path), value, item_id)
        return value
    if value is None or isinstance(value, bool | int | float):
        return _json_number(value, item_id, name, path)
    if isinstance(value, date):  # or a datetime, which is one
        return value.isoformat()
    if isinstance(value, Mapping):
        names = [check_key(f"a name within {name}", key, item_id, is_line=False) for key in value]
        return dict(zip(names, _json_values(names, value.values(), item_id, name, path), strict=True))
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return _json_values(range(len(value)), value, item_id, name, path)
    reason = f"is {kind_of(value)}, which JSON cannot hold; make it a text, a number or a list"
    raise refusal(item_id, f"{_at(name, path)} {reason}")


def _json_number(value: float | None, item_id: str, name: str, path: list[str | int] | None) -> float | None:
    """The number, truth value or None, if JSON can hold it."""
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        reason = f"is a whole number of more than {MAX_INTEGER_BITS} bits; keep it as text"
        raise refusal(item_id, f"{_at(name, path)} {reason}")
    if isinstance(value, float) and not math.isfinite(value):
        raise refusal(item_id, f"{_at(name, path)} is NaN or infinite")
    return value


def _json_values(
    keys: Iterable[str | int], values: Iterable[object], item_id: str, name: str, path: list[str | int] | None
) -> list[Any]:
    """The members of an object or a list at that path."""
    path = [] if path is None else path
    found = []
    for key, value in zip(keys, values, strict=True):
        path.append(key)
        if fault := nesting_fault(len(path), MAX_NESTING):
            raise refusal(item_id, f"{name} {fault}")
        found.append(json_value(value, item_id, name, path))
        path.pop()
    return found


def _at(name: str, path: Sequence[str | int] | None) -> str:
    """``attribute 'prices' at ['sizes'][2]``: the place of a value within an attribute."""
    keys = "".join(f"[{written(key, 60)}]" for key in path or ())
    return f"{name} at {keys}" if keys else name


ABSENT = ""
"""Given as a version: write only if the item does not exist."""

ANY = "*"
"""Given as a version: write only if the item exists, whatever its version."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_VERSION_BYTES = 12


class Became(StrEnum):
    """The effect of a write on an item."""

    ADDED = "added"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    """The stored item was the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredItem(Serializable):
    """A stored item, with its version and the times of its changes."""

    internal_fields = frozenset({"item", "became"})

    item: Item
    version: str
    """16 opaque letters, digits, ``-`` and ``_``, different after every change but one that keeps the time."""
    created_at: datetime
    updated_at: datetime
    """The time of the last change."""
    became: Became | None = None
    """The effect of the call that returned it, compared with the item that the call read; None: it was only read."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values: those of the item, then its version and times."""
        return {**self.item.as_dict(), **Serializable.as_dict(self)}


def version_of(content_hash: bytes, updated_at: datetime) -> str:
    """The version of an item whose content has had that hash since that moment."""
    moment = (updated_at - _EPOCH) // _MICROSECOND
    mixed = blake2b(content_hash + moment.to_bytes(8, "big", signed=True), digest_size=_VERSION_BYTES)
    return urlsafe_b64encode(mixed.digest()).decode()


def check_version(item_id: str, stored: str | None, expected: str | None) -> None:
    """Raise ``VersionConflictError`` unless the item has the expected version.

    ``stored`` is its version, None where there is no such item; ``expected`` is a version, ``ANY``, ``ABSENT``, or
    None, which accepts every state. Raises ``InvalidRequestError`` for anything else.
    """
    if expected is not None and not isinstance(expected, str):
        raise InvalidRequestError(f"a version is the text that came with the item, not {written(expected)}")
    if expected is None or (stored or ABSENT) == expected or (expected == ANY and stored is not None):
        return
    if expected == ABSENT:
        reason = "already exists; read it and give its version to replace it"
    elif stored is None:
        reason = "does not exist; add it"
    else:
        reason = "was changed since that version; read it again and repeat the change"
    raise VersionConflictError(f"item {written(item_id)} {reason}", item_id=item_id)


def merged(target: object, patch: object, depth: int = 0) -> Any:
    """The target with the patch merged in: null removes a member. Raises ``InvalidItemError`` beyond 64 levels."""
    if fault := nesting_fault(depth, MAX_NESTING):
        raise InvalidItemError(f"a change {fault}")
    if not isinstance(patch, Mapping):
        return patch
    changed: dict[str, Any] = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            changed.pop(name, None)
        else:
            changed[name] = merged(changed.get(name), value, depth + 1)
    return changed


def checked_changes(item_id: str, changes: object) -> Mapping[str, Any]:
    """Changes to an item of that id, by the names of its fields. Raises ``InvalidItemError`` for anything else."""
    if not isinstance(changes, Mapping):
        raise refusal(item_id, "changes are an object such as {'title': 'new'}")
    fields = _FIELD_OF | {name: name for name in ITEM_FIELDS}
    if unknown := [name for name in changes if name not in fields]:
        raise refusal(
            item_id,
            f"an item has no {written(unknown[0], 40)}; it has {', '.join(_FIELD_OF)}; put anything else into metadata",
        )
    names = {fields[name]: name for name in changes}
    if repeated := [name for name in changes if names[fields[name]] != name]:
        other = names[fields[repeated[0]]]
        raise refusal(item_id, f"{repeated[0]!r} and {other!r} are one field; give one of them")
    changes = {fields[name]: value for name, value in changes.items()}
    if changes.get("item_id", item_id) != item_id:
        raise refusal(item_id, "the id of an item cannot change; add the item again under another id")
    if not isinstance(changes.get("attributes") or {}, Mapping):
        raise refusal(item_id, "metadata must be an object")
    return changes
