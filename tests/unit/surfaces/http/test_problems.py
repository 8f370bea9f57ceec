"""Errors as problem documents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from retrieval.domain import errors
from retrieval.domain.errors import RetrievalError
from retrieval.surfaces.http.json_bodies import members_of
from retrieval.surfaces.http.problems import (
    AuthenticationError,
    OverloadedError,
    encoded,
    headers_of,
    invalid,
    pointer,
    problem_of,
    problem_of_status,
    problem_type,
)
from retrieval.surfaces.http.routes.search import BatchRequest, SearchBody


def _every(kind: type[RetrievalError] = RetrievalError) -> list[type[RetrievalError]]:
    return [kind, *(problem for below in kind.__subclasses__() for problem in _every(below))]


def test_every_error_has_a_type_of_its_own() -> None:
    """A new error gets a type automatically."""
    types = [problem_type(kind) for kind in dict.fromkeys(_every()) if kind.__module__.startswith("retrieval.")]
    assert len({problem.type for problem in types}) == len(types)
    assert all(
        problem.type.startswith("/problems/") and 400 <= problem.status <= 599 and problem.title for problem in types
    )
    assert [problem.title for problem in types if ". " in problem.title or "``" in problem.title] == []


@pytest.mark.parametrize(
    ("error", "name", "status"),
    [
        (errors.UnknownCollectionError("there is no collection 'a'"), "unknown-collection", 404),
        (errors.InvalidFilterError("no"), "invalid-filter", 422),
        (errors.LLMUnavailableError("no"), "llm-unavailable", 503),
        (errors.LLMError("no"), "llm", 502),
        (errors.DeadlineError("no"), "deadline", 504),
        (AuthenticationError(), "authentication", 401),
    ],
)
def test_the_type_is_the_name_of_the_class(error: RetrievalError, name: str, status: int) -> None:
    """The status is that of the error's kind."""
    problem = problem_of(error)
    assert (problem["type"], problem["status"]) == (f"/problems/{name}", status)


@pytest.mark.parametrize(
    "error",
    [
        errors.DatabaseError("the database refused: secret SELECT"),
        errors.DatabaseUnreachableError("cannot reach PostgreSQL at secret:5432"),
        errors.EmbedderRejectedError("http://secret answered 401"),
        errors.ConfigurationError("secret"),
        errors.LLMUnavailableError("secret"),
        RetrievalError("secret"),
        ValueError("secret"),
    ],
)
def test_no_internals_are_revealed(error: Exception) -> None:
    """No host, no SQL, no password: what the client can do instead."""
    problem = problem_of(error)
    assert "secret" not in json.dumps(problem)
    assert problem["status"] >= 500
    assert problem["detail"]


def test_temporary_errors_have_retry_after() -> None:
    """In seconds, as a header."""
    assert headers_of(errors.PoolExhaustedError("no"))["Retry-After"] == "1"
    assert headers_of(OverloadedError())["Retry-After"] == "1"
    assert "Retry-After" not in headers_of(errors.NotFoundError("no"))


@pytest.mark.parametrize(
    ("body", "error", "place"),
    [
        (SearchBody(query="a"), errors.UnknownFieldError("no item has a field 'size'"), ("where",)),
        (SearchBody(query="a"), errors.InvalidVectorError("no"), ("vector",)),
        (BatchRequest(queries=["a"]), errors.EmptyQueryError("no"), ("queries",)),
        (BatchRequest(queries=["a"]), errors.InvalidRequestError("no"), ()),
    ],
)
def test_a_search_error_points_at_its_part_of_the_search(
    body: SearchBody | BatchRequest, error: errors.InvalidRequestError, place: tuple[str, ...]
) -> None:
    """For other requests the place is unknown."""
    with pytest.raises(errors.InvalidRequestError), members_of(body):
        raise error
    assert error.location == place
    assert problem_of(error).get("errors") == ([{"pointer": pointer(place), "detail": str(error)}] if place else None)


def test_an_item_that_is_wrong_is_named() -> None:
    """A client finds it among the items of its request."""
    assert problem_of(errors.InvalidItemError("no text", item_id="T-1"))["item_id"] == "T-1"


def test_wrong_parts_of_a_body_are_pointed_at() -> None:
    """By JSON pointers, with their two characters escaped; parameters by their names."""
    errors_found: list[Mapping[str, Any]] = [
        {"loc": ("body", "where", "a/b~c", 0), "msg": "Value error, no"},
        {"loc": ("query", "limit"), "msg": "too large"},
    ]
    problem = invalid(errors_found)
    assert problem["errors"] == [
        {"pointer": "/where/a~1b~0c/0", "detail": "no"},
        {"parameter": "limit", "in": "query", "detail": "too large"},
    ]
    assert problem["status"] == 422
    assert problem["type"] == "/problems/invalid-request"


def test_places_are_those_of_the_body() -> None:
    """Alternative types of a value are not places; each error is reported once."""
    body = {"items": [{"item_id": 1.5}], "profiles": {"a": "nope"}}
    errors_found: list[Mapping[str, Any]] = [
        {"loc": ("body", "items", 0, "item_id", "str"), "msg": "a text"},
        {"loc": ("body", "items", 0, "item_id", "int"), "msg": "a whole number"},
        {"loc": ("body", "profiles", "a", "dict[str,any]"), "msg": "an object"},
        {"loc": ("body", "query"), "type": "missing", "msg": "Field required"},
    ]
    assert invalid(errors_found, body=body)["errors"] == [
        {"pointer": "/items/0/item_id", "detail": "a text; or: a whole number"},
        {"pointer": "/profiles/a", "detail": "an object"},
        {"pointer": "/query", "detail": "is missing; it is needed"},
    ]


def test_the_whole_body_has_the_empty_pointer() -> None:
    """As RFC 6901 has it."""
    assert pointer(()) == ""
    assert invalid([{"loc": ("body",), "msg": "Field required"}])["errors"][0]["pointer"] == ""


def test_other_errors_have_the_type_about_blank() -> None:
    """RFC 9457: about:blank, and the status's own title."""
    problem = problem_of_status(405, "")
    assert (problem["type"], problem["title"]) == ("about:blank", "Method Not Allowed")


def test_documents_are_json_whatever_they_quote() -> None:
    """A lone surrogate, which a client can send within JSON, is no UTF-8."""
    assert json.loads(encoded({"detail": "\ud800 é"})) == {"detail": "? é"}
