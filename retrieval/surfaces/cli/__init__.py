"""The command line, ``retrieval``: it parses, calls the platform and presents the answer."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the program with the process's arguments; exit with a code that ``retrieval --help`` explains."""
    from retrieval.surfaces.cli.fast_lane import fast_lane

    arguments = fast_lane(sys.argv[1:])
    # Modules are many objects and no garbage; looking for it meanwhile would take a tenth of a short command.
    gc.disable()
    from retrieval.surfaces.cli.app import run_program

    gc.enable()
    code = run_program(arguments)
    # What is left goes with the process: the interpreter need not look for garbage among it.
    gc.freeze()
    sys.exit(code)
