"""Events from the command line: what could not be used."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from retrieval.domain.errors import InvalidRequestError
from retrieval.surfaces.cli.app import app
from retrieval.surfaces.cli.commands.feedback import MAX_REASONS, RefusedLines


def test_of_many_refused_lines_the_first_are_kept_and_the_others_counted() -> None:
    """So a large file of nothing but errors takes no memory."""
    refused = RefusedLines()
    for begin in range(0, 3 * MAX_REASONS, 4):
        refused.add([str(number) for number in range(begin, begin + 4)])
    assert refused.number == 3 * MAX_REASONS + 2
    assert refused.first == [str(number) for number in range(MAX_REASONS)]


@pytest.mark.parametrize("verdict", [[], ["--helpful", "--reward", "1"]])
def test_an_event_without_one_verdict_is_told_the_options(verdict: list[str]) -> None:
    """The message has command-line options instead of keyword arguments."""
    error = CliRunner().invoke(app, ["feedback", "--collection", "c", "a", *verdict]).exception

    assert isinstance(error, InvalidRequestError)
    assert "one of: --helpful, --not-helpful, --reward R" in str(error)
