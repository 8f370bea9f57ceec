"""``retrieval session-start`` and ``session-end`` as an agent's hooks run them: quick, light, and never in the way."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from retrieval import Settings, connect
from retrieval.apps.principles import PrincipleStore
from tests.acceptance.conftest import ROOT, SECONDS, Program
from tests.support.markdown import blocks

HEAVY = {"alembic", "anyio", "openai", "procrastinate", "sqlalchemy"}


async def _fill(url: str, tenant: str) -> None:
    async with connect(url, settings=Settings(tenant=tenant, embedder="none")) as platform:
        store = await PrincipleStore.open(platform)
        await store.add_principle(
            "Keep state near its use", "Lift it late.\nNever twice.", ["react"], principle_id="state"
        )
        await store.add_principle("Bind parameters", "", ["sql"], principle_id="bind")
        await store.add_principle("Try this one", "", ["react"], principle_id="try", status="candidate")
        for _ in range(9):
            await store.record_usage("state")
            await store.record_usage("bind")


@pytest.fixture(scope="module")
def variables(database_url: str) -> dict[str, str]:
    """The environment of a tenant that has principles."""
    tenant = f"sessions-{uuid.uuid4()}"
    asyncio.run(_fill(database_url, tenant))
    return {
        "RETRIEVAL_DATABASE_URL": database_url,
        "RETRIEVAL_TENANT": tenant,
        "RETRIEVAL_EMBEDDER": "none",
        # These calls succeed on a slow machine too.
        "RETRIEVAL_SESSION_START_SECONDS": str(SECONDS),
    }


@pytest.fixture
def program(variables: dict[str, str], tmp_path: Path) -> Program:
    """The program in a repository with a manifest and a commit."""
    (tmp_path / "package.json").write_text('{"dependencies": {"react": "19"}}')
    author = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    for command in (("init", "-q"), ("add", "-A"), (*author, "commit", "-q", "-m", "Pagination of the catalogue")):
        subprocess.run(["git", *command], cwd=tmp_path, check=True, capture_output=True)  # noqa: S607
    return Program(tmp_path, variables)


def hint_of(program: Program, *arguments: str, stdin: str = "") -> str:
    """The one line of a hook without output, which exits with code 0."""
    process = program(*arguments, stdin=stdin)
    assert (process.returncode, process.stdout, process.stderr.count("\n")) == (0, "", 1), process
    return process.stderr


def test_a_session_is_given_what_fits_its_project(program: Program) -> None:
    """As its hook calls it: the words on standard input, the principles on standard output, and nothing else."""
    hook = {"session_id": "s-1", "cwd": str(program.folder), "hook_event_name": "SessionStart", "source": "startup"}
    output = program.alone().succeeds("session-start", "--limit", "3", "--explore=1", stdin=json.dumps(hook))
    listed = output.splitlines()[4:7]
    assert [line.partition(" · added by nobody named · ")[0] for line in listed] == [
        '- **[state]** "Keep state near its use": "Lift it late." [react]',
        '- **[bind]** "Bind parameters" [sql]',
        '- **[try]** (exploring) "Try this one" [react]',
    ]


def test_nothing_is_loaded_that_it_does_not_need(program: Program) -> None:
    """The driver, the settings and the arguments' parser, and nothing that composes statements."""
    process = program.using(PYTHONPROFILEIMPORTTIME="1").alone()("session-start")
    loaded = set(re.findall(r"\| +([\w.]+)$", process.stderr, re.MULTILINE))
    assert "(exploring)" in process.stdout
    assert "psycopg" in loaded
    assert not {name.partition(".")[0] for name in loaded} & HEAVY


def test_a_start_computes_for_less_than_a_second(program: Program) -> None:
    """This covers the whole process and its git calls: the best of five runs, in processor seconds."""

    def seconds() -> float:
        used = os.times()
        return used.children_user + used.children_system

    spent = []
    for _ in range(5):
        before = seconds()
        program.succeeds("session-start")
        spent.append(seconds() - before)
    assert min(spent) < 1.0, spent


def test_json_has_the_whole_context(program: Program) -> None:
    """Options override the hook's input, and ``--tenant`` may precede the command."""
    tenant = program.environment["RETRIEVAL_TENANT"]
    arguments = ("--tenant", tenant, "session-start", "--format", "json", "--session", "mine", "--explore", "0")
    payload = json.loads(program.using(RETRIEVAL_TENANT="other").succeeds(*arguments, stdin='{"session_id": "theirs"}'))
    assert payload["session_id"] == "mine"
    assert payload["context"]["recent_commits"] == ["Pagination of the catalogue"]
    assert payload["context"]["changed_files"] == ["package.json"]
    assert {"react", "frontend"} <= set(payload["context"]["project_tags"])
    assert payload["context"]["keywords"] == ["pagination", "catalogue"]
    assert [(principle["id"], principle["matching_tags"]) for principle in payload["principles"]] == [
        ("state", ["react"]),
        ("bind", []),
    ]
    assert payload["explored"] == []


def test_the_pages_hooks_run_as_they_are_pasted(program: Program, tmp_path: Path) -> None:
    """An agent gives each command to a shell, with its words on standard input, anywhere."""
    page = next(
        block for block in blocks(ROOT / "docs" / "how-to" / "principles.md", "json") if "SessionStart" in block.text
    )
    installed = tmp_path / "the checkout" / "retrieval"
    installed.parent.mkdir()
    installed.write_text(f'#!/bin/sh\nexec {sys.executable} -m retrieval.surfaces.cli "$@"\n')
    installed.chmod(0o755)
    outputs = {}
    for event, hooks in json.loads(page.text)["hooks"].items():
        hook, words = hooks[0]["hooks"][0], tmp_path / "words"
        words.write_text(json.dumps({"session_id": "pasted", "cwd": str(program.folder), "hook_event_name": event}))
        command = hook["command"].replace("/path/to/the/checkout/.venv/bin/retrieval", shlex.quote(str(installed)))
        with words.open() as stdin:
            process = subprocess.run(
                ["/bin/sh", "-c", command],
                stdin=stdin,
                env=program.variables,
                cwd="/",
                capture_output=True,
                text=True,
                check=True,
                timeout=SECONDS,
            )
        outputs[event] = (process.stdout, process.stderr)
        assert hook["timeout"] > Settings().session_start_seconds
    assert "**[state]**" in outputs["SessionStart"][0]
    assert "Session pasted." in outputs["SessionStart"][0]
    assert (outputs["SessionStart"][1], outputs["SessionEnd"]) == ("", ("", ""))


def test_the_tags_of_a_session_influence_the_next(program: Program) -> None:
    """The end stores a trace with the session's tags; tags of failed sessions do not count."""
    assert program.succeeds("session-end", "--session", "s-1", "--tags", "observability", stdin="{}") == ""
    assert program.succeeds("session-end", "--session", "s-2", "--outcome", "failure", "--tags", "go") == ""
    payload = json.loads(program.succeeds("session-start", "--format=json"))
    assert {"observability", "javascript"} <= set(payload["context"]["recent_session_tags"])
    assert "go" not in payload["context"]["recent_session_tags"]


@pytest.fixture
def silent_server() -> Iterator[str]:
    """The URL of a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"postgresql://me:secret@127.0.0.1:{listener.getsockname()[1]}/shop"


@pytest.mark.parametrize("command", ["session-start", "session-end"])
def test_a_database_that_does_not_answer_is_not_waited_for(program: Program, silent_server: str, command: str) -> None:
    """The command has a deadline; the hint names the setting that extends it."""
    waiting = program.using(RETRIEVAL_DATABASE_URL=silent_server, RETRIEVAL_SESSION_START_SECONDS="0.2")
    line = hint_of(waiting, command)
    assert line.startswith(f"retrieval {command}: ")
    assert "secret" not in line


@pytest.mark.parametrize(
    ("arguments", "changed", "reason"),
    [
        (("session-start", "--bogus"), {}, "No such option: --bogus (see: retrieval session-start --help)"),
        (("-tnobody", "session-start"), {}, "collection 'principles' does not exist; add"),
        (("session-end", "--outcome", "meh"), {}, "'success', 'failure'"),
        (
            ("session-end", "--cwd", "/nowhere/at/all", "--session", "s"),
            {},
            "not a folder, and no tags are given; nothing",
        ),
        (("--bogus", "session-start"), {}, "No such option: --bogus (see: retrieval --help)"),
        (("session-start",), {"RETRIEVAL_SCHEMA": 'a"b'}, "run: retrieval db upgrade"),
        (("session-start", "--collection", "none"), {}, "collection 'none' does not exist; add a principle: see docs"),
        (("session-start",), {"RETRIEVAL_TENANT": "nobody"}, "collection 'principles' does not exist"),
        (("session-start",), {"RETRIEVAL_SCHEMA": "other"}, "run: retrieval db upgrade"),
        (("session-start",), {"RETRIEVAL_DATABASE_URL": "postgresql://me:secret@127.0.0.1:1/x"}, "cannot reach"),
        (("session-end",), {"RETRIEVAL_DATABASE_URL": "postgresql://me:secret@127.0.0.1:1/x"}, "cannot reach"),
        (("session-start",), {"RETRIEVAL_DATABASE_URL": "mysql://me:secret@db"}, "RETRIEVAL_DATABASE_URL: "),
        (("session-start",), {"RETRIEVAL_SESSION_START_SECONDS": "0"}, "RETRIEVAL_SESSION_START_SECONDS: "),
    ],
)
def test_an_error_is_a_hint(program: Program, arguments: tuple[str, ...], changed: dict[str, str], reason: str) -> None:
    """One line on standard error, nothing on standard output, and exit code 0; wrong usage too."""
    line = hint_of(program.using(**changed), *arguments)
    assert reason in line
    assert "secret" not in line


@pytest.mark.parametrize("command", ["session-start", "session-end"])
def test_an_embedded_database_is_never_made(program: Program, tmp_path: Path, command: str) -> None:
    """Creating a database takes longer than a session may wait; the hint names the command."""
    inherited = {name: value for name, value in program.environment.items() if name != "RETRIEVAL_DATABASE_URL"}
    own = Program(program.folder, {**inherited, "RETRIEVAL_HOME": str(tmp_path / "home")})
    assert "make the embedded one with: retrieval db upgrade" in hint_of(own, command)
    assert not (tmp_path / "home").exists()


def test_a_session_starts_wherever_it_is(program: Program, tmp_path: Path) -> None:
    """Outside of a repository, with broken manifests, without git: silently; without its folder: with a hint."""
    broken = tmp_path / "broken"
    (broken / "package.json").mkdir(parents=True)
    (broken / "pyproject.toml").write_bytes(b"\xff\x00 = [")
    (broken / ".git").write_text("gitdir: nowhere")
    assert "**[state]**" in program.succeeds("session-start", "--cwd", str(broken))
    assert "**[state]**" in program.using(PATH=str(broken)).succeeds("session-start")
    done = program("session-start", "--cwd", str(tmp_path / "gone"))
    assert (done.returncode, "**[state]**" in done.stdout) == (0, True)
    assert done.stderr.endswith("gone' is not a folder; continuing without it\n")


def test_streams_that_are_closed_stop_nothing(program: Program) -> None:
    """Standard output and standard input may both be closed."""
    script = 'exec "$0" -m retrieval.surfaces.cli session-start <&- >&- 2>&-'
    process: Any = subprocess.run(
        ["/bin/sh", "-c", script, sys.executable],
        env=program.variables | {"PATH": os.environ["PATH"]},
        cwd=program.folder,
        capture_output=True,
        check=False,
        timeout=SECONDS,
    )
    assert (process.returncode, process.stdout, process.stderr) == (0, b"", b"")
