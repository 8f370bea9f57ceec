"""The examples, run as a user runs them."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.conftest import SECONDS, Program
from tests.support.forked_program import run_forked

ROOT = Path(__file__).parents[2]
LOOP = "metaphor_search_loop.py"
OWN_TESTS = {LOOP, "demo.py", "quickstart.py"}
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py") if path.name not in OWN_TESTS)


def run(example: str, home: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """The example, in a process of its own with nothing configured but these variables; warnings are errors."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("RETRIEVAL_", "OPENAI_"))}
    environment = inherited | {"RETRIEVAL_HOME": str(home), "PYTHONPATH": str(ROOT), "COLUMNS": "100"} | variables
    return run_forked([], script=ROOT / "examples" / example, folder=home, variables=environment, seconds=SECONDS)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs(example: str, home: Path) -> None:
    """From any folder, without a word on standard error."""
    process = run(example, home, RETRIEVAL_EMBEDDER="hashing", RETRIEVAL_TENANT=f"runs {example}")

    assert process.returncode == 0, process.stderr
    assert process.stderr == ""
    assert process.stdout


DEMO = {"RETRIEVAL_EMBEDDER": "hashing", "RETRIEVAL_TENANT": "demo"}


@pytest.fixture(scope="module")
def demo(home: Path) -> subprocess.CompletedProcess[str]:
    """The first run of the demo."""
    return run("demo.py", home, **DEMO)


def test_the_demo_answers_five_questions_and_explains_them(home: Path, demo: subprocess.CompletedProcess[str]) -> None:
    """Each has hits with the parts of their score, the path, why, timings; a second run finds everything in place."""
    stdout, second = demo.stdout, run("demo.py", home, **DEMO)

    assert (demo.returncode, demo.stderr) == (0, "")
    assert all(f"\n{number}. " in stdout for number in range(1, 6))
    assert "\n6. " not in stdout
    assert " dense (rank 1, score " in stdout
    assert " lexical (rank 1, score " in stdout
    assert "no HNSW index: the" in stdout
    assert "matching vectors were compared" in stdout
    assert "milliseconds: embed " in stdout
    assert f"in the embedded PostgreSQL in {home}, collection 'demo' of the tenant 'demo'" in stdout
    assert "retrieval search demo " in stdout
    assert " 0 changed, 0 unchanged; " in stdout
    assert " 0 new, 0 changed, " in second.stdout
    assert " unchanged; 0 embedded " in second.stdout


def test_the_commands_that_the_demo_prints_work(home: Path, demo: subprocess.CompletedProcess[str]) -> None:
    """Each command as it is printed, in the folder where the demo ran."""
    lines = [line for line in demo.stdout.splitlines() if line.startswith("  ") and "retrieval " in line]
    commands = [shlex.split(line)[1:] for line in lines]
    assert [words[0] for words in commands] == ["search", "search", "ingest", "--help"]
    program = Program(home, {"RETRIEVAL_HOME": str(home), **DEMO})
    assert [program(*words).returncode for words in commands] == [0] * 4


def test_the_demo_works_without_an_embedder(home: Path) -> None:
    """It searches by words alone and says how to have the rest."""
    process = run("demo.py", home, RETRIEVAL_EMBEDDER="none", RETRIEVAL_TENANT="words")

    assert process.returncode == 0, process.stderr
    assert " dense (rank" not in process.stdout
    assert "pip install 'retrieval-platform[local]'" in " ".join(process.stdout.split())


def test_the_demo_prints_an_error_in_one_line(home: Path) -> None:
    """No traceback where a server cannot be reached."""
    process = run("demo.py", home, RETRIEVAL_DATABASE_URL="postgresql://127.0.0.1:1/none")

    assert process.returncode == 1
    assert process.stdout.splitlines()[-1].startswith("error: ") or "error: " in process.stdout
    assert "Traceback" not in process.stdout + process.stderr


def test_the_quickstart_finds_what_it_asks_for(home: Path) -> None:
    """The best hit is the ticket about the connection, with its explanation."""
    process = run("quickstart.py", home, RETRIEVAL_EMBEDDER="hashing")
    lines = process.stdout.splitlines()

    assert (process.returncode, process.stderr) == (0, "")
    assert lines[0].startswith("1 T-1 ")
    assert " = " in lines[1]
    assert not any("T-2" in line for line in lines)


def test_the_search_loop_gets_better_at_the_first_try(home: Path) -> None:
    """Over a hundred problems, and not because the last ones are easier: similarity alone stays where it was."""
    process = run(LOOP, home, RETRIEVAL_EMBEDDER="hashing")

    assert (process.returncode, process.stderr) == (0, "")
    first, last = shares(process.stdout, "retrieval that learns")
    assert last >= first + 0.2
    assert last >= shares(process.stdout, "similarity alone")[1] + 0.3


def shares(output: str, row: str) -> tuple[float, float]:
    """The shares of the first and the last quarter in a row of the table."""
    (line,) = [line for line in output.splitlines() if line.startswith(row)]
    first, last = (float(word.rstrip("%")) / 100 for word in line.split() if word.endswith("%"))
    return first, last
