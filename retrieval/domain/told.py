"""Values as plain JSON values: what every surface tells of a value follows from the value's own fields. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any, ClassVar
from uuid import UUID

_AS_THEY_ARE = frozenset({str, int, bool, type(None)})


class Told:
    """A dataclass whose fields are told; a property is told too where ``told_also`` names it."""

    __slots__ = ()

    told_also: ClassVar[tuple[str, ...]] = ()
    """Properties that are told after the fields."""
    untold: ClassVar[frozenset[str]] = frozenset()
    """Fields that are for the program alone."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values by name: times are ISO 8601, a number that is not finite is None."""
        return {name: plain(getattr(self, name)) for name in told_names(type(self))}


@cache
def told_names(kind: type) -> tuple[str, ...]:
    """The names under which a value of that dataclass or named tuple is told, in order."""
    if not is_dataclass(kind):
        return tuple(kind._fields)  # type: ignore[attr-defined]
    told = issubclass(kind, Told)
    untold, also = (kind.untold, kind.told_also) if told else (frozenset[str](), ())
    return (*(one.name for one in fields(kind) if one.name not in untold), *also)


def plain(value: Any) -> Any:
    """The value in plain JSON values."""
    if type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    return _parts(value)


def _parts(value: Any) -> Any:
    if (as_dict := getattr(value, "as_dict", None)) is not None:
        return as_dict()
    if isinstance(value, Mapping):
        return {plain(name): plain(inner) for name, inner in value.items()}
    if is_dataclass(value) or hasattr(value, "_fields"):
        return {name: plain(getattr(value, name)) for name in told_names(type(value))}
    return [plain(one) for one in value] if isinstance(value, Iterable) else value
