"""The command line, ``retrieval``: it parses, calls the platform and presents the answer."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def main() -> None:
    """Run the program with the process's arguments; exit with a code that ``retrieval --help`` explains."""
    from retrieval.surfaces.cli.fast_lane import fast_lane

    arguments = fast_lane(sys.argv[1:])
    with loading():
        from retrieval.surfaces.cli.program import run_program

    code = run_program(arguments)
    # What is left goes with the process: the interpreter need not look for garbage among it.
    gc.freeze()
    sys.exit(code)


@contextmanager
def loading() -> Iterator[None]:
    """Around imports: they make many objects and no garbage, and looking for it takes a tenth of a short command."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
