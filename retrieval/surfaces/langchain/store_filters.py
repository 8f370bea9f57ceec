"""LangGraph's filters as the platform's: typed, nested, and part of the statement that searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from retrieval.domain.errors import InvalidFilterError
from retrieval.domain.filters import And, Compare, Exists, Field, Filter, HasType, Not, Or, is_value, parse_where

VALUE = "value"
"""The attribute that holds what was put."""

_ORDER = {"$gt": "gt", "$gte": "gte", "$lt": "lt", "$lte": "lte"}
_MOST_LEVELS = 32


def value_filter(wanted: Mapping[str, Any]) -> Filter:
    """The filter on the value that a mapping such as ``{"score": {"$gt": 4.99}}`` says.

    A plain value must be equal, by type: 1 is 1.0 and not true; None is null or missing; a list must be as long and
    equal place by place; a mapping is met by an object that has at least that. ``$gt``, ``$gte``, ``$lt``, ``$lte``
    compare numbers with numbers and texts with texts, and let nothing else through; ``$ne`` lets through what ``$eq``
    does not, what is missing too. Raises ``InvalidFilterError``.
    """
    if not isinstance(wanted, Mapping):
        raise InvalidFilterError(f'filter is a mapping such as {{"status": "active"}}, not {wanted!r:.80}')
    whole = And(tuple(_met((_key(name),), value, 1) for name, value in wanted.items()))
    parse_where(whole)  # bounds how much is asked
    return whole


def _met(path: tuple[str, ...], wanted: object, level: int) -> Filter:
    if level > _MOST_LEVELS:
        raise InvalidFilterError(f"the filter is nested deeper than {_MOST_LEVELS} levels")
    if isinstance(wanted, Mapping):
        if any(isinstance(name, str) and name.startswith("$") for name in wanted):
            return And(tuple(_operator(path, name, operand) for name, operand in wanted.items()))
        parts = [_met((*path, _key(name)), value, level + 1) for name, value in wanted.items()]
        return And((HasType(_field(path), "object"), *parts))
    if isinstance(wanted, Sequence) and not isinstance(wanted, str | bytes | bytearray):
        parts = [_met((*path, str(place)), value, level + 1) for place, value in enumerate(wanted)]
        too_long = Exists(_field((*path, str(len(wanted)))))
        long_enough = [Exists(_field((*path, str(len(wanted) - 1))))] if wanted else []
        return And((HasType(_field(path), "array"), Not(too_long), *long_enough, *parts))
    return _equal(path, wanted)


def _operator(path: tuple[str, ...], name: object, operand: object) -> Filter:
    if name == "$eq":
        return _equal(path, operand)
    if name == "$ne":
        return Not(_equal(path, operand))
    if not isinstance(name, str) or name not in _ORDER:
        known = ", ".join(["$eq", "$ne", *_ORDER])
        raise InvalidFilterError(f"{path[-1]!r}: there is no operator {name!r:.80}; there are {known}")
    if isinstance(operand, date):
        operand = operand.isoformat()
    if isinstance(operand, bool) or not isinstance(operand, str | int | float):
        raise InvalidFilterError(f"{path[-1]!r}: {name} compares with a number or a text, not {operand!r:.80}")
    is_value(_field(path), operand)  # refuses what no value can be
    return Compare(_field(path), _ORDER[name], operand)


def _equal(path: tuple[str, ...], wanted: object) -> Filter:
    field = _field(path)
    if wanted is None:
        return Or((Not(Exists(field)), is_value(field, None)))
    return is_value(field, wanted)


def _field(path: tuple[str, ...]) -> Field:
    return Field(VALUE, is_attribute=True, path=path)


def _key(name: object) -> str:
    if not isinstance(name, str) or "\x00" in name or name != name.encode(errors="replace").decode():
        raise InvalidFilterError(f"a filter's keys are texts that a value can have, not {name!r:.80}")
    return name
