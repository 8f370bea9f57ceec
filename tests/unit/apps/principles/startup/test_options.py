"""The hooks' options."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrieval.apps.principles.startup.options import EndOptions, StartOptions, end_options, start_options
from retrieval.domain.errors import InvalidRequestError


def test_without_options_the_defaults_count() -> None:
    """Ten principles, two of them explored."""
    assert start_options([]) == StartOptions()
    assert (StartOptions().limit, StartOptions().explore, StartOptions().collection) == (10, 2, "principles")
    assert end_options([]) == EndOptions(outcome="success", tags=(), title="")


def test_each_option_is_read_with_and_without_a_sign() -> None:
    """The last one counts."""
    given = ["--cwd", "/shop", "--format=json", "--session", "s-1", "--limit=3", "--limit", "4", "--explore", "0"]
    expected = StartOptions(folder=Path("/shop"), format="json", session="s-1", limit=4, explore=0, collection="own")
    assert start_options([*given, "--collection=own"]) == expected


def test_the_end_of_a_session_takes_tags_and_an_outcome() -> None:
    """Tags are parted by commas."""
    given = ["--tags", "sql, Testing,,", "--outcome=failure", "--title", "Broke it", "--session", "s", "--cwd=/x"]
    assert end_options(given) == EndOptions(
        folder=Path("/x"), session="s", outcome="failure", tags=("sql", "Testing"), title="Broke it"
    )


def test_a_session_is_recorded_as_it_is_told() -> None:
    """On one line; a title of blanks is none."""
    assert start_options(["--session", "a\n\tb "]).session == end_options(["--session=a b"]).session == "a b"
    assert end_options(["--title", "  "]).title == ""


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--bogus"], "'--bogus' is no option; see: retrieval session-start --help"),
        (["shop"], "'shop' is no option"),
        (["-n", "3"], "'-n' is no option"),
        (["--limit"], "--limit needs a value"),
        (["--limit", "0"], "--limit is '0'; it must be a whole number from 1 to 100"),
        (["--limit", "many"], "from 1 to 100"),
        (["--explore", "-1"], "from 0 to 100"),
        (["--format", "xml"], "it must be text or json"),
        (["--session", ""], "--session must be a text"),
        (["--session", " \n"], "--session must be a text"),
        (["--collection", ""], "a collection's name has"),
        (["--session", "s" * 201], "--session must be a text"),
        (["--session", "a\udcff"], "--session must be a text"),
    ],
)
def test_a_mistake_is_told(arguments: list[str], reason: str) -> None:
    """In one line that says what would do."""
    with pytest.raises(InvalidRequestError) as caught:
        start_options(arguments)
    assert reason in str(caught.value)


def test_an_outcome_is_one_of_two() -> None:
    """Success, or failure."""
    with pytest.raises(InvalidRequestError, match="success or failure"):
        end_options(["--outcome", "meh"])
