"""The command line, ``retrieval``: it parses, calls the platform and presents the answer."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run the program with the process's arguments; exit with a code that ``retrieval --help`` explains."""
    open_closed_streams()
    # Imports create many objects and no garbage; collecting during them would take a tenth of a short command's time.
    gc.disable()
    try:
        from retrieval.surfaces.cli.app import run_program
        from retrieval.surfaces.cli.errors import hook_of
    except KeyboardInterrupt:
        # The module that reports errors is not loaded yet.
        os.write(2, b"interrupted\n")
        os._exit(130)

    is_hook = hook_of(sys.argv[1:]) is not None
    if not is_hook:
        gc.enable()
    code = run_program(sys.argv[1:])
    if is_hook:
        # An agent's session waits for the hook: the process ends without the interpreter's slow clean-up.
        os._exit(code)
    # The remaining objects end with the process; the interpreter need not collect them.
    gc.freeze()
    sys.exit(code)


def open_closed_streams() -> None:
    """Open closed standard streams: otherwise an opened file would get their numbers, and the messages."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 - it lives as long as the process
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
