"""The worked example of docs/how-to/reembed.md, against an endpoint on this machine."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path

import pytest

from retrieval import Settings, connect
from tests.acceptance.conftest import ROOT, Program, program_in
from tests.support.markdown import blocks
from tests.support.openai_server import SPEECHES, OpenAIServer

PAGE = ROOT / "docs" / "how-to" / "reembed.md"
TOLD = "http://127.0.0.1:8080/v1"
WORDS = ("connection", "timeout", "login", "certificate", "disk", "report", "printer", "backup", "network", "password")
ASKED = WORDS[:3]


@pytest.fixture
def program(home: Path, tmp_path: Path) -> Program:
    """The program with 60 tickets in the local model's space."""
    local = program_in(tmp_path, home).using(RETRIEVAL_EMBEDDER="minilm")
    texts = [f"{first} {other} number {n}" for n, (first, other) in enumerate((a, b) for a in WORDS for b in WORDS[:6])]
    path = local.write("tickets.jsonl", *({"_id": f"T-{n}", "text": text} for n, text in enumerate(texts)))
    assert local("ingest", "tickets", path).returncode == 0
    return local


def commands(url: str) -> list[list[str]]:
    """The page's commands, each as arguments of the program."""
    lines = [line for block in blocks(PAGE, "sh") for line in block.text.splitlines()]
    assert lines[0] == f"export RETRIEVAL_EMBEDDER=openai-compatible:big@{TOLD}"
    named = f"openai-compatible:big@{url}"
    return [shlex.split(line.replace("$RETRIEVAL_EMBEDDER", named))[1:] for line in lines[1:]]


async def test_the_worked_example(program: Program) -> None:
    """The cost is shown before the start; the collection moves from 384 to 3,072 dimensions, back, and there again."""
    for word in ASKED:
        program.succeeds("search", "tickets", f"{word} number")
    async with OpenAIServer(speaks=SPEECHES["openai-compatible"], dimensions=3072) as server:
        moving = program.using(RETRIEVAL_EMBEDDER=f"openai-compatible:big@{server.url}")
        estimate, *rest = commands(f"{server.url}")
        estimated = await asyncio.to_thread(moving.succeeds, *estimate)
        assert "vector bytes" in estimated
        assert len([text for request in server.received for text in request.texts]) <= 1, (
            "only its dimensions were asked for"
        )
        assert [line.split()[-1] for line in estimated.splitlines() if line.strip().startswith("items")] == ["60"]
        answers = [await asyncio.to_thread(moving.succeeds, *arguments) for arguments in rest]
        outputs = dict(zip([arguments[-1] for arguments in rest], answers, strict=True))
        assert "ready" in answers[0]
        assert "overlap" in answers[0]
        assert "20,000" in answers[0]
        assert "switched" in outputs["switch"]
        assert "when asked" in answers[0]
        assert "connection timeout" in outputs["connection timeout"]
        assert "done" in outputs["run"]
        assert (await asyncio.to_thread(moving.json, "collections"))[0]["space"] == "openai-compatible/big (3072)"
        sent = [text for request in server.received for text in request.texts if "number" in text]
        assert len(sent) == len(set(sent)) == 60 + len(ASKED), "each text and each recorded question once"


async def test_a_run_beside_another_says_so(program: Program, home: Path) -> None:
    """It does nothing, and the state that it prints is the other's."""
    async with OpenAIServer(speaks=SPEECHES["openai-compatible"], dimensions=8) as server:
        space = f"openai-compatible:big@{server.url}"
        moving = program.using(RETRIEVAL_EMBEDDER=space)
        await asyncio.to_thread(moving.succeeds, "reembed", "tickets", "--to", space, "--background", "--yes")
        async with connect(
            settings=Settings(home=home, embedder="none", tenant=program.environment["RETRIEVAL_TENANT"])
        ) as platform:
            collection = await (await platform.collection("tickets", create=False)).refresh()
            async with platform.database.only_one(f"job reembed {collection.collection_id}"):
                beside = await asyncio.to_thread(moving, "reembed", "tickets", "run")
    assert "another process re-embeds tickets already" in beside.stderr
    assert ["pending", "60"] in [line.split() for line in beside.stdout.splitlines()]


def test_impossible_actions_are_refused(program: Program) -> None:
    """With what to do next."""
    assert "has no re-embedding; begin one with" in program.fails("reembed", "tickets")
    assert "set RETRIEVAL_EMBEDDER=openai:big@http://x/v1 wherever" in program.fails(
        "reembed", "tickets", "--to", "openai:big@http://x/v1", "--dry-run"
    )
    assert "is in the space minilm/all-MiniLM-L6-v2" in program.fails(
        "reembed", "tickets", "--to", "minilm", "--yes", "--json"
    )
    assert "There is no terminal to ask at" in program.fails("reembed", "tickets", "--to", "hashing")
    assert "there is no embedder 'nonesuch'" in program.fails("reembed", "tickets", "--to", "nonesuch")
