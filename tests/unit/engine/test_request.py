"""A search is checked once, at the door."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from retrieval.domain.attribute import checked_filterable
from retrieval.domain.errors import (
    EmptyQueryError,
    InvalidFilterError,
    InvalidLimitError,
    InvalidRequestError,
    InvalidVectorError,
    UnknownFieldError,
)
from retrieval.domain.filters import And, Contains, Not, parse_where
from retrieval.engine.request import check_fields, check_filter, checked_request


@pytest.mark.parametrize("query", [None, "", "   ", "\n\t"])
def test_a_search_without_words_and_vector_is_refused(query: str | None) -> None:
    """White space is no query."""
    with pytest.raises(EmptyQueryError, match="give some words, or a vector"):
        checked_request(query)


@pytest.mark.parametrize("limit", [0, -1, 1001, 2.5, True, "10", None])
def test_a_limit_is_a_whole_number_from_1_to_1000(limit: Any) -> None:
    """Anything else is told so."""
    with pytest.raises(InvalidLimitError, match="from 1 to 1000"):
        checked_request("words", limit=limit)


@pytest.mark.parametrize("limit", [1, 1000])
def test_both_ends_of_the_range_are_allowed(limit: int) -> None:
    """1 and 1000 are limits."""
    assert checked_request("words", limit=limit).limit == limit


@pytest.mark.parametrize(("query", "said"), [(3, "must be text"), ("a\x00b", "NUL"), ("\ud800", "surrogate")])
def test_a_query_that_postgresql_cannot_take_is_refused(query: Any, said: str) -> None:
    """With what to do about it."""
    with pytest.raises(InvalidRequestError, match=said):
        checked_request(query)


@pytest.mark.parametrize("vector", ["text", [[1.0, 2.0]], [], 3, ["a"]])
def test_what_is_no_vector_is_refused(vector: Any) -> None:
    """One dimension of numbers is a vector; its length is checked against the space later."""
    if vector == []:
        assert checked_request(None, vector=vector).vector is not None
        return
    with pytest.raises(InvalidVectorError):
        checked_request(None, vector=vector)


def test_a_vector_alone_is_a_search() -> None:
    """Words are not needed then."""
    request = checked_request(None, vector=[1, 2, 3])
    assert request.query == ""
    np.testing.assert_array_equal(request.vector if request.vector is not None else [], [1, 2, 3])


def test_an_unknown_field_is_named_with_the_nearest_known_one() -> None:
    """A typing mistake costs one look at the message."""
    with pytest.raises(UnknownFieldError, match=r"no field|no item has a field 'prioritty'; did you mean 'priority'\?"):
        check_fields(parse_where({"prioritty": "High"}), ["priority", "project"])


def test_known_fields_pass() -> None:
    """Attributes that some item has, and the fields that every item has."""
    check_fields(parse_where({"priority": "High", "kind": "x", "tags": ["a"]}), ["priority"])
    check_fields(None, [])


DECLARED = checked_filterable({"s": "text", "n": "number", "b": "boolean", "t": "time"})


@pytest.mark.parametrize(
    "where",
    [
        {"n": "many"},
        {"n": True},
        {"n": [1, "2"]},
        {"n": {"gt": "1"}},
        {"s": 3},
        {"s": {"lt": 3}},
        {"b": 1},
        {"b": "yes"},
        {"b": {"gt": 1}},
        {"t": "soon"},
        {"t": 2024},
        {"t": {"gte": "2024-13-01"}},
        {"not": {"or": [{"kind": "x"}, {"n": {"nin": ["x"]}}]}},
    ],
)
def test_a_value_that_is_not_of_the_declared_type_is_refused(where: dict[str, Any]) -> None:
    """The message names the attribute and its type."""
    with pytest.raises(InvalidFilterError, match=r"'[snbt]' is filterable as (text|number|boolean|time); "):
        check_filter(parse_where(where), DECLARED)


@pytest.mark.parametrize(
    "where",
    [
        None,
        {"n": [1, 2.5]},
        {"n": {"gt": 1, "exists": True}},
        {"s": "3"},
        {"b": [True, False]},
        {"t": ["2024-05-01", "2024-05-01T12:00Z"]},
        {"other": "x", "kind": "x", "n": None},
        {"n": [26, "26"]},
        {"s": [1000.0, "1e3"]},
        {"b": {"nin": [True, "true"]}},
        {"attributes.n": 1},
        {"n": []},
    ],
)
def test_a_value_of_the_declared_type_passes(where: dict[str, Any] | None) -> None:
    """And so does its other spelling beside it, for a command line cannot tell 26 from "26"."""
    check_filter(parse_where(where), DECLARED)


def test_phrases_and_excluded_words_join_the_callers_filter() -> None:
    """They hold for the whole search, whichever leg; prefixes are the lexical leg's."""
    where = parse_where({"kind": "note"})
    assert where is not None
    request = checked_request('"read timeout" -redis connect*', condition=where)
    assert request.condition == And((where, Contains("read timeout"), Not(Contains("redis"))))
    assert request.query == "read timeout connect"
    assert request.prefixes == ("connect",)


def test_a_query_without_syntax_is_taken_as_it_stands() -> None:
    """Test queries and pasted texts mean what they spell."""
    request = checked_request('"read timeout" -redis connect*', syntax=False)
    assert (request.query, request.condition, request.prefixes) == ('"read timeout" -redis connect*', None, ())


def test_only_exclusions_need_a_vector_to_rank_by() -> None:
    """Without words there is nothing to search for, unless a vector says what."""
    with pytest.raises(EmptyQueryError, match="only says what to leave out"):
        checked_request("-redis")
    request = checked_request("-redis", vector=[1.0])
    assert (request.query, request.condition) == ("", And((Not(Contains("redis")),)))
