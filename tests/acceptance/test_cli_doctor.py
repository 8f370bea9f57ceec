"""``retrieval doctor``, completion and colours, as a user has them."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from tests.acceptance.conftest import ROOT, Program


def test_the_doctor_finds_nothing_wrong_with_a_new_collection(program: Program) -> None:
    """In words, in JSON, for all collections or one; the exit code is 0."""
    program.write("items.jsonl", {"_id": "1", "text": "a cat"})
    program.succeeds("ingest", "tickets", "items.jsonl", "--quiet")
    output = program.succeeds("doctor")
    assert "✓ collection: 'tickets': 1 item, nothing waits" in output
    payload = program.json("doctor", "tickets")
    assert payload["is_sound"]
    assert {finding["check"] for finding in payload["findings"]} >= {
        "pgvector",
        "isolation",
        "indexes",
        "embedder",
        "collection",
    }
    assert "there is no collection 'nothing'" in program.fails("doctor", "nothing")


def test_a_database_that_does_not_answer_is_a_finding(program: Program) -> None:
    """The exit code says that something is wrong, and the line what to do."""
    process = program.using(RETRIEVAL_DATABASE_URL="postgresql://127.0.0.1:1/shop")("doctor")
    assert (process.returncode, process.stderr) == (1, "")
    assert "✗ platform: cannot reach PostgreSQL at 127.0.0.1:1" in process.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shells_completion_can_be_shown(program: Program, shell: str) -> None:
    """It names the program and how to ask it."""
    script = program.using(_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1").succeeds("--show-completion", shell)
    assert "_RETRIEVAL_COMPLETE" in script


def printed_on_a_terminal(**variables: str) -> bytes:
    """A red line as a terminal gets it."""
    code = "from retrieval.surfaces.cli.output import console; console().print('text', style='red')"
    outer, inner = pty.openpty()
    environment = {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "PATH": os.environ["PATH"], **variables}
    subprocess.run([sys.executable, "-c", code], stdout=inner, env=environment, check=True, timeout=60)
    os.close(inner)
    printed = os.read(outer, 1000)
    os.close(outer)
    return printed


def test_colours_appear_on_a_terminal_unless_they_are_not_wanted() -> None:
    """``NO_COLOR`` turns them off; elsewhere there are none."""
    assert b"\x1b[31m" in printed_on_a_terminal()
    assert printed_on_a_terminal(NO_COLOR="1").strip() == b"text"
