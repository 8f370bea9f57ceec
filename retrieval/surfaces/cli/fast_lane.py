"""``retrieval session-start`` and ``session-end``: hooks of an agent's sessions, which they must never hold up.

Starting runs before a session may begin, so it loads nothing that it does not need, not even the rest of the program.
Whatever happens, the exit code is 0, and a hint is one line on standard error.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count

START, END = "session-start", "session-end"
_HELP = frozenset({"-h", "--help"})
_PROGRAM = frozenset({*_HELP, "-V", "--version", "-t", "--tenant", "--install-completion", "--show-completion"})

Say = Callable[[str], None]


def fast_lane(arguments: Sequence[str]) -> list[str]:
    """Run a hook and end the process, if that is what the arguments say; else give those for the whole program."""
    tenant, rest = _after_tenant(arguments)
    if (hook := _hook_after_unknown_options(rest)) is not None:
        _hint(hook, f"{rest[0]!r:.80} is no option; see: retrieval --help")
        os._exit(0)
    if not rest or rest[0] not in (START, END):
        return list(arguments)
    if _asks_for_help(rest[1:]):
        return [rest[0], "--help"]
    _open_closed_streams()
    _quieten_libraries()
    # Looking for garbage among what is imported takes a tenth of the time, and there is none.
    gc.disable()
    run_hook(rest[0], rest[1:], tenant)
    # What a normal end takes apart is gone with the process anyway, and quicker.
    os._exit(0)


def run_hook(command: str, arguments: Sequence[str], tenant: str | None = None) -> None:
    """The hook with the arguments after its name. Raises nothing."""
    say = partial(_hint, command)
    give_up = _once(say)
    try:
        (_start if command == START else _end)(arguments, tenant, say, give_up)
    except KeyboardInterrupt:
        give_up("interrupted")
    except Exception as error:  # noqa: BLE001 - nothing may keep a session from starting, or ending
        give_up(_said(error))


def _once(say: Say) -> Say:
    """Says the first thing it is given and no other: a deadline and an error may come at the same moment."""
    said = count()

    def say_first(message: str) -> None:
        # One step of the interpreter, so that no lock is needed between the watchdog and the hook.
        if next(said) == 0:
            say(message)

    return say_first


def _start(arguments: Sequence[str], tenant: str | None, say: Say, give_up: Say) -> None:
    from datetime import UTC, datetime

    from retrieval.apps.principles.startup.options import start_options
    from retrieval.apps.principles.startup.start_settings import start_settings
    from retrieval.apps.principles.startup.surroundings import HookInput, read_hook_input

    options, settings = start_options(arguments), start_settings(os.environ, tenant)
    with _limited(settings.session_start_seconds, give_up) as deadline:
        from retrieval.apps.principles.startup.start import SessionStart

        session = SessionStart(options, settings, deadline, say)
        try:
            is_told = options.folder is not None and options.session is not None
            started = session.started(HookInput() if is_told else read_hook_input(), datetime.now(UTC))
            if not started.principles:
                say("there are no principles to give yet; add one, as docs/how-to/principles.md tells")
            _print(started.as_json() if options.format == "json" else started.as_text())
            session.record(datetime.now(UTC))
        finally:
            session.close()


def _end(arguments: Sequence[str], tenant: str | None, say: Say, give_up: Say) -> None:
    from retrieval.apps.principles.startup.options import end_options
    from retrieval.apps.principles.startup.start_settings import start_settings

    options, settings = end_options(arguments), start_settings(os.environ, tenant)
    with _limited(settings.session_start_seconds, give_up) as deadline:
        from retrieval.surfaces.cli.commands.sessions import store_trace

        trace = store_trace(options, settings, deadline, say)
        if options.is_told:
            import json

            _print(json.dumps(trace.as_dict(), indent=2) + "\n")


@contextlib.contextmanager
def _limited(seconds: float, give_up: Say) -> Iterator[float]:
    """Within it, the deadline (``time.monotonic`` seconds) at which the process ends, whatever hangs."""
    from retrieval.apps.principles.startup.start import watchdog

    late = f"not done within {seconds:g} s, and left; RETRIEVAL_SESSION_START_SECONDS gives it more"
    with watchdog(seconds, partial(give_up, late)):
        yield time.monotonic() + seconds


def _asks_for_help(arguments: Sequence[str]) -> bool:
    """Whether help stands where an option does, and not as the value of one."""
    rest = list(arguments)
    while rest:
        option = rest.pop(0)
        if option in _HELP:
            return True
        if "=" not in option and rest and rest[0] not in _HELP:
            rest.pop(0)
    return False


def _hook_after_unknown_options(arguments: Sequence[str]) -> str | None:
    """The hook that follows options which the program does not have: it must not end with an error for them."""
    if not arguments or not arguments[0].startswith("-") or arguments[0] in _PROGRAM:
        return None
    command = next((one for one in arguments if not one.startswith("-")), None)
    return command if command in (START, END) else None


def _open_closed_streams() -> None:
    """Let no file that is opened take the place of a standard stream: hints would be written into it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _quieten_libraries() -> None:
    """What goes wrong is told in one line of the hook's own; the driver has words for it too."""
    import logging

    logging.getLogger().addHandler(logging.NullHandler())


def _hint(command: str, message: str) -> None:
    """Say one line on standard error, if there is one; straight, for the watchdog may not wait for a lock."""
    plain = "".join(one if one.isprintable() else " " for one in message)
    with contextlib.suppress(OSError):
        os.write(2, f"retrieval {command}: {' '.join(plain.split())}\n".encode(errors="replace"))


def _print(text: str) -> None:
    if sys.stdout is None:
        raise BrokenPipeError("nobody reads standard output")
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
        elif rest[0].startswith("-t") and len(rest[0]) > 2:
            tenant, rest = rest[0][2:], rest[1:]
        elif rest[0] == "--debug":
            rest = rest[1:]
        else:
            break
    return tenant, rest
