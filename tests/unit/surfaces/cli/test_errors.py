"""Errors as one line and an exit code."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from retrieval.domain.errors import EmptyQueryError, InvalidRequestError
from retrieval.settings import Settings
from retrieval.surfaces.cli.app import app, run_program
from retrieval.surfaces.cli.errors import InterruptedRunError, error_line, report_error


def test_our_errors_are_one_line_and_exit_code_1() -> None:
    """Whatever stands in the message."""
    assert error_line(EmptyQueryError("the query\n  is \x1b[1mempty")) == ("error: the query is empty", 1)


def test_wrong_usage_exits_with_2_and_says_where_help_is() -> None:
    """Typer's own errors are one line too."""
    line, code = error_line(typer.BadParameter("no such option"))
    assert (line, code) == ("error: Invalid value: no such option (see: retrieval --help)", 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["search", "notes", "x", "-n", "few"], "Invalid value for '--limit' / '-n': "),
        (["serve", "--port", "99999"], "Invalid value for '--port': Input should be less than or equal to 65535"),
        (
            ["search", "notes", "why", "is", "it"],
            "too many arguments: is it; put several words in quotation marks",
        ),
        (["items", "get", "notes", "a", "b"], "too many arguments: b; put several words in quotation marks (see: "),
        (
            ["items", "patch", "notes", "a", "title=b"],
            "cannot read 'title=b': not JSON: Expecting value (column 1); give a JSON object such as {\"title\": ",
        ),
        (
            ["reembed", "notes", "begin"],
            "Invalid value for 'ACTION': 'begin' is not one of",
        ),
    ],
)
def test_a_refused_value_is_told_by_its_option_and_what_is_allowed(arguments: list[str], message: str) -> None:
    """The line names the option and the reason."""
    error = CliRunner().invoke(app, arguments, standalone_mode=False).exception
    assert error is not None
    assert error_line(error)[0].startswith(f"error: {message}")


def test_a_missing_command_is_named() -> None:
    """Typer has no message for a missing command, because it shows the help instead."""
    error = CliRunner().invoke(app, ["memories"], standalone_mode=False).exception
    assert error is not None
    assert error_line(error)[0].startswith("error: a command is missing (see: ")


@pytest.mark.parametrize(
    ("options", "message"), [(["--before", "3"], "give --sequence"), (["--before", "0", "--after", "0"], "--none")]
)
def test_neighbours_that_change_nothing_are_an_error(options: list[str], message: str) -> None:
    """Otherwise the present setting would be shown like a new one."""
    error = CliRunner().invoke(app, ["collections", "neighbours", "talks", *options]).exception
    assert isinstance(error, InvalidRequestError)
    assert message in str(error)


def test_an_unexpected_error_exits_with_70_and_names_its_type() -> None:
    """The line says how to see more."""
    line, code = error_line(ZeroDivisionError("division\nby zero"))
    assert code == 70
    assert line.startswith("error: unexpected ZeroDivisionError: division by zero;")
    assert "--debug" in line
    assert error_line(ValueError())[0].startswith("error: unexpected ValueError;")


def test_a_full_disk_is_not_a_fault_of_the_program() -> None:
    """It says what could not be done."""
    full = OSError(errno.ENOSPC, "No space left on device")
    assert error_line(full) == ("error: cannot write: No space left on device", 1)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), typer.Abort(), InterruptedRunError("interrupted; go on")])
def test_an_interruption_exits_with_130(error: BaseException) -> None:
    """It is no error, and the line says so."""
    line, code = error_line(error)
    assert code == 130
    assert line.startswith("interrupted")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("RETRIEVAL_POOL_SIZE", "many"),
        ("RETRIEVAL_SCHEMA", "pg_mine"),
        ("RETRIEVAL_EMBEDDER", "magic"),
        ("RETRIEVAL_DATABASE_URL", "mysql://me:secret@host/x"),
    ],
)
def test_a_wrong_setting_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    """A password in the value is not shown."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValueError, match=r".") as caught:
        Settings()
    line, code = error_line(caught.value)
    assert code == 1
    assert line.startswith(f"error: {variable}: ")
    assert "secret" not in line + str(caught.value)


def test_a_traceback_is_shown_only_when_debugging(capsys: pytest.CaptureFixture[str]) -> None:
    """The error line is the last line."""
    assert report_error(EmptyQueryError("empty"), debug=False) == 1
    assert capsys.readouterr().err == "error: empty\n"
    report_error(EmptyQueryError("empty"), debug=True)
    errors = capsys.readouterr().err
    assert "EmptyQueryError" in errors
    assert errors.endswith("\nerror: empty\n")


@pytest.mark.parametrize(("arguments", "code"), [(["db", "sql"], 141), (["session-start", "--help"], 0)])
def test_a_reader_that_is_gone_is_not_complained_about(arguments: list[str], code: int) -> None:
    """The exit code is a shell's for SIGPIPE, a hook's 0; standard error stays empty, also while the program ends."""
    command = [sys.executable, "-m", "retrieval.surfaces.cli", *arguments]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        process = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writer)
    assert (process.returncode, process.stderr) == (code, b"")


def test_closed_standard_input_is_no_fault_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line says what ``-`` stands for."""
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InvalidRequestError, match="'-' is standard input, which is closed"):
        app(["items", "put", "notes", "-"], standalone_mode=False)


def test_a_login_that_no_database_has_is_refused_before_a_statement_is_made() -> None:
    """Bytes of the terminal that are not UTF-8 cannot stand in SQL."""
    with pytest.raises(InvalidRequestError, match="LOGIN holds half of a surrogate pair"):
        app(["analysts", "add", "\udcff", "--sql"], standalone_mode=False)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [(["analysts", "add", "caf\udce9", "--sql"], "LOGIN"), (["-t", "caf\udce9", "status"], "tenant: the name")],
)
def test_an_argument_that_is_not_utf_8_is_named_as_such(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what to change; Python hands its bytes over as halves of surrogate pairs."""
    assert run_program(arguments) == 1
    assert capsys.readouterr().err == (
        f"error: {named} holds half of a surrogate pair, so it is not UTF-8 text; give it in UTF-8\n"
    )


@pytest.mark.parametrize(
    ("arguments", "usage"),
    [
        (["search", "tickets", "x", "--tenant", "acme"], "--tenant NAME"),
        (["keys", "list", "-t", "acme"], "--tenant NAME"),
        (["search", "tickets", "x", "--debug"], "--debug"),
    ],
)
def test_a_misplaced_option_of_the_program_gets_its_place(arguments: list[str], usage: str) -> None:
    """An option of no command gets the usual message."""
    error = CliRunner().invoke(app, arguments, standalone_mode=False).exception
    unknown = CliRunner().invoke(app, ["search", "tickets", "x", "--tenat"], standalone_mode=False).exception
    assert error is not None
    assert unknown is not None
    assert f" goes before the command: retrieval {usage} COMMAND (see: " in error_line(error)[0]
    assert error_line(unknown)[0].startswith("error: No such option: --tenat")
