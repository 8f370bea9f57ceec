"""Log records as lines."""

from __future__ import annotations

import logging
import sys

import pytest

from retrieval.surfaces.cli.app import REPEATED_SECONDS, LineHandler


def log(
    handler: LineHandler, name: str, level: int, message: str, *, failing: bool = False, created: float | None = None
) -> None:
    """Hand a record to the handler as a logger does; ``created``: seconds since the epoch, else now."""
    error = None
    if failing:
        try:
            int("inner")
        except ValueError:
            error = sys.exc_info()
    record = logging.LogRecord(name, level, __file__, 1, message, None, error)
    record.created = record.created if created is None else created
    handler.handle(record)


def test_our_warnings_are_one_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a traceback, whatever the message holds."""
    log(LineHandler(), "retrieval.services.add", logging.WARNING, "embedding\nstopped", failing=True)
    assert capsys.readouterr() == ("", "warning: embedding stopped\n")


def test_a_message_is_printed_once_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    """Many batches may have the same to say; a worker that fails again the next day says so again."""
    handler = LineHandler()
    for seconds in (0, 1, REPEATED_SECONDS - 1, 86_400, 86_401):
        log(handler, "retrieval", logging.WARNING, "again", created=1e9 + seconds)
    assert capsys.readouterr().err == "warning: again\n" * 2


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
