"""Filters of documents: a name means the document's metadata, even if it is also the name of an item's field. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, get_args

from retrieval.adapters.readers.records import is_key
from retrieval.domain.errors import InvalidFilterError
from retrieval.domain.search import filters
from retrieval.domain.search.filters import And, Filter, Where

_METADATA_OF_FIELDS = filters.FIELDS - filters.NUMBER_FIELDS
"""The fields whose names documents use in their metadata; no document has numbers of verdicts."""

_MIRRORED = {"kind": "string", "source": "string", "status": "string", "tags": "array"}
"""The fields that metadata of the same name and of that JSON type also set."""

_OWN_STATUSES = frozenset({"active", "archived"})
"""The statuses in which an item's field and its metadata may differ."""

_COMPARING = frozenset({"eq", "ne", "in", "nin", "any", "all"})


_Types = Mapping[str, Collection[str]]
"""The JSON types of the metadata under each name."""


def of_metadata(where: Where | Filter | None, types: _Types) -> Filter | None:
    """The filter of a mapping in which each name means the metadata of that name, or the field if a document has none.

    ``types``: the JSON types of the values, by the names in the metadata of the collection's documents. A parsed filter
    stays as it is. Raises ``InvalidFilterError``.
    """
    if not isinstance(where, Mapping) or _METADATA_OF_FIELDS.isdisjoint(types):
        return filters.parse_where(where)
    filters.mapping_extent(where)  # limits the depth of the recursion
    return _mapping(where, types) if where else None


def _mapping(where: Where, types: _Types) -> Filter:
    parts = tuple(_entry(name, value, types) for name, value in where.items())
    return parts[0] if len(parts) == 1 else And(parts)


def _entry(name: Any, value: Any, types: _Types) -> Filter:
    if name in ("and", "or") and isinstance(value, Sequence) and all(isinstance(part, _PART) for part in value):
        parts = tuple(_part(part, types) for part in value)
        return And(parts) if name == "and" else filters.Or(parts)
    if name == "not" and isinstance(value, _PART):
        return filters.Not(_part(value, types))
    if name not in _METADATA_OF_FIELDS or name not in types:
        return _parsed(name, value)
    # If all metadata of that name set the field, the condition on the field has the same result, and uses its index.
    is_mirrored = name in _MIRRORED and {_MIRRORED[name], "null"}.issuperset(types[name])
    return _parsed(name, value) if is_mirrored and _compares_keys(name, value) else _either(name, value)


_PART = (Mapping, *get_args(Filter))


def _part(part: Where | Filter, types: _Types) -> Filter:
    return _mapping(part, types) if isinstance(part, Mapping) else part


def _compares_keys(name: str, value: object) -> bool:
    """Whether the condition compares with texts that a field can hold, so that field and metadata give one result."""
    if isinstance(value, Mapping):
        return value.keys() <= _COMPARING and all(_compares_keys(name, operand) for operand in value.values())
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list | tuple | set | frozenset) or not all(map(is_key, values)):
        return False
    return name != "status" or _OWN_STATUSES.isdisjoint(values)


def _either(name: str, value: object) -> Filter:
    """The condition on the metadata of documents that have them, and on the field of others.

    A condition that is invalid for one of the two applies to the other alone.
    """
    try:
        of_attribute = _parsed(f"attributes.{name}", value)
    except InvalidFilterError:  # such as ``all``, which attributes do not have
        return _parsed(name, value)
    try:
        of_field = _parsed(name, value)
    except InvalidFilterError:
        return of_attribute
    has_metadata = filters.Exists(filters.Field(name, is_attribute=True))
    return filters.Or((And((has_metadata, of_attribute)), And((filters.Not(has_metadata), of_field))))


def _parsed(name: Any, value: object) -> Filter:
    parsed = filters.parse_where({name: value})
    return And(()) if parsed is None else parsed
