"""Values told as plain JSON values, by their own fields."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from retrieval.domain.told import Told, ToldFigures, plain


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
class Outer(Told):
    """A value with a plain form."""

    told_also = ("is_large",)
    untold = frozenset({"secret"})

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
class Figure(ToldFigures):
    """A figure that may be none."""

    value: float


def test_a_value_is_told_by_its_fields_in_their_order() -> None:
    """All values become JSON; the listed properties come last."""
    inner = Inner(at=datetime(2026, 3, 1, tzinfo=UTC))
    value = Outer(number=10, way=Way.UP, parts=(Part("a", 0.5),), inner=Inner(), named={Way.UP: inner}, key=UUID(int=1))

    payload = value.as_dict()

    assert payload == {
        "number": 10,
        "way": "up",
        "parts": [{"name": "a", "share": 0.5}],
        "inner": {"at": None},
        "named": {"up": {"at": "2026-03-01T00:00:00+00:00"}},
        "key": "00000000-0000-0000-0000-000000000001",
        "is_large": True,
    }
    assert list(payload) == ["number", "way", "parts", "inner", "named", "key", "is_large"]
    assert type(payload["way"]) is str
    assert json.loads(json.dumps(payload)) == payload
    assert plain([value]) == [payload]


def test_a_figure_that_is_none_is_null() -> None:
    """JSON cannot represent it."""
    assert [Figure(value).as_dict()["value"] for value in (math.nan, math.inf, 0.5)] == [None, None, 0.5]
