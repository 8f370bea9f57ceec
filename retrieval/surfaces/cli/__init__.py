"""The command line, ``retrieval``: it parses, calls the platform and presents the answer."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the program with the process's arguments; exit with a code that ``retrieval --help`` explains."""
    from retrieval.surfaces.cli.fast_lane import fast_lane

    arguments = fast_lane(sys.argv[1:])
    from retrieval.surfaces.cli.program import run_program

    code = run_program(arguments)
    # Looking for garbage among all that goes with the process anyway would take a fifth of a short command's time.
    gc.freeze()
    sys.exit(code)
