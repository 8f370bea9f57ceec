"""Entity tags and the headers that name them."""

from __future__ import annotations

import pytest

from retrieval.domain.errors import InvalidRequestError
from retrieval.surfaces.http.json_bodies import etag, expected_version, is_known


@pytest.mark.parametrize(
    ("if_match", "if_none_match", "version"),
    [
        (None, None, None),
        ("*", None, "*"),
        (" * ", None, "*"),
        ('"abc"', None, "abc"),
        (None, "*", ""),
        # A weak tag and an empty one match no version.
        ('W/"abc"', None, "W/abc"),
        ('""', None, "W/"),
    ],
)
def test_a_write_is_about_the_version_that_its_headers_name(
    if_match: str | None, if_none_match: str | None, version: str | None
) -> None:
    """As ``Collection.put`` takes it."""
    assert expected_version(if_match, if_none_match) == version


@pytest.mark.parametrize(
    ("if_match", "if_none_match"),
    [("abc", None), ('"a", "b"', None), ("", None), (None, '"abc"'), ('"abc"', "*")],
)
def test_invalid_conditions_are_refused(if_match: str | None, if_none_match: str | None) -> None:
    """A tag without quotes, several, or both headers."""
    with pytest.raises(InvalidRequestError):
        expected_version(if_match, if_none_match)


@pytest.mark.parametrize(
    ("header", "known"),
    [
        (None, False),
        ("*", True),
        (etag("v"), True),
        ('W/"v"', True),
        ('"u" , "v"', True),
        ('"u"', False),
    ],
)
def test_a_read_knows_what_the_client_knows(header: str | None, known: bool) -> None:  # noqa: FBT001 - the expectation
    """Tags are compared weakly."""
    assert is_known(header, "v") is known
