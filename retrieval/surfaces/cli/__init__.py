"""The command line, ``retrieval``: it parses, calls the platform and presents the answer."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the program with the process's arguments; exit with a code that ``retrieval --help`` explains."""
    from retrieval.surfaces.cli.fast_lane import fast_lane

    arguments = fast_lane(sys.argv[1:])
    from retrieval.surfaces.cli.program import run_program

    sys.exit(run_program(arguments))
