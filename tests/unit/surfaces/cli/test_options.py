"""Parsing of options, and completion by the shell without a database."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from retrieval.domain.errors import InvalidProfileError, InvalidRequestError
from retrieval.surfaces.cli.app import app
from retrieval.surfaces.cli.options import complete_collection, complete_job, complete_legs, complete_profile, legs_of


def test_legs_are_named_between_commas() -> None:
    """Spaces and repetitions do not count; the order stays."""
    assert legs_of(" lexical, dense,lexical,") == ("lexical", "dense")


def test_without_the_option_the_profile_decides() -> None:
    """None means no restriction."""
    assert legs_of(None) is None


@pytest.mark.parametrize("text", ["", " ", ","])
def test_no_leg_at_all_is_refused(text: str) -> None:
    """An empty list of legs could find nothing."""
    with pytest.raises(InvalidRequestError, match="names no leg"):
        legs_of(text)


def test_an_unknown_leg_is_refused_with_those_there_are() -> None:
    """The message names the legs."""
    with pytest.raises(InvalidProfileError, match="there are: dense, lexical"):
        legs_of("dense,bm25")


@pytest.fixture
def context() -> typer.Context:
    """The context of the program, called without options."""
    return typer.Context(typer.main.get_command(app))


def test_jobs_are_completed() -> None:
    """By how they begin."""
    assert complete_job("e") == ["embed", "expire"]


@pytest.mark.parametrize(
    ("typed", "completed"),
    [("le", ["lexical"]), ("dense,le", ["dense,lexical"]), ("dense,lexical,de", []), ("nothing", [])],
)
def test_legs_are_completed_each_once(typed: str, completed: list[str]) -> None:
    """After a comma too."""
    assert complete_legs(typed) == completed


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("RETRIEVAL_HOME", "nowhere"),
        ("RETRIEVAL_DATABASE_URL", "postgresql://127.0.0.1:1/shop"),
        ("RETRIEVAL_DATABASE_URL", "no URL"),
    ],
)
def test_without_a_database_nothing_is_completed(
    context: typer.Context, variable: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Completion starts no database, and prints no error."""
    monkeypatch.delenv("RETRIEVAL_DATABASE_URL", raising=False)
    monkeypatch.setenv(variable, str(tmp_path / value) if variable == "RETRIEVAL_HOME" else value)
    assert complete_collection(context, "t") == []
    assert list(tmp_path.iterdir()) == []


def test_versions_of_a_profile_need_its_collection(context: typer.Context) -> None:
    """Before one is named there is nothing to ask for."""
    assert complete_profile(context, "") == []
