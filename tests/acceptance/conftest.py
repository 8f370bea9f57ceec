"""The program ``retrieval`` as a user runs it: in a process of its own, on an embedded server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from retrieval.adapters.store.installation.embedded.server import start_embedded
from tests.support.database import make_fast
from tests.support.forked_program import run_forked

ROOT = Path(__file__).parents[2]
SECONDS = 120

# A shell without job control starts background processes with SIGINT ignored, so the tests' children ignore it too.
_INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from retrieval.surfaces.cli import main
main()
"""

Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Program:
    """Runs the program in a folder, with nothing configured but these variables; Python's warnings are errors."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    is_whole: bool = False
    """Whether each run is a process that loads everything itself, and not one forked from a process that did."""

    @property
    def command(self) -> list[str]:
        """The command that starts a whole process."""
        return [sys.executable, "-W", "error", "-m", "retrieval.surfaces.cli"]

    def using(self, **variables: str) -> Program:
        """The program with more variables, or other values for them."""
        return replace(self, environment=self.environment | variables)

    def alone(self) -> Program:
        """The program in whole processes, for tests that depend on how a process starts."""
        return replace(self, is_whole=True)

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a run."""
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("RETRIEVAL_", "OPENAI_"))
        }
        return inherited | {"PYTHONPATH": str(ROOT), "COLUMNS": "120"} | self.environment

    def __call__(self, *arguments: object, stdin: str = "") -> Done:
        """The finished run; ``stdin`` is its standard input."""
        given_to = [*map(str, arguments)]
        if not self.is_whole:
            return run_forked(given_to, folder=self.folder, variables=self.variables, stdin=stdin, seconds=SECONDS)
        return subprocess.run(
            [*self.command, *given_to],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env=self.variables,
            timeout=SECONDS,
        )

    def start(self, *arguments: object, errors: int = subprocess.PIPE) -> subprocess.Popen[str]:
        """Start a whole process in the background, for signals: SIGINT interrupts it even if the tests ignore it."""
        return subprocess.Popen(
            [sys.executable, "-W", "error", "-c", _INTERRUPTIBLE, *map(str, arguments)],
            cwd=self.folder,
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )

    def succeeds(self, *arguments: object, stdin: str = "") -> str:
        """Standard output of a run that must succeed without a word on standard error."""
        process = self(*arguments, stdin=stdin)
        assert (process.returncode, process.stderr) == (0, ""), process.stderr
        return process.stdout

    def json(self, *arguments: object) -> Any:
        """The output of a run with ``--json``."""
        return json.loads(self.succeeds(*arguments, "--json"))

    def fails(self, *arguments: object, code: int = 1, stdin: str = "") -> str:
        """The one line of a run that must fail with that code and print nothing else."""
        process = self(*arguments, stdin=stdin)
        assert (process.returncode, process.stdout) == (code, ""), process
        assert process.stderr.endswith("\n")
        assert process.stderr.count("\n") == 1, process.stderr
        return process.stderr.rstrip("\n")

    def write(self, name: str, *records: object) -> Path:
        """A JSON Lines file in the folder; a text is a line as it is."""
        lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
        path = self.folder / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path


@pytest.fixture(scope="session")
def home(run_folder: Path) -> Iterator[Path]:
    """The home of an embedded server for all tests that look at their own tenant or schema alone."""
    with start_embedded(run_folder / "home") as server:
        make_fast(server.url)
        yield run_folder / "home"


@pytest.fixture(scope="module")
def own_home() -> Iterator[Path]:
    """The home of an embedded server for one module; its changes apply to every tenant."""
    # Root's server runs as another user, who must be able to enter.
    folder = Path(tempfile.mkdtemp(prefix="retrieval-cli-"))
    folder.chmod(0o755)
    try:
        with start_embedded(folder / "home") as server:
            make_fast(server.url)
            yield folder / "home"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def program_in(folder: Path, home: Path) -> Program:
    """The program in a folder, for a tenant that no other folder has, with vectors that need no model."""
    return Program(
        folder, {"RETRIEVAL_HOME": str(home), "RETRIEVAL_EMBEDDER": "hashing", "RETRIEVAL_TENANT": str(folder)}
    )


@pytest.fixture
def program(home: Path, tmp_path: Path) -> Program:
    """The program in an empty folder of this test's own."""
    return program_in(tmp_path, home)
