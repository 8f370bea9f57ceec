"""Namespaces and keys as item ids and tags: element by element, so that no namespace is taken for another."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.filters import AllTags, And, Exists, Field, Filter, is_value
from retrieval.domain.item import MAX_KEY_BYTES

NAMESPACE = "namespace"
"""The attribute that holds an item's namespace, a list of texts."""

_ROOT = "namespace"
"""The tag of every item of a store; longer ones name what a namespace begins with."""

_ESCAPES = {"%": "%25", "/": "%2F", "#": "%23", "\x00": "%00"}
_ESCAPED = str.maketrans(_ESCAPES)


def item_id_of(namespace: Sequence[str], key: str) -> str:
    """The id of the item: ``users/ada/prefs``; of one that is too long for an id, ``#`` and its hash."""
    return _fitting("/".join(part.translate(_ESCAPED) for part in (*namespace, key)), MAX_KEY_BYTES)


def tags_of(namespace: Sequence[str]) -> tuple[str, ...]:
    """One tag for everything that the namespace begins with, itself among it."""
    return tuple(_tag(namespace[:depth]) for depth in range(len(namespace) + 1))


def within(prefix: Sequence[str]) -> Filter:
    """The items whose namespace begins with these elements."""
    return AllTags((_tag(prefix),))


def matching(match_type: str, path: Sequence[str]) -> Filter:
    """The items whose namespace begins (``prefix``) or ends (``suffix``) like the path; ``*`` is any element."""
    if match_type not in {"prefix", "suffix"}:
        raise InvalidRequestError(f"namespaces match by 'prefix' or 'suffix', not {match_type!r:.80}")
    if not path:
        return And(())
    places = range(len(path)) if match_type == "prefix" else range(-len(path), 0)
    parts: list[Filter] = [
        is_value(_element(place), part) for place, part in zip(places, path, strict=True) if part != "*"
    ]
    # The place that is farthest from where it is counted from: with it, the others are there.
    return And((Exists(_element(places[-1] if match_type == "prefix" else places[0])), *parts))


def checked_namespace(namespace: object, what: str = "a namespace") -> tuple[str, ...]:
    """The elements, which are texts that are not empty. Raises ``InvalidRequestError``."""
    if isinstance(namespace, str) or not isinstance(namespace, Sequence):
        raise InvalidRequestError(f"{what} is a tuple of texts such as ('users', 'ada'), not {namespace!r:.80}")
    for element in namespace:
        if not isinstance(element, str) or not element or "\x00" in element:
            raise InvalidRequestError(f"{what} has texts without NUL that are not empty, not {element!r:.80}")
    return tuple(namespace)


def _element(place: int) -> Field:
    return Field(NAMESPACE, is_attribute=True, path=(str(place),))


def _tag(prefix: Sequence[str]) -> str:
    if not prefix:
        return _ROOT
    room = MAX_KEY_BYTES - len(_ROOT) - 1
    return f"{_ROOT}:{_fitting('/'.join(part.translate(_ESCAPED) for part in prefix), room)}"


def _fitting(text: str, most_bytes: int) -> str:
    data = text.encode(errors="surrogatepass")
    return text if len(data) <= most_bytes else f"#{hashlib.sha256(data).hexdigest()}"
