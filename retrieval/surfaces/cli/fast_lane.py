"""``retrieval session-start`` by itself: it runs before a session may begin, so it loads nothing that it does not need.

It never stands in a session's way: whatever happens, the exit code is 0, and a hint is one line on standard error.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retrieval.apps.principles.startup.start_options import StartOptions
    from retrieval.apps.principles.startup.start_settings import StartSettings

COMMAND = "session-start"
_HELP = frozenset({"-h", "--help"})


def fast_lane(arguments: Sequence[str]) -> None:
    """Run the command and end the process, if that is what the program's arguments say; else do nothing."""
    tenant, rest = _after_tenant(arguments)
    if rest[:1] != [COMMAND] or not _HELP.isdisjoint(rest):
        return
    # Looking for garbage among what is imported takes a tenth of the time, and there is none.
    gc.disable()
    start(rest[1:], tenant)
    # What a normal end takes apart is gone with the process anyway, and quicker.
    os._exit(0)


def start(arguments: Sequence[str], tenant: str | None = None) -> None:
    """The command with the arguments after its name. Raises nothing."""
    try:
        from retrieval.apps.principles.startup.start_options import start_options
        from retrieval.apps.principles.startup.start_settings import start_settings

        options, settings = start_options(arguments), start_settings(os.environ, tenant)
        _limited(options, settings)
    except Exception as error:  # noqa: BLE001 - nothing may keep a session from starting
        hint(_said(error))


def hint(message: str) -> None:
    """Say one line on standard error, if there is one."""
    plain = "".join(one if one.isprintable() else " " for one in message)
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.write(2, f"retrieval {COMMAND}: {' '.join(plain.split())}\n".encode(errors="replace"))


def _limited(options: StartOptions, settings: StartSettings) -> None:
    from retrieval.apps.principles.startup.watchdog import watchdog

    seconds = settings.session_start_seconds

    def late() -> None:
        hint(f"not done within {seconds:g} s, and left; see RETRIEVAL_SESSION_START_SECONDS")

    with watchdog(seconds, late):
        _run(options, settings, time.monotonic() + seconds)


def _run(options: StartOptions, settings: StartSettings, deadline: float) -> None:
    from retrieval.apps.principles.startup.hook_input import HookInput, read_hook_input
    from retrieval.apps.principles.startup.start import SessionStart

    session = SessionStart(options, settings, deadline, hint)
    try:
        is_told = options.folder is not None and options.session is not None
        hook = HookInput() if is_told else read_hook_input()
        started = session.started(hook, datetime.now(UTC))
        if not started.principles:
            hint("there are no principles to give yet; add some: docs/how-to/principles.md")
        _print(started.as_json() if options.format == "json" else started.as_text())
        session.record(datetime.now(UTC))
    finally:
        session.close()


def _print(text: str) -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    sys.stdout.write(text)
    sys.stdout.flush()


def _said(error: Exception) -> str:
    from retrieval.domain.errors import RetrievalError

    if isinstance(error, RetrievalError | OSError):
        return str(error) or type(error).__name__
    return f"unexpected {type(error).__name__}: {error}"


def _after_tenant(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """The tenant that is named before the command, and what follows; ``--debug`` says nothing here."""
    tenant, rest = None, list(arguments)
    while rest:
        if rest[0] in ("-t", "--tenant") and len(rest) > 1:
            tenant, rest = rest[1], rest[2:]
        elif rest[0].startswith("--tenant="):
            tenant, rest = rest[0].partition("=")[2], rest[1:]
        elif rest[0] == "--debug":
            rest = rest[1:]
        else:
            break
    return tenant, rest
