"""Values as plain JSON values: every surface tells a value by the value's own fields. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar
from uuid import UUID

_AS_THEY_ARE = frozenset({str, int, float, bool, type(None)})


class Told:
    """A dataclass whose fields are told; a property is told too where ``told_also`` names it."""

    __slots__ = ()

    told_also: ClassVar[tuple[str, ...]] = ()
    """Properties that are told after the fields."""
    told_as: ClassVar[Mapping[str, str]] = {}
    """The name of a field that is told under another one."""
    untold: ClassVar[frozenset[str]] = frozenset()
    """Fields that are for the program alone."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values by name; times are ISO 8601."""
        return _told(self)


class ToldFigures(Told):
    """Told like ``Told``; a number that is not finite is None."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values by name."""
        told = _told(self)
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in told.items()
        }


@cache
def told_names(kind: type) -> Mapping[str, str]:
    """The parts that are told of a value of that dataclass or named tuple, in order, each with its name there."""
    if not is_dataclass(kind):
        return {name: name for name in kind._fields}  # type: ignore[attr-defined]
    untold: frozenset[str] = getattr(kind, "untold", frozenset())
    parts = (*(part.name for part in fields(kind) if part.name not in untold), *getattr(kind, "told_also", ()))
    others: Mapping[str, str] = getattr(kind, "told_as", {})
    return {part: others.get(part, part) for part in parts}


def plain(value: Any) -> Any:
    """The value in plain JSON values."""
    kind: type = type(value)
    return value if kind in _AS_THEY_ARE else _maker(kind)(value)


@cache
def _maker(kind: type) -> Callable[[Any], Any]:
    """Find the function that makes plain JSON values of a class, once a class, for a page may have 1,000 hits."""
    if hasattr(kind, "as_dict"):
        return lambda value: value.as_dict()
    for known, make in _MAKERS.items():
        if issubclass(kind, known):
            return make
    return _told if is_dataclass(kind) or hasattr(kind, "_fields") else _listed


def _told(value: Any) -> dict[str, Any]:
    kind: type = type(value)
    parts = zip(told_names(kind).values(), _getter(kind)(value), strict=True)
    return {name: part if type(part) in _AS_THEY_ARE else plain(part) for name, part in parts}


@cache
def _getter(kind: type) -> Callable[[Any], tuple[Any, ...]]:
    names = tuple(told_names(kind))
    return attrgetter(*names) if len(names) > 1 else lambda value: (getattr(value, names[0]),)


def _mapped(value: Mapping[Any, Any]) -> dict[Any, Any]:
    return {name: inner if type(inner) in _AS_THEY_ARE else plain(inner) for name, inner in value.items()}


def _listed(value: Iterable[Any]) -> list[Any]:
    return [part if type(part) in _AS_THEY_ARE else plain(part) for part in value]


_MAKERS: Mapping[type, Callable[[Any], Any]] = {
    Enum: lambda value: value.value,
    str: str,
    int: int,
    float: float,
    datetime: datetime.isoformat,
    UUID: str,
    Mapping: _mapped,
}
