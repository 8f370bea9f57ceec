"""Filters of documents: a name means the document's metadata, even if it is also the name of an item's field. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, get_args

from retrieval.adapters.readers.records import is_key
from retrieval.domain.errors import InvalidFilterError
from retrieval.domain.search.filters import (
    FIELDS,
    NUMBER_FIELDS,
    And,
    Exists,
    Field,
    Filter,
    Not,
    Or,
    Where,
    mapping_extent,
    parse_where,
)

_METADATA_OF_FIELDS = FIELDS - NUMBER_FIELDS
"""The fields whose names documents use in their metadata; no document brings numbers of verdicts."""

_MIRRORED = frozenset({"kind", "source", "status", "tags"})
"""The fields that a document's metadata also set, if they are texts."""

_OWN_STATUSES = frozenset({"active", "archived"})
"""The statuses that an item can have although its metadata do not say so, or not have although they do."""

_COMPARING = frozenset({"eq", "ne", "in", "nin", "any", "all"})


def of_metadata(where: Where | Filter | None, known: Collection[str]) -> Filter | None:
    """The filter of a mapping in which each name means the metadata of that name, or the field if a document has none.

    ``known``: the names in the metadata of the collection's documents. A parsed filter stays as it is. Raises
    ``InvalidFilterError``.
    """
    names = _METADATA_OF_FIELDS.intersection(known)
    if not isinstance(where, Mapping) or not names:
        return parse_where(where)
    mapping_extent(where)  # limits the depth of the recursion
    return _mapping(where, names) if where else None


def _mapping(where: Where, names: AbstractSet[str]) -> Filter:
    parts = tuple(_entry(name, value, names) for name, value in where.items())
    return parts[0] if len(parts) == 1 else And(parts)


def _entry(name: Any, value: Any, names: AbstractSet[str]) -> Filter:
    if name in ("and", "or") and isinstance(value, Sequence) and all(isinstance(part, _PART) for part in value):
        parts = tuple(_part(part, names) for part in value)
        return And(parts) if name == "and" else Or(parts)
    if name == "not" and isinstance(value, _PART):
        return Not(_part(value, names))
    if name in names and not (name in _MIRRORED and _is_mirrored(name, value)):
        return _either(name, value)
    return _parsed(name, value)


_PART = (Mapping, *get_args(Filter))


def _part(part: Where | Filter, names: AbstractSet[str]) -> Filter:
    return _mapping(part, names) if isinstance(part, Mapping) else part


def _is_mirrored(name: str, value: object) -> bool:
    """Whether the field alone, which has an index, answers the condition like the metadata."""
    if isinstance(value, Mapping):
        return value.keys() <= _COMPARING and all(_is_mirrored(name, operand) for operand in value.values())
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list | tuple | set | frozenset) or not all(map(is_key, values)):
        return False
    return name != "status" or _OWN_STATUSES.isdisjoint(values)


def _either(name: str, value: object) -> Filter:
    """The condition on the metadata, for documents that have them, else on the field; or on what it can be about."""
    try:
        of_field = _parsed(name, value)
    except InvalidFilterError as error:
        try:
            return _parsed(f"attributes.{name}", value)
        except InvalidFilterError:
            raise error from None
    try:
        of_attribute = _parsed(f"attributes.{name}", value)
    except InvalidFilterError:
        return of_field  # such as all of these links
    has_metadata = Exists(Field(name, is_attribute=True))
    return Or((And((has_metadata, of_attribute)), And((Not(has_metadata), of_field))))


def _parsed(name: Any, value: object) -> Filter:
    parsed = parse_where({name: value})
    return And(()) if parsed is None else parsed
