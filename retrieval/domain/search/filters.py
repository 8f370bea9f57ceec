"""The filter language as frozen values, and the mapping that people write (docs/concepts/filters.md). Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import repeat
from typing import Any, NamedTuple

from retrieval.domain.checks import is_number, is_storable, nesting_fault, time_fault, written
from retrieval.domain.errors import InvalidFilterError, InvalidItemError
from retrieval.domain.items.item import MAX_INTEGER_BITS, json_value

TEXT_FIELDS = frozenset({"item_id", "kind", "status", "source"})
TIME_FIELDS = frozenset({"occurred_at", "created_at"})
NUMBER_FIELDS = frozenset({"verdict_rating", "verdict_count"})
FIELDS = TEXT_FIELDS | TIME_FIELDS | NUMBER_FIELDS | {"tags", "links"}
"""The fields that every item has; only memories have ``links``, and the numbers come from verdicts."""

_NO_ATTRIBUTES = FIELDS | {"", "and", "or", "not", "$and", "$or", "$not"}
"""The keys of a mapping that name no attribute: one of that name has ``attributes.`` before it."""

_ATTRIBUTE_PREFIX = "attributes."
MAX_FILTER_NESTING = 32

MAX_CONDITIONS = 100
"""The most conditions of one filter, because each is a part of the statement. A list counts as one; each tag of ``all``
counts as one too."""

Scalar = str | int | float | bool | datetime


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the item, or one of its attributes."""

    name: str
    is_attribute: bool
    path: tuple[str, ...] = ()
    """The keys and places that lead into an attribute's value; ``-1`` is the last place of a list."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """The field equals one of the values; a list attribute contains one of them; ``tags``, ``links`` have one."""

    field: Field
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class AllTags:
    """The item has every one of the tags."""

    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compare:
    """The field stands in that order to the value: ``gt``, ``gte``, ``lt`` or ``lte``."""

    field: Field
    operator: str
    value: Scalar


@dataclass(frozen=True, slots=True)
class Exists:
    """The field has a value; an attribute that is null has none, a null within an attribute is one."""

    field: Field


@dataclass(frozen=True, slots=True)
class Is:
    """The attribute equals that JSON value: 1 equals 1.0 and not true; a list does not equal its element."""

    field: Field
    json: str


@dataclass(frozen=True, slots=True)
class HasType:
    """The attribute is a JSON value of that type, one of ``JSON_TYPES``."""

    field: Field
    json_type: str


@dataclass(frozen=True, slots=True)
class Contains:
    """The item's title or body holds these words, one after the other, as the collection's language reads them."""

    text: str


@dataclass(frozen=True, slots=True)
class And:
    """Items that match all of the filters; no filters match every item."""

    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Items that match at least one of the filters; no filters match no item."""

    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Items that do not match the filter."""

    filter: Filter


_TAGS, LINKS = Field("tags", is_attribute=False), Field("links", is_attribute=False)

_CONTAINERS = (list, tuple, set, frozenset, Mapping)

Leaf = OneOf | AllTags | Compare | Exists | Is | HasType | Contains

Filter = Leaf | And | Or | Not

JSON_TYPES = ("array", "boolean", "null", "number", "object", "string")

Where = Mapping[str, Any]
"""The mapping that people write; see docs/concepts/filters.md."""


def parse_where(where: Where | Filter | None, *, most_values: int | None = None) -> Filter | None:
    """The filter of a mapping; None and an empty mapping filter nothing. Raises ``InvalidFilterError``.

    ``most_values``: the most values that all conditions together may compare with; None: any number.
    """
    if where is None or isinstance(where, Filter):
        condition = where
    elif isinstance(where, Mapping):
        mapping_extent(where, most_values)
        condition = _parse_mapping(where, 0) if where else None
    else:
        raise InvalidFilterError(f'where must be a mapping such as {{"priority": "High"}}, not {written(where)}')
    if condition is not None:
        _check_extent(extent(condition), most_values)
    return condition


class Extent(NamedTuple):
    """The number of a filter's conditions, and of the values that it compares with."""

    conditions: int
    values: int


def leaves(condition: Filter | None) -> Iterator[Leaf]:
    """The parts of a filter that have no parts, in order; of None, none."""
    match condition:
        case And(filters) | Or(filters):
            for part in filters:
                yield from leaves(part)
        case Not(inner):
            yield from leaves(inner)
        case None:
            return
        case _:
            yield condition


def extent(condition: Filter) -> Extent:
    """Measures a filter."""
    match condition:
        case And(filters) | Or(filters):
            parts = [extent(part) for part in filters]
            return Extent(max(1, sum(part.conditions for part in parts)), sum(part.values for part in parts))
        case Not(inner):
            return extent(inner)
        case OneOf(values=values):
            return Extent(1, len(values))
        case AllTags(tags):
            return Extent(len(tags), len(tags))
        case _:
            return Extent(1, 1)


def is_small(condition: Filter | None) -> bool:
    """Whether a prepared filter may be kept: many filters of its size need little memory."""
    return condition is None or max(extent(condition)) <= _SMALL


_SMALL = 50
"""The most conditions, and the most values, of a small filter."""


def _check_extent(size: Extent, most_values: int | None) -> None:
    if size.conditions > MAX_CONDITIONS:
        raise InvalidFilterError(
            f"the filter has more than {MAX_CONDITIONS} conditions. Values of one field go into one list: "
            '{"priority": ["High", "Low"]}'
        )
    if most_values is not None and size.values > most_values:
        raise InvalidFilterError(
            f"the filter compares with more than {most_values:,} values (RETRIEVAL_MAX_FILTER_VALUES); ask in "
            "parts, or by an attribute that those items share"
        )


def mapping_extent(where: Where, most_values: int | None = None) -> Extent:
    """Measures a mapping before it is parsed. Raises ``InvalidFilterError`` as soon as it is too large."""
    conditions = values = 0
    waiting: list[tuple[Any, bool, int]] = [(where, True, 0)]
    while waiting:
        part, is_group, depth = waiting.pop()
        check_filter_nesting(depth // 2)  # because ``and`` and ``or`` add a list to each level of filters
        # Each member of a group is a condition, or a group of at least one.
        _check_extent(Extent(conditions + is_group * max(1, len(part)), values + len(part)), most_values)
        before = len(waiting)
        for key, value in part.items() if isinstance(part, Mapping) else zip(repeat(None), part):
            if isinstance(value, _CONTAINERS):
                is_inner = is_group and key != "is" and (isinstance(value, Mapping) or key in ("and", "or"))
                conditions += is_group and not is_inner
                waiting.append((value, is_inner, depth + 1))
            else:
                conditions += is_group
        values += len(part) - (len(waiting) - before) if part else 1
        conditions += is_group and not part
    return Extent(conditions, values)


def check_filter_nesting(level: int) -> None:
    """Raise ``InvalidFilterError`` for a filter within too many others."""
    if fault := nesting_fault(level, MAX_FILTER_NESTING):
        raise InvalidFilterError(f"the filter {fault}")


def attribute_names(condition: Filter | None) -> frozenset[str]:
    """The attributes that a filter names."""
    fields = (leaf.field for leaf in leaves(condition) if not isinstance(leaf, AllTags | Contains))
    return frozenset(field.name for field in fields if field.is_attribute)


def compared_values(condition: Filter | None) -> Iterator[tuple[Field, tuple[Scalar, ...], bool]]:
    """The attributes that a filter compares, with the values, and whether they are compared by order."""
    for leaf in leaves(condition):
        if isinstance(leaf, OneOf | Compare) and leaf.field.is_attribute and not leaf.field.path:
            values = (leaf.value,) if isinstance(leaf, Compare) else leaf.values
            yield leaf.field, values, isinstance(leaf, Compare)


def _parse_mapping(where: Where, depth: int) -> Filter:
    check_filter_nesting(depth)
    conditions = tuple(_within(key, _parse_entry, key, value, depth) for key, value in where.items())
    return conditions[0] if len(conditions) == 1 else And(conditions)


def _within(step: object, parse: Callable[..., Filter], *arguments: object) -> Filter:
    """Parses a part of a filter; an error names the step that leads to the part."""
    try:
        return parse(*arguments)
    except InvalidFilterError as error:
        error.location = (step if isinstance(step, int) else str(step), *error.location)
        raise


def _parse_entry(key: object, value: object, depth: int) -> Filter:
    if key in ("and", "or"):
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise InvalidFilterError(f"{written(key)} takes a list of filters")
        conditions = tuple(_within(place, _parse_part, part, depth) for place, part in enumerate(value))
        return And(conditions) if key == "and" else Or(conditions)
    if key == "not":
        return Not(_parse_part(value, depth))
    if key in ("$and", "$or", "$not"):
        raise InvalidFilterError(f"{key!r}: say {str(key)[1:]!r}, without $")
    return _parse_condition(parse_field(key), value)


def _parse_part(part: object, depth: int) -> Filter:
    if isinstance(part, Filter):
        return part
    if not isinstance(part, Mapping):
        raise InvalidFilterError(f"a filter inside and, or, not must be a mapping, not {written(part)}")
    return _parse_mapping(part, depth + 1)


def parse_field(key: object) -> Field:
    """The field of that name; ``/a/b`` is the member ``b`` of attribute ``a``. Raises ``InvalidFilterError``."""
    if not is_storable(key) or not key:
        raise InvalidFilterError(
            f"a field's name must be a non-empty text without NUL or half of a surrogate pair, not {written(key)}"
        )
    if key.startswith("/"):
        name, *path = (part.replace("~1", "/").replace("~0", "~") for part in key[1:].split("/"))
        return Field(name, is_attribute=True, path=tuple(path))
    if key.startswith(_ATTRIBUTE_PREFIX):
        return Field(key.removeprefix(_ATTRIBUTE_PREFIX), is_attribute=True)
    return Field(key, is_attribute=key not in FIELDS)


def _parse_condition(field: Field, value: object) -> Filter:
    if value is None:
        return Not(Exists(field))
    if isinstance(value, Mapping):
        if not value:
            raise _refusal(field, "the condition is empty")
        conditions = tuple(_within(name, _parse_operator, field, name, operand) for name, operand in value.items())
        return conditions[0] if len(conditions) == 1 else And(conditions)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return _one_of(field, value)
    return OneOf(field, (_value(field, value),))


def _refusal(field: Field, reason: str) -> InvalidFilterError:
    return InvalidFilterError(f"{written(field.name)}: {reason}")


def _parse_operator(field: Field, name: object, operand: object) -> Filter:
    if not isinstance(name, str) or name not in _OPERATORS:
        plain = name.removeprefix("$") if isinstance(name, str) else name
        hint = f"; say {written(plain)}" if plain != name and plain in _OPERATORS else ""
        raise _refusal(field, f"there is no operator {written(name)}{hint}; there are {', '.join(sorted(_OPERATORS))}")
    return _OPERATORS[name](field, operand)


def _compare(operator: str) -> Callable[[Field, object], Filter]:
    def parse(field: Field, operand: object) -> Filter:
        if field in (_TAGS, LINKS):
            raise _refusal(field, "it cannot be compared by order; use a list, any or all")
        value = _value(field, operand)
        if isinstance(value, bool):
            raise _refusal(field, f"{operator} needs a number, a text or a time, not {written(value)}")
        return Compare(field, operator, value)

    return parse


def _exists(field: Field, operand: object) -> Filter:
    if not isinstance(operand, bool):
        raise _refusal(field, f"exists takes true or false, not {written(operand)}")
    return Exists(field) if operand else Not(Exists(field))


def _one_of(field: Field, operand: object) -> Filter:
    if isinstance(operand, str) or not isinstance(operand, Sequence | frozenset | set):
        raise _refusal(field, f"'in' and 'any' take a list, not {written(operand)}")
    # In Python True equals 1; JSON distinguishes them.
    parsed = (_value(field, value) for value in operand)
    return OneOf(field, tuple({(isinstance(value, bool), value): value for value in parsed}.values()))


def _all(field: Field, operand: object) -> Filter:
    if field not in (_TAGS, LINKS):
        raise _refusal(field, "'all' is for tags and links")
    if isinstance(operand, str) or not isinstance(operand, Sequence):
        raise _refusal(field, f"'all' takes a list, not {written(operand)}")
    if field == LINKS:
        return And(tuple(OneOf(field, (_value(field, link),)) for link in operand))
    return AllTags(tuple(str(_value(field, tag)) for tag in operand))


def _equals(field: Field, operand: object) -> Filter:
    return Not(Exists(field)) if operand is None else OneOf(field, (_value(field, operand),))


def is_value(field: Field, value: object) -> Is:
    """The filter for that JSON value exactly. Raises ``InvalidFilterError`` for one that no attribute can have."""
    _check_json(field, "is")
    try:
        plain = json_value(value, field.name)
        return Is(field, json.dumps(plain, ensure_ascii=False, sort_keys=True))
    except InvalidItemError as error:
        raise _refusal(field, f"no item can have the value: {error}") from None


def _has_type(field: Field, operand: object) -> Filter:
    _check_json(field, "type")
    if operand not in JSON_TYPES:
        raise _refusal(field, f"type takes one of {', '.join(JSON_TYPES)}, not {written(operand)}")
    return HasType(field, str(operand))


def _check_json(field: Field, operator: str) -> None:
    if not field.is_attribute:
        raise _refusal(field, f"it is not an attribute; {operator!r} is for JSON values of attributes")


_OPERATORS: Mapping[str, Callable[[Field, object], Filter]] = {
    "eq": _equals,
    "ne": lambda field, operand: Not(_equals(field, operand)),
    "in": _one_of,
    "nin": lambda field, operand: Not(_one_of(field, operand)),
    "any": _one_of,
    "all": _all,
    "exists": _exists,
    "is": is_value,
    "type": _has_type,
    **{operator: _compare(operator) for operator in ("gt", "gte", "lt", "lte")},
}


def _value(field: Field, value: object) -> Scalar:
    """The value that the field is compared with. Raises ``InvalidFilterError`` for one that no item can have."""
    if isinstance(value, str) and not is_storable(value):
        raise _refusal(field, "the value holds a NUL byte, or half of a surrogate pair; no item can have it")
    if not field.is_attribute:
        return _OF_FIELD.get(field.name, _text)(field, value)
    if isinstance(value, str):
        return value
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        raise _refusal(field, "the number is beyond ±1.8e308, and no item can have it")
    if isinstance(value, float) and not math.isfinite(value):
        raise _refusal(field, f"{value} is not a number that an item can have")
    if isinstance(value, int | float):
        return value
    raise _refusal(field, f"{written(value)} is not a text, a number, a boolean or a time")


def _text(field: Field, value: object) -> str:
    if not isinstance(value, str):
        raise _refusal(field, f"it is text; it cannot be compared with {written(value)}")
    return value


def _entity(field: Field, value: object) -> str:
    entity_type, _, entity_id = value.partition(":") if isinstance(value, str) else ("", "", "")
    if not (entity_type and entity_id):
        raise _refusal(field, f"an entity is 'type:id', such as 'questions:q1', not {written(value)}")
    return f"{entity_type}:{entity_id}"


def _number(field: Field, value: object) -> float:
    """A number of verdicts, or a rating."""
    if not is_number(value) or abs(value) == math.inf:
        raise _refusal(field, f"it is a number; it cannot be compared with {written(value)}")
    if field.name == "verdict_count" and value != int(value):
        raise _refusal(field, f"it is a whole number; it cannot be compared with {written(value)}")
    # No item has a number beyond these bounds.
    return min(max(value, -(2**53)), 2**53)


def _time(field: Field, value: object) -> datetime:
    """A time; without a zone it is UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise _refusal(field, f"{written(value)} is not an ISO 8601 time such as 2024-05-01T12:00Z") from None
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if not isinstance(value, datetime):
        raise _refusal(field, f"it is a time; it cannot be compared with {written(value)}")
    moment = value if value.tzinfo else value.replace(tzinfo=UTC)
    if fault := time_fault(moment):
        raise _refusal(field, f"it cannot be compared with {written(value)}; {fault}")
    return moment


_OF_FIELD: Mapping[str, Callable[[Field, object], Scalar]] = {
    "links": _entity,
    **dict.fromkeys(NUMBER_FIELDS, _number),
    **dict.fromkeys(TIME_FIELDS, _time),
}


def as_mapping(condition: Filter) -> dict[str, Any]:
    """Plain JSON values from which ``parse_where`` makes the same filter. Raises ``ValueError`` for ``Contains``."""
    match condition:
        case And(filters):
            return {"and": [as_mapping(part) for part in filters]}
        case Or(filters):
            return {"or": [as_mapping(part) for part in filters]}
        case Not(inner):
            return {"not": as_mapping(inner)}
        case AllTags(tags):
            return {"tags": {"all": list(tags)}}
        case Contains():
            raise ValueError("a filter by words in the text has no mapping")
        case _:
            return {field_name(condition.field): _operator(condition)}


def _operator(condition: OneOf | Compare | Exists | Is | HasType) -> dict[str, Any]:
    match condition:
        case OneOf(_, values):
            return {"in": [_plain(value) for value in values]}
        case Compare(_, operator, value):
            return {operator: _plain(value)}
        case Exists():
            return {"exists": True}
        case Is(_, text):
            return {"is": json.loads(text)}
        case HasType(_, json_type):
            return {"type": json_type}


def field_name(field: Field) -> str:
    """The key of this field."""
    if field.path:
        return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in (field.name, *field.path))
    if field.is_attribute and (field.name in _NO_ATTRIBUTES or field.name.startswith((_ATTRIBUTE_PREFIX, "/"))):
        return f"{_ATTRIBUTE_PREFIX}{field.name}"
    return field.name


def _plain(value: Scalar) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
