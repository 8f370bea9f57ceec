"""Serialization of values as plain JSON values, by their own fields."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from retrieval.domain.serialization import Serializable, SerializableFigures, plain


class Way(StrEnum):
    """One of a few."""

    UP = "up"


class Part(NamedTuple):
    """A named tuple."""

    name: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """A plain dataclass."""

    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer(Serializable):
    """A serializable value."""

    serialized_properties = ("is_large",)
    internal_fields = frozenset({"secret"})

    number: int
    way: Way
    parts: tuple[Part, ...]
    inner: Inner
    named: Mapping[Way, Inner]
    key: UUID
    secret: str = "x"  # noqa: S105 - no password

    @property
    def is_large(self) -> bool:
        """Whether it is."""
        return self.number > 9


@dataclass(frozen=True, slots=True)
class Figure(SerializableFigures):
    """A figure that may not be finite."""

    value: float


def test_a_value_is_serialized_by_its_fields_in_their_order() -> None:
    """The fields' values become JSON values; the serialized properties come last."""
    inner = Inner(at=datetime(2026, 3, 1, tzinfo=UTC))
    value = Outer(number=10, way=Way.UP, parts=(Part("a", 0.5),), inner=Inner(), named={Way.UP: inner}, key=UUID(int=1))

    serialized = value.as_dict()

    assert serialized == {
        "number": 10,
        "way": "up",
        "parts": [{"name": "a", "share": 0.5}],
        "inner": {"at": None},
        "named": {"up": {"at": "2026-03-01T00:00:00+00:00"}},
        "key": "00000000-0000-0000-0000-000000000001",
        "is_large": True,
    }
    assert list(serialized) == ["number", "way", "parts", "inner", "named", "key", "is_large"]
    assert type(serialized["way"]) is str
    assert json.loads(json.dumps(serialized)) == serialized
    assert plain([value]) == [serialized]


def test_a_figure_that_is_not_finite_is_null() -> None:
    """JSON has no NaN and no infinity."""
    assert [Figure(value).as_dict()["value"] for value in (math.nan, math.inf, 0.5)] == [None, None, 0.5]
