"""The limits of a request, by its headers and the settings."""

from __future__ import annotations

import pytest

from retrieval import Settings
from retrieval.domain.errors import InvalidRequestError
from retrieval.surfaces.http.limits import check_length, most_body_bytes, most_seconds
from retrieval.surfaces.http.problems import BodyTooLargeError


def test_the_limits_are_those_of_the_settings() -> None:
    """A stream of items and writes have their own limits; all other requests have that of searches."""
    settings = Settings().changed(
        http_max_search_bytes=1024, http_max_body_bytes=2048, http_max_bulk_bytes=4096, http_deadline_seconds=7
    )
    items = "/v1/collections/a/items"
    assert most_body_bytes({"method": "POST", "path": items}, settings) == 2048
    assert most_body_bytes({"method": "POST", "path": f"{items}/bulk"}, settings) == 4096
    assert most_body_bytes({"method": "PUT", "path": f"{items}/bulk"}, settings) == 2048
    for method, path in (
        ("PATCH", f"{items}/a/b"),
        ("POST", "/v1/collections/a/documents"),
        ("PUT", "/v1/collections/a/documents/b/c.md"),
        ("POST", "/v1/feedback/batch"),
        ("POST", "/v1/outcome"),
    ):
        assert most_body_bytes({"method": method, "path": path}, settings) == 2048
    for method, path in (
        ("POST", "/v1/collections/a/search"),
        ("POST", "/v1/collections/a/search/batch"),
        ("POST", "/v1/collections/a/preview"),
        ("POST", "/v2/retrieval/search"),
        ("PUT", "/v1/collections/a/profile"),
        ("POST", "/v1/collections/b/items/search"),
        ("POST", f"{items}/delete"),
        ("POST", "/v1/no/such/path"),
    ):
        assert most_body_bytes({"method": method, "path": path}, settings) == 1024, path
    assert most_seconds(None, settings) == 7


def test_a_small_limit_of_all_bodies_holds_for_searches() -> None:
    """A low limit for bodies is also the limit for searches."""
    settings = Settings().changed(http_max_body_bytes=2048)
    assert most_body_bytes({"method": "POST", "path": "/v1/collections/a/search"}, settings) == 2048


def test_a_declared_length_is_checked_before_the_body_is_read() -> None:
    """The server handles an invalid length, and reads the body."""
    check_length(b"10", 10)
    check_length(None, 10)
    check_length(b"ten", 10)
    with pytest.raises(BodyTooLargeError, match="more than 10 bytes"):
        check_length(b"11", 10)


def test_origins_are_read_from_a_list() -> None:
    """They are separated by commas, as in the environment."""
    assert Settings().changed(http_cors_origins="https://a.example, http://b:3000").http_cors_origins == (
        "https://a.example",
        "http://b:3000",
    )
    assert Settings().http_cors_origins is None


@pytest.mark.parametrize("origin", ["*", "a.example", "https://a.example/path", "https://user@a.example", "ftp://a"])
def test_an_invalid_origin_is_refused(origin: str) -> None:
    """Above all the star, which would let every page in."""
    with pytest.raises(InvalidRequestError, match="is not an origin"):
        Settings().changed(http_cors_origins=origin)
