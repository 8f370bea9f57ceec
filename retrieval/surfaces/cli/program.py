"""One run of the program: arguments in, exit code out, every error shown as one line."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

from retrieval.surfaces.cli.app import app
from retrieval.surfaces.cli.errors import INTERRUPTED, report_error
from retrieval.surfaces.cli.state import State


def run_program(arguments: Sequence[str]) -> int:
    """Run the command that the arguments name; gives the exit code."""
    _settle_colours()
    _settle_encodings()
    state = State()
    try:
        code = app(list(arguments), prog_name="retrieval", obj=state, standalone_mode=False)
        # What is still buffered would otherwise fail while the interpreter ends, where nobody can catch it.
        if sys.stdout is not None:
            sys.stdout.flush()
        if code == INTERRUPTED:  # typer has caught it
            raise KeyboardInterrupt  # noqa: TRY301
    except BaseException as error:  # noqa: BLE001 - this is where every error ends
        return report_error(error, debug=state.debug)
    return code if isinstance(code, int) else 0


def _settle_colours() -> None:
    """Let help texts be plain where there is no terminal: typer colours them in some CI systems."""
    if not (sys.stdout is not None and sys.stdout.isatty()) and "FORCE_COLOR" not in os.environ:
        os.environ.setdefault("_TYPER_FORCE_DISABLE_TERMINAL", "1")


def _settle_encodings() -> None:
    """Let what an output cannot encode become question marks rather than an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
