"""The README and the documentation, executed as they are printed.

Every ``python`` block runs, top-level ``await`` included, with ``items`` at hand: three tickets as dictionaries.
In ``sh`` blocks, the lines that start with ``retrieval`` run in order, in a folder with a part of the sample tickets.
The blocks of a page share one tenant, which no other page sees, on an embedded server with the hashing embedder.

A shell block that cannot run by itself has a comment of its own on the line above its fence, with the reason::

    <!-- not run: needs a server -->
"""

from __future__ import annotations

import ast
import asyncio
import gzip
import inspect
import json
import os
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.forked_program import run_forked
from tests.support.markdown import Block, blocks, pages

ROOT = Path(__file__).parents[2]
PAGES = pages(ROOT)
TICKETS = Path("examples/data/tickets")

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


SEARCHED, ASKED = 60, 12
"""How many of the sample's tickets and judged queries: most pages begin by storing them."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands run: the sample is smaller, and every query has what was judged relevant to it."""
    place = tmp_path_factory.mktemp("pages")
    shutil.copytree(ROOT / TICKETS, place / TICKETS)
    asked = (ROOT / TICKETS / "queries.jsonl").read_text(encoding="utf-8").splitlines()[:ASKED]
    (place / TICKETS / "queries.jsonl").write_text("\n".join(asked), encoding="utf-8")
    queries = {json.loads(line)["_id"] for line in asked}
    heading, *judged = (ROOT / TICKETS / "qrels.tsv").read_text(encoding="utf-8").splitlines()
    judged = [line for line in judged if line.split("\t")[0] in queries]
    (place / TICKETS / "qrels.tsv").write_text("\n".join([heading, *judged]), encoding="utf-8")
    relevant = {line.split("\t")[1] for line in judged}
    with gzip.open(ROOT / TICKETS / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        kept = [line for n, line in enumerate(lines) if n < SEARCHED or json.loads(line)["_id"] in relevant]
    (place / TICKETS / "corpus.jsonl.gz").write_bytes(gzip.compress("".join(kept).encode()))
    return place


@pytest.fixture
def variables(own_home: Path, folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a page: the module's server, a tenant of its own, nothing else configured."""
    for name in [name for name in os.environ if name.startswith(("RETRIEVAL_", "OPENAI_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("RETRIEVAL_HOME", str(own_home))
    monkeypatch.setenv("RETRIEVAL_EMBEDDER", "hashing")
    monkeypatch.setenv("RETRIEVAL_TENANT", request.node.name)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(folder)


def with_blocks(language: str) -> list[Path]:
    """The pages that have blocks in that language."""
    return [page for page in PAGES if blocks(page, language)]


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
            if block.not_run or not line.startswith("retrieval "):
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
