"""What a request may take, by its headers and the settings."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from retrieval import Settings
from retrieval.surfaces.http.limits import Limits, check_length
from retrieval.surfaces.http.request_refusals import BodyTooLargeError


def test_the_limits_are_those_of_the_settings() -> None:
    """A stream of items has one of its own."""
    limits = Limits.of(Settings().changed(http_max_body_bytes=2048, http_max_bulk_bytes=4096, http_deadline_seconds=7))
    assert limits.body_of("POST", "/v1/collections/a/items") == 2048
    assert limits.body_of("POST", "/v1/collections/a/items/bulk") == 4096
    assert limits.body_of("PUT", "/v1/collections/a/items/items/bulk") == 2048
    assert limits.seconds_of(None) == 7


def test_a_length_that_is_told_is_checked_before_anything_is_read() -> None:
    """What is no length is left to the server, which reads what comes."""
    check_length(b"10", 10)
    check_length(None, 10)
    check_length(b"ten", 10)
    with pytest.raises(BodyTooLargeError, match="more than 10 bytes"):
        check_length(b"11", 10)


def test_origins_are_read_from_a_list() -> None:
    """Apart by commas, as they stand in the environment."""
    assert Settings().changed(http_cors_origins="https://a.example, http://b:3000").http_cors_origins == (
        "https://a.example",
        "http://b:3000",
    )
    assert Settings().http_cors_origins is None


@pytest.mark.parametrize("origin", ["*", "a.example", "https://a.example/path", "https://user@a.example", "ftp://a"])
def test_what_is_no_origin_is_refused(origin: str) -> None:
    """Above all the star, which would let every page in."""
    with pytest.raises(ValidationError, match="is no origin"):
        Settings().changed(http_cors_origins=origin)
