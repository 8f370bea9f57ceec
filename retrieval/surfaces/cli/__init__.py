"""The command line, ``retrieval``: it parses, calls the platform and presents the answer."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run the program with the process's arguments; exit with a code that ``retrieval --help`` explains."""
    open_closed_streams()
    # Modules are many objects and no garbage; looking for it meanwhile would take a tenth of a short command.
    gc.disable()
    from retrieval.surfaces.cli.app import run_program
    from retrieval.surfaces.cli.errors import hook_of

    is_hook = hook_of(sys.argv[1:]) is not None
    if not is_hook:
        gc.enable()
    code = run_program(sys.argv[1:])
    if is_hook:
        # A session waits: what a normal end takes apart is gone with the process anyway, and quicker.
        os._exit(code)
    # What is left goes with the process: the interpreter need not look for garbage among it.
    gc.freeze()
    sys.exit(code)


def open_closed_streams() -> None:
    """Let no file that is opened take the place of a standard stream: messages would be written into it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
