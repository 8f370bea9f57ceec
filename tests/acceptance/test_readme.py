"""The README and the documentation, executed as they are printed.

Every ``python`` block runs, top-level ``await`` included, with ``items`` at hand: three tickets as dictionaries. Of the
pages for newcomers each block runs with nothing at hand, and the first is a program: a file in an empty folder.
In ``sh`` blocks, the lines that start with ``retrieval`` run in order, in a folder with a part of the sample tickets
and the pages of ``docs/concepts``.
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
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from retrieval.sync import connect
from tests.support.forked_program import run_forked
from tests.support.markdown import Block, blocks, pages

ROOT = Path(__file__).parents[2]
PAGES = pages(ROOT)
TICKETS = Path("examples/data/tickets")

FIRST_PAGES = [ROOT / "README.md", ROOT / "docs" / "getting-started.md"]
"""The pages that a newcomer reads and copies from."""
RECIPES = ROOT / "docs" / "how-to" / "recipes.md"
FASTAPI, DJANGO = "FastAPI(", "JsonResponse("
"""By these the recipes of applications are known: each runs in a process of its own, for Django leaves traces."""

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
"""The number of the sample's tickets and judged queries; most pages begin by storing them."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder for the commands: the sample is smaller, and every query has its relevant items."""
    place = tmp_path_factory.mktemp("pages")
    shutil.copytree(ROOT / TICKETS, place / TICKETS)
    shutil.copytree(ROOT / "docs" / "concepts", place / "docs" / "concepts")
    query_lines = (ROOT / TICKETS / "queries.jsonl").read_text(encoding="utf-8").splitlines()[:ASKED]
    (place / TICKETS / "queries.jsonl").write_text("\n".join(query_lines), encoding="utf-8")
    queries = {json.loads(line)["_id"] for line in query_lines}
    heading, *judged = (ROOT / TICKETS / "qrels.tsv").read_text(encoding="utf-8").splitlines()
    judged = [line for line in judged if line.split("\t")[0] in queries]
    (place / TICKETS / "qrels.tsv").write_text("\n".join([heading, *judged]), encoding="utf-8")
    relevant = {line.split("\t")[1] for line in judged}
    with gzip.open(ROOT / TICKETS / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        sample = [line for n, line in enumerate(lines) if n < SEARCHED or json.loads(line)["_id"] in relevant]
    (place / TICKETS / "corpus.jsonl.gz").write_bytes(gzip.compress("".join(sample).encode()))
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


def run_python(block: Block, names: dict[str, Any], runner: asyncio.Runner) -> None:
    """Run a block as a notebook's cell would, on the loop of all its cells."""
    code = compile(block.text, str(block), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    pending = eval(code, names)  # noqa: S307 - the repository's own pages
    if inspect.iscoroutine(pending):
        runner.run(pending)


@pytest.mark.usefixtures("variables")
@pytest.mark.parametrize("page", with_blocks("python"), ids=lambda page: page.stem)
def test_every_python_block_runs(page: Path) -> None:
    """Every block that a reader may copy works."""
    names: dict[str, Any] = {"items": ITEMS}
    with asyncio.Runner() as runner:
        for block in blocks(page, "python"):
            assert not block.not_run, f"{block}: a python block is always run"
            if page == RECIPES and any(sign in block.text for sign in (FASTAPI, DJANGO)):
                continue
            run_python(block, {} if page in FIRST_PAGES else names, runner)


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
@pytest.mark.parametrize("page", FIRST_PAGES, ids=lambda page: page.stem)
def test_the_first_code_is_a_program(page: Path, tmp_path: Path) -> None:
    """Copied into an empty folder and run with the default embedder, it finds its tickets.

    The README shows its output, except for the figures, which depend on the machine's arithmetic.
    """
    run = run_program(blocks(page, "python")[0].text, tmp_path)

    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("1")
    outputs = [without_figures(block.text) for block in blocks(page, "")]
    assert page.stem != "README" or without_figures(run.stdout) in outputs


@pytest.mark.usefixtures("variables")
def test_the_recipe_for_fastapi_answers(tmp_path: Path) -> None:
    """Within the lifespan that the recipe gives the application."""
    store_a_ticket()
    script = """
from fastapi.testclient import TestClient
with TestClient(app) as client:
    print(client.get("/search", params={"q": "printer"}).text)
    print(client.get("/search", params={"q": ""}).status_code)
"""
    run = run_program(recipe(FASTAPI).text + script, tmp_path)

    assert (run.returncode, run.stderr) == (0, "")
    hits, refused = run.stdout.splitlines()
    assert (json.loads(hits)[0]["id"], refused) == ("T-9", "422")


@pytest.mark.usefixtures("variables")
def test_the_recipe_for_django_answers(tmp_path: Path) -> None:
    """As a view: a request in, JSON out. The end of the process closes the platform."""
    store_a_ticket()
    script = """
from django.conf import settings
from django.test import RequestFactory
settings.configure(ALLOWED_HOSTS=["testserver"])
print(search(RequestFactory().get("/search", {"q": "printer"})).content.decode())
print(search(RequestFactory().get("/search", {"q": ""})).status_code)
"""
    run = run_program(recipe(DJANGO).text + script, tmp_path)

    assert (run.returncode, run.stderr) == (0, "")
    hits, refused = run.stdout.splitlines()
    assert (json.loads(hits)["hits"][0]["id"], refused) == ("T-9", "422")


def recipe(sign: str) -> Block:
    """The recipe that holds this piece of code."""
    return next(block for block in blocks(RECIPES, "python") if sign in block.text)


def store_a_ticket() -> None:
    """Store the ticket that the recipes search for."""
    with connect() as platform:
        platform.collection("tickets").add([{"id": "T-9", "title": "Printer offline"}])


def run_program(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The finished program; nothing is configured but where the data lie and whose they are."""
    (folder / "first.py").write_text(text, encoding="utf-8")
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "RETRIEVAL_EMBEDDER")}
    return subprocess.run(
        [sys.executable, "first.py"],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def without_figures(text: str) -> str:
    """The text with each number that has a point as the same sign."""
    return re.sub(r"\d+\.\d+", "#", text)
