"""Errors on the command line: one line on standard error, and an exit code."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import typer

from retrieval.domain.checks import shown_line
from retrieval.domain.errors import RetrievalError

FAILED = 1
USAGE = 2
PENDING = 3
INTERNAL = 70
INTERRUPTED = 130
UNREAD = 141

EXIT_MEANINGS = {
    0: "done",
    FAILED: "an error, such as a value that the platform refuses (or: the schema is not current, a job failed, "
    "the doctor found an error)",
    USAGE: "arguments that the command line cannot read",
    PENDING: "everything is stored, and some of it still waits for its vector",
    INTERNAL: "a fault of the program",
    INTERRUPTED: "interrupted",
    UNREAD: "the output was not read to its end, as by head",
}
"""The meaning of each exit code. The hooks session-start and session-end always end with 0."""

_OF_THE_PROGRAM = {"--tenant": "--tenant NAME", "-t": "--tenant NAME", "--debug": "--debug"}
"""The options that precede every command, as they are written there."""

_TOO_MANY = r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)"
"""typer's message about arguments that the command does not have."""

HOOKS = frozenset({"session-start", "session-end"})
"""The commands that an agent's sessions wait for; they always end with 0."""


def hook_of(arguments: Sequence[str]) -> str | None:
    """The hook that the arguments name as the command, after any options; None: another command."""
    before = ""
    for argument in arguments:
        if not argument.startswith("-") and before not in ("-t", "--tenant"):
            return argument if argument in HOOKS else None
        before = argument
    return None


def hint(hook: str, message: str) -> None:
    """Write one line to standard error, if it is open; unbuffered, because a watchdog must not wait for a lock."""
    with contextlib.suppress(OSError):
        os.write(2, f"retrieval {hook}: {shown_line(message)}\n".encode(errors="replace"))


class InterruptedRunError(Exception):
    """The user stopped the command; the message says how to continue."""


@runtime_checkable
class _UsageError(Protocol):
    """The shape of the error that typer raises for wrong arguments; its class has moved between releases."""

    exit_code: int

    def format_message(self) -> str: ...


def report_error(error: BaseException, *, debug: bool, worded: Callable[[str], str] = str) -> int:
    """Print the error on standard error, with ``debug`` after its traceback; return the exit code.

    ``worded`` changes the line, such as the commands that it advises.
    """
    if is_unread(error):
        _leave_the_pipe()
        return UNREAD
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else FAILED
    line, code = error_line(error)
    if debug and code in (FAILED, INTERNAL):
        traceback.print_exception(error)
    try:
        print(worded(line), file=sys.stderr, flush=True)  # noqa: T201 - the surface's own voice
    except BrokenPipeError:
        _leave_the_pipe()
    return code


def is_unread(error: BaseException) -> bool:
    """Whether nobody reads the output any more; typer then ends the command with its own exit code."""
    return isinstance(error, BrokenPipeError) or isinstance(error.__context__, BrokenPipeError)


def error_line(error: BaseException) -> tuple[str, int]:
    """The line for the error, and its exit code."""
    match error:
        case InterruptedRunError():
            return str(error), INTERRUPTED
        case KeyboardInterrupt() | typer.Abort():
            return "interrupted", INTERRUPTED
        case RetrievalError():
            return f"error: {shown_line(str(error))}", FAILED
        case OSError(errno=errno.ENOSPC | errno.EDQUOT | errno.EIO):
            return f"error: cannot write: {shown_line(error.strerror or str(error))}", FAILED
        case _UsageError():
            message = shown_line(error.format_message()).replace("Value error, ", "") or "a command is missing"
            message = re.sub(_TOO_MANY, r"too many arguments: \1; put several words in quotation marks", message)
            option = getattr(error, "option_name", "")
            if option in _OF_THE_PROGRAM:
                message = f"{option} goes before the command: retrieval {_OF_THE_PROGRAM[option]} COMMAND"
            path = getattr(getattr(error, "ctx", None), "command_path", "retrieval")
            return f"error: {message} (see: {path} --help)", USAGE
        case _ if (refused := _refused_settings(error)) is not None:
            return f"error: {refused}", FAILED
        case _:
            message = shown_line(f"{type(error).__name__}: {error}").removesuffix(":")
            return f"error: unexpected {message}; run again with --debug (before the command) to see where", INTERNAL


def _refused_settings(error: BaseException) -> str | None:
    from pydantic import ValidationError

    from retrieval.settings import refusal_message

    return shown_line(refusal_message(error)) if isinstance(error, ValidationError) else None


def _leave_the_pipe() -> None:
    """Discard the rest of the output: its reader has closed the pipe."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(nowhere, stream.fileno())
        except (OSError, ValueError, AttributeError):
            continue
