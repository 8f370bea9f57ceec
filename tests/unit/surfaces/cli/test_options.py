"""Parsing of options, and completion by the shell without a database."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from retrieval.surfaces.cli.app import app
from retrieval.surfaces.cli.options import complete_collection, complete_profile


@pytest.fixture
def context() -> typer.Context:
    """The context of the program, called without options."""
    return typer.Context(typer.main.get_command(app))


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
