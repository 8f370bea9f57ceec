"""The entries of a store, their names and their filters in the platform's terms."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from langgraph.store.base import PutOp, get_text_at_path

from retrieval.domain.checks import clean_value, is_finite, is_storable, written
from retrieval.domain.errors import InvalidFilterError, InvalidRequestError
from retrieval.domain.items.item import MAX_KEY_BYTES, Item, StoredItem, json_value
from retrieval.domain.search import filters
from retrieval.domain.search.filters import And, Compare, Exists, Field, Filter, Not

NAMESPACE = "namespace"
"""The attribute that holds an item's namespace, a list of texts."""

_ROOT = "namespace"
"""The tag of every item of a store; longer tags hold the beginning of a namespace."""

_ESCAPES = {"%": "%25", "/": "%2F", "#": "%23", "\x00": "%00"}
_ESCAPED = str.maketrans(_ESCAPES)


def item_id_of(namespace: Sequence[str], key: str) -> str:
    """The id of the item: ``users/ada/prefs``; of one that is too long for an id, ``#`` and its hash."""
    return _fitting("/".join(part.translate(_ESCAPED) for part in (*namespace, key)), MAX_KEY_BYTES)


def tags_of(namespace: Sequence[str]) -> tuple[str, ...]:
    """A tag for each beginning of the namespace, the whole one included."""
    return tuple(_tag(namespace[:depth]) for depth in range(len(namespace) + 1))


def within(prefix: Sequence[str]) -> Filter:
    """The filter on items whose namespace begins with these elements."""
    return filters.AllTags((_tag(prefix),))


def matching(match_type: str, path: Sequence[str]) -> Filter:
    """The filter on items whose namespace begins (``prefix``) or ends (``suffix``) with the path; ``*``: any part."""
    if match_type not in {"prefix", "suffix"}:
        raise InvalidRequestError(f"namespaces match by 'prefix' or 'suffix', not {written(match_type)}")
    if not path:
        return And(())
    positions = range(len(path)) if match_type == "prefix" else range(-len(path), 0)
    parts: list[Filter] = [
        filters.is_value(_element(position), part)
        for position, part in zip(positions, path, strict=True)
        if part != "*"
    ]
    # The element with the greatest distance from that end: if it exists, so do the others.
    return And((Exists(_element(positions[-1] if match_type == "prefix" else positions[0])), *parts))


def checked_namespace(namespace: object) -> tuple[str, ...]:
    """The elements, which are texts that are not empty. Raises ``InvalidRequestError``."""
    if isinstance(namespace, str) or not isinstance(namespace, Sequence):
        raise InvalidRequestError(f"a namespace is a tuple of texts such as ('users', 'ada'), not {written(namespace)}")
    for element in namespace:
        if not isinstance(element, str) or not element or "\x00" in element:
            raise InvalidRequestError(f"a namespace has texts without NUL that are not empty, not {written(element)}")
    return tuple(namespace)


def _element(position: int) -> Field:
    return Field(NAMESPACE, is_attribute=True, path=(str(position),))


def _tag(prefix: Sequence[str]) -> str:
    if not prefix:
        return _ROOT
    room = MAX_KEY_BYTES - len(_ROOT) - 1
    return f"{_ROOT}:{_fitting('/'.join(part.translate(_ESCAPED) for part in prefix), room)}"


def _fitting(text: str, most_bytes: int) -> str:
    data = text.encode(errors="surrogatepass")
    return text if len(data) <= most_bytes else f"#{hashlib.sha256(data).hexdigest()}"


VALUE = "value"
"""The attribute that holds the value of a put."""

_ORDER = {"$gt": "gt", "$gte": "gte", "$lt": "lt", "$lte": "lte"}


def value_filter(wanted: Mapping[str, Any]) -> Filter:
    """The filter on the value from a mapping such as ``{"score": {"$gt": 4.99}}``.

    A plain value matches an equal value of the same type: 1 equals 1.0 but not true. None matches null and a missing
    value, a list a list of the same length with equal elements, a mapping an object that has at least its members.
    ``$gt``, ``$gte``, ``$lt`` and ``$lte`` compare numbers with numbers and texts with texts, and match no other
    values; ``$ne`` matches everything that ``$eq`` does not, including a missing value. Raises ``InvalidFilterError``.
    """
    if not isinstance(wanted, Mapping):
        raise InvalidFilterError(f'filter is a mapping such as {{"status": "active"}}, not {written(wanted)}')
    whole = And(tuple(_met((_key(name),), value, 1) for name, value in wanted.items()))
    filters.parse_where(whole)  # limits the requested number
    return whole


def _met(path: tuple[str, ...], wanted: object, level: int) -> Filter:
    filters.check_filter_nesting(level)
    if isinstance(wanted, Mapping):
        if any(isinstance(name, str) and name.startswith("$") for name in wanted):
            return And(tuple(_operator(path, name, operand) for name, operand in wanted.items()))
        parts = [_met((*path, _key(name)), value, level + 1) for name, value in wanted.items()]
        return And((filters.HasType(_field(path), "object"), *parts))
    if isinstance(wanted, Sequence) and not isinstance(wanted, str | bytes | bytearray):
        parts = [_met((*path, str(index)), value, level + 1) for index, value in enumerate(wanted)]
        too_long = Exists(_field((*path, str(len(wanted)))))
        long_enough = [Exists(_field((*path, str(len(wanted) - 1))))] if wanted else []
        return And((filters.HasType(_field(path), "array"), Not(too_long), *long_enough, *parts))
    return _equal(path, wanted)


def _operator(path: tuple[str, ...], name: object, operand: object) -> Filter:
    if name == "$eq":
        return _equal(path, operand)
    if name == "$ne":
        return Not(_equal(path, operand))
    if not isinstance(name, str) or name not in _ORDER:
        known = ", ".join(["$eq", "$ne", *_ORDER])
        raise InvalidFilterError(f"{path[-1]!r}: there is no operator {written(name)}; there are {known}")
    if isinstance(operand, date):
        operand = operand.isoformat()
    if isinstance(operand, bool) or not isinstance(operand, str | int | float):
        raise InvalidFilterError(f"{path[-1]!r}: {name} compares with a number or a text, not {written(operand)}")
    filters.is_value(_field(path), operand)  # refuses invalid values
    return Compare(_field(path), _ORDER[name], operand)


def _equal(path: tuple[str, ...], wanted: object) -> Filter:
    field = _field(path)
    if wanted is None:
        return filters.Or((Not(Exists(field)), filters.is_value(field, None)))
    return filters.is_value(field, wanted)


def _field(path: tuple[str, ...]) -> Field:
    return Field(VALUE, is_attribute=True, path=path)


def _key(name: object) -> str:
    if not is_storable(name):
        raise InvalidFilterError(f"a filter's keys are texts that a value can have, not {written(name)}")
    return name


KEY = "key"
"""The attribute that holds an item's key."""

TTL_MINUTES, EXPIRES_AT = "ttl_minutes", "expires_at"
"""The attributes of items that expire: the time to live since the last use, and the end in seconds since 1970."""

UNINDEXED = "unindexed"
"""The attribute, with the value true, of items that searches by words do not find."""

_EXPIRES = Field(EXPIRES_AT, is_attribute=True)


def item_of(put: PutOp, value: Mapping[str, Any], fields: Sequence[str], now: float) -> Item:
    """The item of a put; its text comes from the ``fields``, which are paths in LangGraph's notation.

    Raises ``InvalidRequestError`` for what cannot be stored.
    """
    if not isinstance(value, Mapping):
        raise InvalidRequestError(f"a value is a mapping such as {{'text': '...'}}, not {written(value)}")
    item_id = item_id_of(put.namespace, put.key)
    plain = json_value(value, item_id, VALUE)
    texts = [] if put.index is False else _texts(plain, fields if put.index is None else put.index)
    attributes = {NAMESPACE: list(put.namespace), KEY: put.key, VALUE: plain, **_lifetime(put.ttl, now)}
    attributes |= {} if texts else {UNINDEXED: True}
    return Item(item_id=item_id, body="\n".join(texts), tags=tags_of(put.namespace), attributes=attributes)


def refreshed(item: Item, now: float) -> Item:
    """The item with a new end of its time to live, from now; the same object if the item does not expire."""
    lifetime = _lifetime(item.attributes.get(TTL_MINUTES), now)
    if is_expired(item, now) or lifetime.get(EXPIRES_AT, -math.inf) <= item.attributes.get(EXPIRES_AT, math.inf):
        return item
    return item.changed(attributes={**item.attributes, **lifetime})


def is_put(item: Item) -> bool:
    """Whether a store wrote the item; the collection may hold other items too."""
    namespace, key = item.attributes.get(NAMESPACE), item.attributes.get(KEY)
    if not (isinstance(namespace, list | tuple) and isinstance(key, str) and VALUE in item.attributes):
        return False
    return all(isinstance(part, str) for part in namespace) and item.item_id == item_id_of(namespace, key)


def is_expired(item: Item, now: float) -> bool:
    """Whether the item has expired at ``now``, in seconds since 1970."""
    return bool(item.attributes.get(EXPIRES_AT, math.inf) <= now)


def can_expire(item: Item) -> bool:
    """Whether the item has a time to live."""
    return TTL_MINUTES in item.attributes


def is_alive(now: float) -> Filter:
    """The filter on items that have not expired."""
    return filters.Or((Not(Exists(_EXPIRES)), Compare(_EXPIRES, "gt", now)))


def has_expired(now: float) -> Filter:
    """The filter on items that have expired."""
    return Compare(_EXPIRES, "lte", now)


def is_indexed() -> Filter:
    """The filter on items that searches by words find."""
    return Not(Exists(Field(UNINDEXED, is_attribute=True)))


def graph_parts(stored: StoredItem) -> dict[str, Any]:
    """The members of LangGraph's item."""
    attributes = stored.item.attributes
    return {
        "namespace": tuple(attributes[NAMESPACE]),
        "key": attributes[KEY],
        "value": clean_value(attributes[VALUE]),
        "created_at": stored.created_at,
        "updated_at": stored.updated_at,
    }


def _lifetime(ttl: object, now: float) -> dict[str, float]:
    if ttl is None:
        return {}
    if not is_finite(ttl) or ttl < 0:
        raise InvalidRequestError(f"ttl is {written(ttl)}; it is a number of minutes of at least 0, or None")
    return {TTL_MINUTES: float(ttl), EXPIRES_AT: now + 60.0 * ttl}


_INDEX = re.compile(r"\[\s*(?:\*|[+-]?\d+)\s*\]")


def are_paths(fields: object) -> bool:
    """Whether it is a list of paths in LangGraph's notation."""
    return not isinstance(fields, str) and isinstance(fields, Sequence) and all(map(_is_path, fields))


def _is_path(path: object) -> bool:
    """Whether each bracket encloses an index and each brace is closed; otherwise LangGraph finds nothing."""
    if not isinstance(path, str):
        return False
    bare = _INDEX.sub("", path)
    return not {"[", "]"} & set(bare) and bare.count("{") == bare.count("}")


def _texts(value: Mapping[str, Any], fields: Sequence[str]) -> list[str]:
    if not are_paths(fields):
        raise InvalidRequestError(
            f"index is False or a list of paths such as ['text', 'more[*].note'], not {written(fields)}"
        )
    found = [text for field in fields for text in get_text_at_path(value, field)]
    return list(dict.fromkeys(text for text in found if text))
