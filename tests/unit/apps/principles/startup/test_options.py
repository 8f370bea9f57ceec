"""The hooks' options."""

from __future__ import annotations

import pytest

from retrieval.apps.principles.startup.surroundings import EndOptions, SessionOutcome, StartOptions, session_name
from retrieval.domain.errors import InvalidRequestError


def test_without_options_the_defaults_count() -> None:
    """Ten principles, two of them explored; a session went well."""
    assert (StartOptions().limit, StartOptions().explore, StartOptions().collection) == (10, 2, "principles")
    assert (EndOptions().outcome, EndOptions().tags, EndOptions().title) == (SessionOutcome.SUCCESS, (), "")


def test_a_session_is_recorded_as_it_is_told() -> None:
    """On one line."""
    assert session_name("a\n\tb ") == session_name("a b") == "a b"
    assert session_name(None) is None


@pytest.mark.parametrize("text", ["", " \n", "s" * 201, "a\udcff", "a\x00b"])
def test_a_session_that_cannot_be_recorded_is_told(text: str) -> None:
    """In one line that says what would do."""
    with pytest.raises(InvalidRequestError, match="--session must be a text"):
        session_name(text)
