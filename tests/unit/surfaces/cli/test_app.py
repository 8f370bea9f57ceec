"""Log records as lines."""

from __future__ import annotations

import logging
import sys

import pytest

from retrieval.surfaces.cli.app import LineHandler


def log(handler: LineHandler, name: str, level: int, message: str, *, failing: bool = False) -> None:
    """Hand a record to the handler as a logger does."""
    error = None
    if failing:
        try:
            int("inner")
        except ValueError:
            error = sys.exc_info()
    handler.handle(logging.LogRecord(name, level, __file__, 1, message, None, error))


def test_our_warnings_are_one_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a traceback, whatever the message holds."""
    log(LineHandler(), "retrieval.services.add", logging.WARNING, "embedding\nstopped", failing=True)
    assert capsys.readouterr() == ("", "warning: embedding stopped\n")


def test_a_message_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Many batches may have the same to say."""
    handler = LineHandler()
    for _ in range(3):
        log(handler, "retrieval", logging.WARNING, "again")
    assert capsys.readouterr().err == "warning: again\n"


def test_libraries_are_heard_from_errors_on(capsys: pytest.CaptureFixture[str]) -> None:
    """Their warnings are for developers."""
    handler = LineHandler()
    log(handler, "psycopg.pool", logging.WARNING, "reconnecting")
    log(handler, "retrievalesque", logging.WARNING, "not ours")
    log(handler, "asyncio", logging.ERROR, "never awaited")
    assert capsys.readouterr().err == "error: never awaited\n"


def test_debugging_shows_more(capsys: pytest.CaptureFixture[str]) -> None:
    """Everything from INFO on, with tracebacks."""
    log(LineHandler(debug=True), "alembic", logging.INFO, "upgrade", failing=True)
    errors = capsys.readouterr().err
    assert errors.startswith("info: upgrade\n")
    assert "ValueError: invalid literal" in errors
