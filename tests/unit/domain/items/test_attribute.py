"""Declared attributes: names, types and what a value is under them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.attribute import AttributeType, checked_filterable, instant, typed_value


def test_declarations_are_in_order_of_name() -> None:
    """The order of the input does not matter."""
    assert checked_filterable({"b": "number", "a": "text"}) == (("a", AttributeType.TEXT), ("b", AttributeType.NUMBER))
    assert checked_filterable({}) == ()


@pytest.mark.parametrize("name", ["", "a\x00b", "\ud800", "x" * 513, 3, None])
def test_a_name_that_no_attribute_can_have_is_refused(name: Any) -> None:
    """It would never be found."""
    with pytest.raises(InvalidRequestError, match="1 to 512 bytes"):
        checked_filterable({name: "text"})


@pytest.mark.parametrize("declared", ["priority:text", ["priority"], None])
def test_declarations_are_a_mapping(declared: Any) -> None:
    """The error names the expected type."""
    with pytest.raises(InvalidRequestError, match="must be a mapping"):
        checked_filterable(declared)


@pytest.mark.parametrize(
    ("kind", "value", "typed"),
    [
        ("text", "x", "x"),
        ("text", 1, None),
        ("number", 1, 1),
        ("number", 1.5, 1.5),
        ("number", True, None),
        ("number", "1", None),
        ("boolean", False, "false"),
        ("boolean", 0, None),
        ("time", "2024-05-01", datetime(2024, 5, 1, tzinfo=UTC)),
        ("time", "2024-05-01T12:00+02:00", datetime(2024, 5, 1, 12, tzinfo=timezone(timedelta(hours=2)))),
        ("time", datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 5, 1, tzinfo=UTC)),
        ("time", "soon", None),
        ("time", "2024-05-01T12:00+16:00", None),
        ("time", datetime.max.replace(tzinfo=timezone(-timedelta(hours=12))), None),
        ("time", 2024, None),
    ],
)
def test_a_value_is_of_a_type_or_is_not(kind: str, value: Any, typed: Any) -> None:
    """A boolean is not a number, a number is not a text; a time without a zone is in UTC."""
    found = typed_value(AttributeType(kind), value)
    assert (found, type(found)) == (typed, type(typed))


@pytest.mark.parametrize("text", ["20240501T110000Z", "2024-W18-3", "2024-05-01 25:00"])
def test_only_what_the_database_takes_for_a_time_is_one(text: str) -> None:
    """Filters and the index must interpret a text in the same way."""
    assert instant(text) is None


@pytest.mark.parametrize("name", ["kind", "item_id", "tags", "attributes.kind"])
def test_a_name_that_no_filter_would_look_up_is_refused(name: str) -> None:
    """Its index could never be used."""
    with pytest.raises(InvalidRequestError, match="cannot be an attribute's name"):
        checked_filterable({name: "text"})
