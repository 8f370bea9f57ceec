"""Runs of the program in processes that have its modules loaded already: a second less each, and there are hundreds.

A server process loads the modules once and forks a process for each run, with arguments, environment, folder and files
of its own. What imports cost, and what they do, is tested with whole processes elsewhere.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import TextIO

import retrieval
from retrieval.adapters.store.installation.embedded.binaries import Binaries

_PACKAGE = Path(retrieval.__file__).parent
_FOLDERS = ("adapters", "apps", "engine", "jobs", "learning", "surfaces/cli")


def loaded() -> list[str]:
    """The modules that a run of some command uses: the program itself loads most of them when it needs them.

    Then follow the libraries of the local model, which load its file at the first text, and this module. The last one
    freezes what is loaded.
    """
    paths = [path for folder in _FOLDERS for path in sorted((_PACKAGE / folder).rglob("[!_]*.py"))]
    names = [".".join(path.relative_to(_PACKAGE.parent).with_suffix("").parts) for path in paths]
    return [*names, "retrieval.platform", "onnxruntime", "tokenizers", __name__, "tests.support.frozen_objects"]


def run_forked(
    arguments: Sequence[str],
    *,
    folder: Path,
    variables: Mapping[str, str],
    stdin: str = "",
    seconds: float,
    script: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """The finished run of ``retrieval``, or of the script, with these arguments; Python's warnings are errors.

    Raises ``subprocess.TimeoutExpired`` when it takes longer than the seconds.
    """
    with tempfile.TemporaryDirectory() as outputs:
        files = [Path(outputs) / name for name in ("in", "out", "err")]
        files[0].write_text(stdin, encoding="utf-8")
        run = forking().Process(target=_run, args=(list(arguments), str(folder), dict(variables), files, script))
        run.start()
        run.join(seconds)
        if run.is_alive():
            run.kill()
            run.join()
            raise subprocess.TimeoutExpired(list(arguments), seconds)
        out, err = (path.read_text(encoding="utf-8") for path in files[1:])
        return subprocess.CompletedProcess(list(arguments), run.exitcode or 0, out, err)


@cache
def forking() -> ForkServerContext:
    """The context that forks processes with the modules loaded."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(loaded())
    return context


def _run(arguments: list[str], folder: str, variables: dict[str, str], files: list[Path], script: Path | None) -> None:
    """Run the program or the script in the forked process."""
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    sys.argv = [str(script or "retrieval"), *arguments]
    streams: list[TextIO] = []
    for number, path in enumerate(files):
        opened = os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT)
        os.dup2(opened, number)
        streams.append(os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))
    sys.stdin, sys.stdout, sys.stderr = streams
    warnings.simplefilter("error")
    # Whoever started the server has tried its programs; to try them again takes a fifth of a short run.
    Binaries.usable = lambda _: True  # type: ignore[assignment, method-assign]
    if script is not None:
        sys.path.insert(0, str(script.parent))
        runpy.run_path(str(script), run_name="__main__")
        return
    from retrieval.surfaces.cli import main, output

    # A slow run reports progress on standard error, where tests expect only errors.
    output.LINE_SECONDS = 3600.0

    main()
