"""Filters of a collection: a caller's mapping is parsed once, and checked against the attributes that items have."""

from __future__ import annotations

import difflib
import json
import marshal
from collections.abc import Collection, Mapping, Sequence

from retrieval.adapters.aside import LONG, MANY_CONDITIONS, aside
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.domain.checks import shortened, written
from retrieval.domain.errors import IncomparableValueError, InvalidFilterError, UnknownFieldError
from retrieval.domain.items.attribute import AttributeType, Filterable, typed_value
from retrieval.domain.search import filters
from retrieval.domain.search.filters import Extent, Field, Filter, Scalar, Where
from retrieval.domain.search.query import SearchBounds


async def parsed_filter(where: Where | Filter | None, bounds: SearchBounds) -> Filter | None:
    """The filter of a mapping; equal small mappings give the same object. Raises ``InvalidFilterError``."""
    if where is None:
        return None
    most = bounds.filter_values
    key = _key_of(where, most)
    if key is None:
        return await _parse(where, most)
    parsed = _PARSED.get(key)
    if parsed is None:
        parsed = await _parse(where, most)
        if parsed is not None:
            if len(_PARSED) >= _MOST_PARSED:
                _PARSED.clear()
            _PARSED[key] = parsed
    return parsed


def _key_of(where: Where | Filter, most: int) -> bytes | None:
    """The mapping as bytes, equal only for equal types, values and order; None for a large or nested mapping."""
    if type(where) is not dict or not _is_few(where.values()):
        return None
    try:
        # Version 2 has no references, so equal mappings give equal bytes.
        key = marshal.dumps((most, where), 2)
    except ValueError:  # a value of another type
        return None
    return key if len(key) <= _FEW_BYTES else None


def _is_few(values: Collection[object], depth: int = 2) -> bool:
    return len(values) <= _FEW and all(
        type(value) in _PLAIN
        or (depth > 0 and type(value) is list and _is_few(value, depth - 1))
        or (depth > 0 and type(value) is dict and _is_few(value.values(), depth - 1))
        for value in values
    )


_FEW, _FEW_BYTES = 8, 1024
_PLAIN = frozenset({str, int, float, bool, type(None)})
_MOST_PARSED = 1000
_PARSED: dict[bytes, Filter] = {}
"""The filters of small mappings: applications repeat them, and plans are cached by the filter's identity."""


async def _parse(where: Where | Filter, most: int) -> Filter | None:
    size = filters.mapping_extent(where, most) if isinstance(where, Mapping) else Extent(0, 0)
    is_long = size.values >= LONG or size.conditions >= MANY_CONDITIONS
    return await aside(lambda: filters.parse_where(where, most_values=most), is_long=is_long)


def check_condition(condition: Filter | None, stored: StoredCollection, *, also: Field | None = None) -> None:
    """Check a filter, and the field ``also``, against the collection's attributes.

    Raises ``UnknownFieldError``, ``InvalidFilterError``, and ``IncomparableValueError`` for a comparison by order with
    a value of another type than the items' values.
    """
    if stored.documents:  # an empty collection has no known fields, and no hits
        check_fields(condition, stored.attributes, also=also)
        for field, values, ordered in filters.compared_values(condition):
            kinds = [kind for kind in TYPE_NAMES if kind in stored.attributes.get(field.name, ())]
            if ordered and kinds and json_type(values[0]) not in kinds:
                raise _of_field(field.name, IncomparableValueError(_order_message(field.name, values[0], kinds)))
    check_filter(condition, stored.filterable)


def check_fields(condition: Filter | None, types: Mapping[str, Collection[str]], *, also: Field | None = None) -> None:
    """Raise ``UnknownFieldError`` for an attribute, of the filter or ``also``, that no item has.

    ``types``: the JSON types of the items' values, by attribute; a declared attribute without values has none, and is
    not suggested.
    """
    requested = filters.attribute_names(condition) | ({also.name} if also is not None and also.is_attribute else set())
    unknown = sorted(requested - types.keys())
    names = sorted(name for name, kinds in types.items() if kinds and name not in filters.FIELDS) if unknown else []
    for name in unknown:
        if name in _SEARCHED_FIELDS:
            raise _of_field(name, UnknownFieldError(_IN_THE_QUERY.format(name)))
        first, *inner = name.split(".")
        if inner and first in names and "/" not in name:
            near = [f"/{'/'.join((first, *inner))}"]
        elif name == "id":
            near = ["item_id"]
        else:
            near = difflib.get_close_matches(name, [*names[:_MOST_COMPARED], *filters.FIELDS], n=1)
        hint = f"; did you mean {near[0]!r}? There are" if near else "; there are"
        known = _name_list([*sorted(filters.FIELDS), *map(repr, map(shortened, names))])
        raise _of_field(name, UnknownFieldError(f"no item has a field {written(name)}{hint} {known}"))


_MOST_COMPARED = 1000
"""The most attributes whose names are compared with a misspelt one, which takes some 20 us each."""

_SEARCHED_FIELDS = frozenset({"title", "text", "body"})
_IN_THE_QUERY = "{0!r} is searched, not filtered; write its words in the query, in quotation marks to demand them"


def order_notes(
    condition: Filter | None, types: Mapping[str, Collection[str]], filterable: Filterable
) -> tuple[str, ...]:
    """Notes on attributes with both numbers and texts that the filter compares by order; values of one type compare.

    An attribute of a declared type has none, because the declaration says which values count.
    """
    declared = dict(filterable)
    return tuple(
        f"{field.name!r} has numbers and texts; this filter compares its {TYPE_NAMES[json_type(values[0])]} only"
        for field, values, ordered in filters.compared_values(condition)
        if ordered and field.name not in declared and {"number", "string"}.issubset(types.get(field.name, ()))
    )


def json_type(value: Scalar) -> str:
    """The JSON type of a filter's value, one of ``TYPE_NAMES``: a time is a text."""
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else "string"


def _order_message(name: str, value: Scalar, kinds: Sequence[str]) -> str:
    types = " and ".join(TYPE_NAMES[kind] for kind in kinds)
    message = f"{name!r} cannot be compared by order with {written(value)}: its values are {types}"
    example = json.dumps({name: {"gte": "5" if "string" in kinds else 5}}, ensure_ascii=False)
    numbers = 'store numbers, such as 1.5 and neither "1.5" nor 1,5; for texts ' if kinds == ["string"] else ""
    return message if kinds == ["boolean"] else f"{message}; {numbers}write, for example, {example:.120}"


TYPE_NAMES = {"number": "numbers", "string": "texts", "boolean": "true or false"}
"""The everyday names of the JSON types that are neither lists nor objects."""


def _of_field(name: str, error: InvalidFilterError) -> InvalidFilterError:
    error.field = name
    return error


def check_filter(condition: Filter | None, filterable: Filterable) -> None:
    """Raise ``InvalidFilterError`` for a value that is not of its attribute's declared type."""
    types = dict(filterable)
    for field, values, ordered in filters.compared_values(condition) if types else ():
        kind = types.get(field.name)
        if kind is None:
            continue
        if ordered and kind is AttributeType.BOOLEAN:
            raise _of_field(
                field.name,
                InvalidFilterError(f"{field.name!r} is filterable as boolean; it cannot be compared by order"),
            )
        others = [value for value in values if typed_value(kind, value) is None]
        fitting = {_meaning(value) for value in values if typed_value(kind, value) is not None} if others else set()
        for value in others:
            if _meaning(value) not in fitting:
                message = (
                    f"{field.name!r} is filterable as {kind}; it cannot be compared with {written(value)}{_HINTS[kind]}"
                )
                raise _of_field(field.name, InvalidFilterError(message))


_HINTS = {
    AttributeType.TEXT: "; write the value as a text",
    AttributeType.NUMBER: "; write the value as a number",
    AttributeType.BOOLEAN: "; write true or false",
    AttributeType.TIME: "; write an ISO 8601 time such as 2024-05-01T12:00Z",
}


def _meaning(value: Scalar) -> tuple[str, Scalar]:
    """The value as a number or a text: the command line lists 26 as both."""
    parsed: object = value
    if isinstance(value, str):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            parsed = value
    if isinstance(parsed, bool):
        return "boolean", parsed
    return ("number", parsed) if isinstance(parsed, int | float) else ("text", value)


def _name_list(names: Sequence[str]) -> str:
    most = 30
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
