"""The hooks of an agent's sessions: the program ends with 0 and one line, whatever happens."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from retrieval.surfaces.cli.app import run_program
from retrieval.surfaces.cli.errors import hook_of


@pytest.mark.parametrize(
    ("arguments", "hook"),
    [
        (["session-start", "--limit", "3"], "session-start"),
        (["--debug", "-t", "me", "session-end"], "session-end"),
        (["--tenant", "session-start", "status"], None),
        (["--tenant=me", "session-start"], "session-start"),
        (["--bogus", "session-start"], "session-start"),
        (["status"], None),
        (["search", "tickets", "session-start"], None),
        (["--version"], None),
        ([], None),
    ],
)
def test_a_hook_is_the_command_that_is_named(arguments: list[str], hook: str | None) -> None:
    """After whatever options; not a value of one, and not another command's argument."""
    assert hook_of(arguments) == hook


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--bogus"], "No such option: --bogus (see: retrieval session-start --help)"),
        (["shop"], "too many arguments: shop"),
        (["--limit"], "Option '--limit' requires an argument"),
        (["--limit", "0"], "--limit'"),
        (["--limit", "many"], "--limit'"),
        (["--explore", "-1"], "--explore'"),
        (["--format", "xml"], "--format'"),
        (["--session", ""], "--session must be a text"),
        (["--session", " \n"], "--session must be a text"),
        (["--collection", ""], "a collection's name has"),
        (["--session", "s" * 201], "--session must be a text"),
        (["--session", "a\udcff"], "--session must be a text"),
    ],
)
def test_a_mistake_is_a_hint_and_no_failure(
    arguments: list[str],
    reason: str,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One line on standard error that says what would do; wrong usage too."""
    monkeypatch.setenv("RETRIEVAL_HOME", str(tmp_path / "none"))
    assert run_program(["session-start", *arguments]) == 0
    captured = capfd.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert captured.err.startswith("retrieval session-start: ")
    assert reason in captured.err


def test_settings_that_cannot_work_are_a_hint(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settings are those of every command, and a refused value is not repeated, because it may be a password."""
    monkeypatch.setenv("RETRIEVAL_DATABASE_URL", "mysql://me:secret@db")
    assert run_program(["session-end"]) == 0
    line = capfd.readouterr().err
    assert line.startswith("retrieval session-end: RETRIEVAL_DATABASE_URL: ")
    assert "secret" not in line


def test_closed_streams_are_opened_on_nothing() -> None:
    """Otherwise a file that is opened later would get their number, and be written to."""
    code = "import os\nfrom retrieval.surfaces.cli import open_closed_streams as go\nos.closerange(0, 3)\n"
    code += "go()\nos._exit(0 if os.open(os.devnull, os.O_RDONLY) > 2 else 1)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
