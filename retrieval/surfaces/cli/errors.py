"""Errors on the command line: one line on standard error, and an exit code."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import typer

from retrieval.domain.checks import clean_text
from retrieval.domain.errors import RetrievalError

FAILED = 1
USAGE = 2
PENDING = 3
INTERNAL = 70
INTERRUPTED = 130

EXIT_MEANINGS = {
    0: "done",
    FAILED: "an error, such as a value that the platform refuses (or: the schema is not current, a job failed, "
    "the doctor found an error)",
    USAGE: "arguments that the command line cannot read",
    PENDING: "everything is stored, and some of it still waits for its vector",
    INTERNAL: "a fault of the program",
    INTERRUPTED: "interrupted",
}
"""The meaning of each exit code. The hooks session-start and session-end end with 0 whatever happens."""

_OF_THE_PROGRAM = {"--tenant": "--tenant NAME", "-t": "--tenant NAME", "--debug": "--debug"}
"""The options that stand before every command, as they are written there."""

EXIT_CODES = f"Exit codes: {', '.join(f'{code} {meaning}' for code, meaning in EXIT_MEANINGS.items())}."


HOOKS = frozenset({"session-start", "session-end"})
"""The commands that an agent's sessions wait for: whatever happens, they end with 0."""


def hook_of(arguments: Sequence[str]) -> str | None:
    """The hook that the arguments name as the command, whatever options stand before it; None: another command."""
    before = ""
    for argument in arguments:
        if not argument.startswith("-") and before not in ("-t", "--tenant"):
            return argument if argument in HOOKS else None
        before = argument
    return None


def hint(hook: str, message: str) -> None:
    """Write one line to standard error, if it is open; directly, because a watchdog may not wait for a lock."""
    with contextlib.suppress(OSError):
        os.write(2, f"retrieval {hook}: {one_line(message)}\n".encode(errors="replace"))


class InterruptedRunError(Exception):
    """The user stopped the command; the message says how to go on."""


@runtime_checkable
class _UsageError(Protocol):
    """The shape of the error that typer raises for wrong arguments; its class has moved between releases."""

    exit_code: int

    def format_message(self) -> str: ...


def report_error(error: BaseException, *, debug: bool) -> int:
    """Show the error on standard error, with ``debug`` after its traceback; gives the exit code."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else FAILED
    if isinstance(error, BrokenPipeError):
        _leave_the_pipe()
        return FAILED
    line, code = described(error)
    if debug and code in (FAILED, INTERNAL):
        traceback.print_exception(error)
    _say(line)
    return code


def described(error: BaseException) -> tuple[str, int]:
    """The line that tells of the error, and the exit code that goes with it."""
    match error:
        case InterruptedRunError():
            return str(error), INTERRUPTED
        case KeyboardInterrupt() | typer.Abort():
            return "interrupted", INTERRUPTED
        case RetrievalError():
            return f"error: {one_line(str(error))}", FAILED
        case OSError(errno=errno.ENOSPC | errno.EDQUOT | errno.EIO):
            return f"error: cannot write: {one_line(error.strerror or str(error))}", FAILED
        case _UsageError():
            said = _before_the_command(error) or one_line(error.format_message()) or "a command is missing"
            return f"error: {said}{_see_help(error)}", USAGE
        case _ if (refused := _refused_settings(error)) is not None:
            return f"error: {refused}", FAILED
        case _:
            said = one_line(f"{type(error).__name__}: {error}").removesuffix(":")
            return (
                f"error: unexpected {said}; run again with --debug (before the command) to see where",
                INTERNAL,
            )


def one_line(message: str) -> str:
    """The message on one line, without characters that would steer a terminal."""
    return clean_text(" ".join(part.strip() for part in message.splitlines() if part.strip()), is_line=True)


def _refused_settings(error: BaseException) -> str | None:
    from pydantic import ValidationError

    from retrieval.settings import refused

    return one_line(refused(error)) if isinstance(error, ValidationError) else None


def _before_the_command(error: object) -> str:
    """Advice for an option of the program that was given after a command; empty: it is another error."""
    option = getattr(error, "option_name", "")
    usage = _OF_THE_PROGRAM.get(option)
    return f"{option} goes before the command: retrieval {usage} COMMAND" if usage else ""


def _see_help(error: object) -> str:
    context = getattr(error, "ctx", None)
    path = getattr(context, "command_path", "retrieval")
    return f" (see: {path} --help)"


def _say(line: str) -> None:
    if sys.stderr is None:
        return
    try:
        print(line, file=sys.stderr, flush=True)  # noqa: T201 - the surface's own voice
    except BrokenPipeError:
        _leave_the_pipe()


def _leave_the_pipe() -> None:
    """Discard the rest of the output: its reader is gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(nowhere, stream.fileno())
        except (OSError, ValueError, AttributeError):
            continue
