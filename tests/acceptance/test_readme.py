"""The README and the documentation, executed as they are printed.

Every ``python`` block runs, top-level ``await`` included, with ``items`` at hand: three tickets as dictionaries.
In ``sh`` blocks, the lines that start with ``retrieval`` run, in the repository's folder and in order. The blocks of
a page share one tenant, which no other page sees, on an embedded server with the hashing embedder.

A shell block that cannot run by itself has a comment of its own on the line above its fence, with the reason::

    <!-- not run: needs a server -->
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.support.forked_program import run_forked
from tests.support.markdown import Block, blocks, pages

ROOT = Path(__file__).parents[2]
PAGES = pages(ROOT)

ITEMS = [
    {
        "_id": "T-1",
        "title": "Database connection times out",
        "text": "Every second request waits 30 s for a connection.",
        "metadata": {"priority": "High"},
    },
    {"_id": "T-2", "title": "Log files fill the disk", "text": "Rotation is off.", "metadata": {"priority": "Low"}},
    {"_id": "T-3", "title": "No database after a failover", "text": "A timeout.", "metadata": {"priority": "High"}},
]


@pytest.fixture
def variables(own_home: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a page: the module's server, a tenant of its own, nothing else configured."""
    for name in [name for name in os.environ if name.startswith(("RETRIEVAL_", "OPENAI_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("RETRIEVAL_HOME", str(own_home))
    monkeypatch.setenv("RETRIEVAL_EMBEDDER", "hashing")
    monkeypatch.setenv("RETRIEVAL_TENANT", request.node.name)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(ROOT)


def with_blocks(language: str) -> list[Path]:
    """The pages that have blocks in that language."""
    return [page for page in PAGES if blocks(page, language)]


MEASURED = set[str]()
"""Lines that measured on data of the repository's, and need not do so again: they change nothing, and take longest."""


def is_done(line: str) -> bool:
    """Whether the line has measured before what it would measure."""
    if (
        not line.startswith(("retrieval evaluate ", "retrieval tune "))
        or "--apply" in line
        or "examples/data" not in line
    ):
        return False
    done = line in MEASURED
    MEASURED.add(line)
    return done


def run_python(block: Block, names: dict[str, Any]) -> None:
    """Run a block as a notebook's cell would."""
    code = compile(block.text, str(block), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    pending = eval(code, names)  # noqa: S307 - the repository's own pages
    if inspect.iscoroutine(pending):
        asyncio.run(pending)


@pytest.mark.usefixtures("variables")
@pytest.mark.parametrize("page", with_blocks("python"), ids=lambda page: page.stem)
def test_every_python_block_runs(page: Path) -> None:
    """What a reader copies works."""
    names: dict[str, Any] = {"items": ITEMS}
    for block in blocks(page, "python"):
        assert not block.not_run, f"{block}: a python block is always run"
        run_python(block, names)


@pytest.mark.usefixtures("variables")
@pytest.mark.parametrize("page", with_blocks("sh"), ids=lambda page: page.stem)
def test_every_command_runs(page: Path) -> None:
    """Each line that starts with the program's name ends well."""
    for block in blocks(page, "sh"):
        for line in block.text.splitlines():
            if block.not_run or not line.startswith("retrieval ") or is_done(line):
                continue
            arguments = shlex.split(line, comments=True)[1:]
            run = run_forked(arguments, folder=Path.cwd(), variables=os.environ, seconds=120)
            assert run.returncode == 0, f"{block}: {line}\n{run.stdout}{run.stderr}"


@pytest.mark.usefixtures("variables")
def test_the_readmes_example_prints_an_explained_hit(capsys: pytest.CaptureFixture[str]) -> None:
    """It prints the item, its score and the parts that add up to it."""
    run_python(blocks(ROOT / "README.md", "python")[0], {"items": ITEMS})

    key, score, total, *_ = capsys.readouterr().out.split()
    assert key == "T-1"
    assert float(score) == pytest.approx(float(total), abs=1e-5)
