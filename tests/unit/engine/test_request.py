"""A search is checked once, at the door."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from retrieval.domain.errors import (
    EmptyQueryError,
    InvalidLimitError,
    InvalidRequestError,
    InvalidVectorError,
)
from retrieval.domain.items.embedding import EmbeddingSpace
from retrieval.domain.search.filters import And, Contains, Not, OneOf, parse_field, parse_where
from retrieval.engine.request import (
    check_vector,
    checked_request,
    checked_requests,
)


@pytest.mark.parametrize("query", [None, "", "   ", "\n\t"])
def test_a_search_without_words_and_vector_is_refused(query: str | None) -> None:
    """White space is not a query."""
    with pytest.raises(EmptyQueryError, match="give some words, or a vector"):
        checked_request(query)


@pytest.mark.parametrize("limit", [0, -1, 1001, 2.5, True, "10", None])
def test_a_limit_is_a_whole_number_from_1_to_1000(limit: Any) -> None:
    """Any other value is an error that says so."""
    with pytest.raises(InvalidLimitError, match="from 1 to 1,000"):
        checked_request("words", limit=limit)


@pytest.mark.parametrize("limit", [1, 1000])
def test_both_ends_of_the_range_are_allowed(limit: int) -> None:
    """1 and 1000 are limits."""
    assert checked_request("words", limit=limit).limit == limit


@pytest.mark.parametrize(("query", "message"), [(3, "must be text"), ("a\x00b", "NUL"), ("\ud800", "surrogate")])
def test_a_query_that_postgresql_cannot_take_is_refused(query: Any, message: str) -> None:
    """With what to do about it."""
    with pytest.raises(InvalidRequestError, match=message):
        checked_request(query)


def test_a_query_loses_the_hidden_characters_that_no_stored_text_has() -> None:
    """Else its words would be others than those of the items; joiners within words are stored too, and stay."""
    request = checked_request("\ufefftime\u200bout\u2060 connection\u200b", rewrites=["idle\u200b", "auf\u200clage"])
    assert (request.query, request.rewrites) == ("timeout connection", ("idle", "auf\u200clage"))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("vector", ["text", [[1.0, 2.0]], 3, ["a"], ["1", "2"], [b"1"], np.array([1j, 2.0]), [10**400]])
def test_an_invalid_vector_is_refused(vector: Any) -> None:
    """One dimension of numbers is a vector; its length is checked against the space later."""
    with pytest.raises(InvalidVectorError):
        checked_request(None, vector=vector)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("vector", [[1e300, 1e300], [1e-300, 1e-300], np.full(2, 3e38, dtype=np.float32)])
def test_a_huge_or_tiny_vector_keeps_its_direction(vector: Any) -> None:
    """Also where its length is too large for single precision."""
    flat = checked_request(None, vector=vector).vector
    assert flat is not None
    assert check_vector(flat, EmbeddingSpace(provider="own", model="m", dimensions=2)) == pytest.approx([0.5**0.5] * 2)


def test_a_question_is_about_a_hundred_entities_at_most() -> None:
    """Each counted once; more would be looked up one by one."""
    ids = [f"q{number}" for number in range(100)]
    assert len(checked_request("words", entities={"questions": [*ids, *ids]}).entities) == 100
    with pytest.raises(InvalidRequestError, match="at most 100 entities"):
        checked_request("words", entities={"questions": ids, "papers": ["p"]})


@pytest.mark.parametrize(
    "tags", ["react", [3], ["a\x00"], ["\ud800"], {"a": 1}, [str(number) for number in range(101)]]
)
def test_invalid_tags_are_refused(tags: Any) -> None:
    """A list of at most a hundred texts."""
    assert checked_request("words", tags=["b", "a", "b"]).tags == {"a", "b"}
    with pytest.raises(InvalidRequestError, match="tag"):
        checked_request("words", tags=tags)


def test_a_preferred_filter_counts_once_and_truth_is_not_the_number_one() -> None:
    """A repeated filter counts at its first place; one with another type of value is another filter."""
    preferred = [parse_where({"is_new": value}) for value in (True, 1, True)]
    request = checked_request("words", preferred=preferred)

    assert [type(filter_.values[0]) for filter_ in request.preferred if isinstance(filter_, OneOf)] == [bool, int]


@pytest.mark.parametrize("rewrite", [3, "a\x00b", "\ud800"])
def test_a_wrong_rewrite_is_named_with_its_place(rewrite: Any) -> None:
    """It is not the query that is wrong."""
    with pytest.raises(InvalidRequestError, match=r"rewrite 2 (must be|contains)") as caught:
        checked_request("words", rewrites=["other words", rewrite])
    assert caught.value.location == ("rewrites", 1)


def test_a_vector_alone_is_a_search() -> None:
    """Words are not needed then."""
    request = checked_request(None, vector=[1, 2, 3])
    assert request.query == ""
    np.testing.assert_array_equal(request.vector if request.vector is not None else [], [1, 2, 3])


def test_phrases_and_excluded_words_join_the_callers_filter() -> None:
    """They apply to the whole search, in every leg; prefixes apply to the lexical leg."""
    where = parse_where({"kind": "note"})
    assert where is not None
    request = checked_request('"read timeout" -redis connect*', condition=where)
    assert request.condition == And((where, Contains("read timeout"), Not(Contains("redis"))))
    assert request.query == "read timeout connect"
    assert request.prefixes == ("connect",)


def test_a_query_without_syntax_is_taken_as_it_stands() -> None:
    """Test queries and pasted texts are literal."""
    request = checked_request('"read timeout" -redis connect*', syntax=False)
    assert (request.query, request.condition, request.prefixes) == ('"read timeout" -redis connect*', None, ())


def test_only_exclusions_need_a_vector_to_rank_by() -> None:
    """Without words there is nothing to search for, unless a vector says what."""
    with pytest.raises(EmptyQueryError, match="the query has only exclusions"):
        checked_request("-redis")
    request = checked_request("-redis", vector=[1.0])
    assert (request.query, request.condition) == ("", And((Not(Contains("redis")),)))


@pytest.mark.parametrize(
    ("field", "message"),
    [("", "a field's name"), ("a\x00b", "a field's name"), ("links", "many links"), ("verdict_count", "computed")],
)
def test_an_invalid_field_is_not_grouped_by(field: str, message: str) -> None:
    """A field has a name, and one value of an item."""
    with pytest.raises(InvalidRequestError, match=message) as caught:
        checked_request("words", group_by=field)
    assert caught.value.location == ("group_by",)


def test_several_queries_make_as_many_requests() -> None:
    """They differ in their words and vectors only."""
    requests = checked_requests(["a", " b "], vectors=[[1.0], None], limit=3, group_by="kind")
    assert [request.query for request in requests] == ["a", "b"]
    assert [request.vector is None for request in requests] == [False, True]
    assert {(request.limit, request.group_by) for request in requests} == {(3, parse_field("kind"))}


@pytest.mark.parametrize("queries", ["one text", None, 3, {"a": 1}])
def test_several_queries_come_in_a_list(queries: Any) -> None:
    """A single text would be read as a list of characters."""
    with pytest.raises(InvalidRequestError, match=r"the queries come in a list such as \['first', 'second'\]"):
        checked_requests(queries)


def test_no_more_than_a_thousand_queries_in_one_call() -> None:
    """A thousand are allowed."""
    assert len(checked_requests(["a"] * 1000)) == 1000
    with pytest.raises(InvalidRequestError, match="1001 queries in one call; at most 1000"):
        checked_requests(["a"] * 1001)
    limit: Any = "x"
    assert checked_requests([], limit=limit) == [], "a limit of no query matters to none"


def test_each_query_needs_its_own_vector_where_vectors_are_given() -> None:
    """None means that the query is embedded."""
    with pytest.raises(InvalidRequestError, match="2 queries and 1 vectors; give one vector a query"):
        checked_requests(["a", "b"], vectors=[[1.0]])


@pytest.mark.parametrize(
    ("queries", "more", "error", "message"),
    [
        (["a", ""], {}, EmptyQueryError, "query 2: the query is empty"),
        (["a\x00"], {}, InvalidRequestError, "query 1: .*NUL"),
        (["a", "b"], {"vectors": [[1.0], [[1.0]]]}, InvalidVectorError, "query 2: "),
        (["a"], {"limit": 0}, InvalidLimitError, "query 1: limit is 0"),
    ],
)
def test_an_error_says_which_query_it_is_about(
    queries: list[str], more: dict[str, Any], error: type[Exception], message: str
) -> None:
    """The error identifies one query of a thousand."""
    with pytest.raises(error, match=message):
        checked_requests(queries, **more)
