"""What is put into a store, as an item of the collection, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.store.base import Item as GraphItem
from langgraph.store.base import PutOp, SearchItem, get_text_at_path

from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.filters import Compare, Exists, Field, Filter, Not, Or
from retrieval.domain.item import Item, json_value
from retrieval.domain.stored_item import StoredItem
from retrieval.domain.stored_text import clean_value
from retrieval.surfaces.langchain.store_filters import VALUE
from retrieval.surfaces.langchain.store_names import NAMESPACE, item_id_of, tags_of

KEY = "key"
"""The attribute that holds an item's key."""

TTL_MINUTES, EXPIRES_AT = "ttl_minutes", "expires_at"
"""The attributes of items that expire: how long after they were last used, and when, in seconds since 1970."""

UNINDEXED = "unindexed"
"""The attribute, true, of items that no words find."""

_EXPIRES = Field(EXPIRES_AT, is_attribute=True)


def item_of(put: PutOp, value: Mapping[str, Any], fields: Sequence[str], now: float) -> Item:
    """The item of a put; its text is what stands at the ``fields``, paths as LangGraph writes them.

    Raises ``InvalidRequestError`` for what cannot be stored.
    """
    if not isinstance(value, Mapping):
        raise InvalidRequestError(f"a value is a mapping such as {{'text': '...'}}, not {value!r:.80}")
    item_id = item_id_of(put.namespace, put.key)
    plain = json_value(value, item_id)
    texts = [] if put.index is False else _texts(plain, fields if put.index is None else put.index)
    attributes = {NAMESPACE: list(put.namespace), KEY: put.key, VALUE: plain, **_lifetime(put.ttl, now)}
    attributes |= {} if texts else {UNINDEXED: True}
    return Item(item_id=item_id, body="\n".join(texts), tags=tags_of(put.namespace), attributes=attributes)


def refreshed(item: Item, now: float) -> Item:
    """The item as used at that moment: it expires later, if it does at all; else the same object."""
    lifetime = _lifetime(item.attributes.get(TTL_MINUTES), now)
    if is_expired(item, now) or lifetime.get(EXPIRES_AT, -math.inf) <= item.attributes.get(EXPIRES_AT, math.inf):
        return item
    return item.changed(attributes={**item.attributes, **lifetime})


def is_put(item: Item) -> bool:
    """Whether a store put the item; others may be in the collection beside."""
    namespace, key = item.attributes.get(NAMESPACE), item.attributes.get(KEY)
    if not (isinstance(namespace, list | tuple) and isinstance(key, str) and VALUE in item.attributes):
        return False
    return all(isinstance(part, str) for part in namespace) and item.item_id == item_id_of(namespace, key)


def is_expired(item: Item, now: float) -> bool:
    """Whether the item's time is over at that moment, in seconds since 1970."""
    return bool(item.attributes.get(EXPIRES_AT, math.inf) <= now)


def can_expire(item: Item) -> bool:
    """Whether the item has a time to live."""
    return TTL_MINUTES in item.attributes


def is_alive(now: float) -> Filter:
    """The items whose time is not over."""
    return Or((Not(Exists(_EXPIRES)), Compare(_EXPIRES, "gt", now)))


def has_expired(now: float) -> Filter:
    """The others."""
    return Compare(_EXPIRES, "lte", now)


def is_indexed() -> Filter:
    """The items that words can find."""
    return Not(Exists(Field(UNINDEXED, is_attribute=True)))


def graph_item(stored: StoredItem) -> GraphItem:
    """The item as LangGraph gives it."""
    return GraphItem(**_parts(stored))


def search_item(stored: StoredItem, score: float | None) -> SearchItem:
    """The same, found by a search."""
    return SearchItem(**_parts(stored), score=score)


def _parts(stored: StoredItem) -> dict[str, Any]:
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
    if isinstance(ttl, bool) or not isinstance(ttl, int | float) or not 0 <= ttl < math.inf:
        raise InvalidRequestError(f"ttl is {ttl!r:.80}; it is a number of minutes of at least 0, or None")
    return {TTL_MINUTES: float(ttl), EXPIRES_AT: now + 60.0 * ttl}


def _texts(value: Mapping[str, Any], fields: Sequence[str]) -> list[str]:
    if isinstance(fields, str) or not isinstance(fields, Sequence):
        raise InvalidRequestError(f"index is False or a list of paths such as ['text'], not {fields!r:.80}")
    found = [text for field in fields for text in get_text_at_path(value, field)]
    return list(dict.fromkeys(text for text in found if text))
