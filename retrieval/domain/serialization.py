"""Serialization: every surface writes a value as plain JSON values, by the value's own fields. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from numbers import Integral
from operator import attrgetter
from typing import Any, ClassVar
from uuid import UUID

_PLAIN_TYPES = frozenset({str, int, float, bool, type(None)})


class Serializable:
    """A dataclass whose fields are serialized by name."""

    __slots__ = ()

    serialized_properties: ClassVar[tuple[str, ...]] = ()
    """Properties that are serialized after the fields."""
    serialized_names: ClassVar[Mapping[str, str]] = {}
    """The names of fields that have another name in JSON."""
    internal_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields that are not serialized."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values by name; times are ISO 8601."""
        return _as_dict(self)


class SerializableFigures(Serializable):
    """A ``Serializable`` whose numbers that are not finite become None."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values by name."""
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in _as_dict(self).items()
        }


@cache
def json_names(kind: type) -> Mapping[str, str]:
    """The name in JSON of each serialized field and property of a dataclass or named tuple, in order."""
    if not is_dataclass(kind):
        return {name: name for name in kind._fields}  # type: ignore[attr-defined]
    internal: frozenset[str] = getattr(kind, "internal_fields", frozenset())
    names = [field.name for field in fields(kind) if field.name not in internal]
    renamed: Mapping[str, str] = getattr(kind, "serialized_names", {})
    return {name: renamed.get(name, name) for name in (*names, *getattr(kind, "serialized_properties", ()))}


def plain(value: Any) -> Any:
    """The value in plain JSON values."""
    kind: type = type(value)
    return value if kind in _PLAIN_TYPES else _serializer(kind)(value)


@cache
def _serializer(kind: type) -> Callable[[Any], Any]:
    """The function that makes plain JSON values of a class; cached, because a page may have 1,000 hits."""
    if hasattr(kind, "as_dict"):
        return lambda value: value.as_dict()
    for base, serialize in _SERIALIZERS.items():
        if issubclass(kind, base):
            return serialize
    return _as_dict if is_dataclass(kind) or hasattr(kind, "_fields") else _as_list


def _as_dict(value: Any) -> dict[str, Any]:
    kind: type = type(value)
    parts = zip(json_names(kind).values(), _getter(kind)(value), strict=True)
    return {name: part if type(part) in _PLAIN_TYPES else plain(part) for name, part in parts}


@cache
def _getter(kind: type) -> Callable[[Any], tuple[Any, ...]]:
    names = tuple(json_names(kind))
    return attrgetter(*names) if len(names) > 1 else lambda value: (getattr(value, names[0]),)


def _mapping_as_dict(value: Mapping[Any, Any]) -> dict[Any, Any]:
    return {name: inner if type(inner) in _PLAIN_TYPES else plain(inner) for name, inner in value.items()}


def _as_list(value: Iterable[Any]) -> list[Any]:
    return [part if type(part) in _PLAIN_TYPES else plain(part) for part in value]


_SERIALIZERS: Mapping[type, Callable[[Any], Any]] = {
    Enum: lambda value: value.value,
    str: str,
    Integral: int,
    float: float,
    datetime: datetime.isoformat,
    UUID: str,
    Mapping: _mapping_as_dict,
}
