"""LangGraph's filters, as the platform's."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.memory import _compare_values

from retrieval import Item
from retrieval.domain.errors import InvalidFilterError
from retrieval.surfaces.langchain.store_items import value_filter
from tests.support.filtering import matches

NAMES = st.sampled_from(["a", "b", "0"])
# Without true and false, which equal 1 and 0 in Python.
SCALARS = st.sampled_from([0, 1, 1.0, 9, 10, -1.5, "9", "10", "", "a"]) | st.none()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)
EQUALITY = st.builds(lambda name, value: {name: value}, st.sampled_from(["$eq", "$ne"]), VALUES)
FILTERS = st.dictionaries(
    NAMES,
    st.recursive(
        SCALARS | EQUALITY,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
        max_leaves=4,
    ),
    max_size=2,
)


def lets_through(filter_: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    """Whether the value matches the filter."""
    return matches(Item(item_id="one", attributes={"value": value}), value_filter(filter_))


@given(FILTERS, st.dictionaries(NAMES, VALUES, max_size=3))
def test_equality_means_what_it_means_in_langgraph(wanted: dict[str, Any], value: dict[str, Any]) -> None:
    """For plain values, lists, objects and missing values, at any level."""
    expected = all(_compare_values(value.get(name), operand) for name, operand in wanted.items())
    assert lets_through(wanted, value) == expected


@pytest.mark.parametrize(
    ("filter_", "passing", "failing"),
    [
        ({"n": {"$lt": 10}}, [9, 9.5, -1], [10, "9", None, True, [9], {"n": 9}]),
        ({"n": {"$gte": 9, "$ne": 10}}, [9, 11], [8, 10, "9"]),
        ({"n": {"$gt": "10"}}, ["9", "a"], ["1", "10", 11, None]),
        ({"n": {"$lte": datetime(2024, 1, 1, tzinfo=UTC)}}, ["2023-12-31"], ["2024-01-02"]),
        ({"n": 1}, [1, 1.0], [True, "1", [1]]),
        ({"n": {"$eq": True}}, [True], [1, "true"]),
        ({"n": {"$eq": {"a": 1}}}, [{"a": 1}], [{"a": 1, "b": 2}]),
        ({"n": {"a": {"$gt": 1}}}, [{"a": 2}, {"a": 2, "b": 0}], [{"a": 1}, {"a": "2"}, {}, [2], None]),
        ({"n": [{"$gt": 1}, "x"]}, [[2, "x"]], [[1, "x"], [2, "x", "y"], [2], {"0": 2, "1": "x"}]),
    ],
)
def test_values_compare_by_type(filter_: dict[str, Any], passing: list[Any], failing: list[Any]) -> None:
    """Numbers with numbers, texts with texts; other types and missing values never match."""
    assert [value for value in passing if not lets_through(filter_, {"n": value})] == []
    assert [value for value in failing if lets_through(filter_, {"n": value})] == []
    assert not lets_through(filter_, {})


def test_a_missing_value_equals_nothing() -> None:
    """``$ne`` matches it, like ``ne``, and so does None."""
    assert lets_through({"n": {"$ne": 1}}, {})
    assert lets_through({"n": None}, {})
    assert lets_through({"n": {"$eq": None}}, {"n": None})
    assert not lets_through({"n": {"$ne": None}}, {})


@pytest.mark.parametrize(
    ("filter_", "message"),
    [
        ("status=open", "filter is a mapping"),
        ({"n": {"$like": 1}}, "no operator '\\$like'; there are \\$eq, \\$ne, \\$gt"),
        ({"n": {"$gt": 1, "n": 2}}, "no operator 'n'"),
        ({"n": {"$gt": None}}, "compares with a number or a text, not None"),
        ({"n": {"$gt": True}}, "compares with a number or a text"),
        ({"n": {"$gt": float("nan")}}, "no item can have"),
        ({"n": object()}, "no item can have"),
        ({1: "a"}, "keys are texts"),
        ({"n\x00": "a"}, "keys are texts"),
        ({str(number): number for number in range(1001)}, "more than 100 conditions"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(filter_: Any, message: str) -> None:
    """The message says what is allowed."""
    with pytest.raises(InvalidFilterError, match=message):
        value_filter(filter_)


def test_a_filter_has_an_end() -> None:
    """One that is nested without end is refused before it fills the stack."""
    endless: dict[str, Any] = {}
    endless["n"] = endless
    with pytest.raises(InvalidFilterError, match="deeper than 32"):
        value_filter(endless)
