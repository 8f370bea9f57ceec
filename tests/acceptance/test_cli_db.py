"""``retrieval db`` on a server of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from retrieval.adapters.store.installation.checks import known_revisions
from tests.acceptance.conftest import Program, program_in

HEAD = max(known_revisions())


def test_the_schema_goes_up_down_and_up_again(program: Program) -> None:
    """The status reports the revision in words, in JSON and by its exit code."""
    program = program.using(RETRIEVAL_SCHEMA="up_and_down")
    process = program("db", "status")
    assert (process.returncode, process.stderr) == (1, "")
    assert "is not set up in this database; run: retrieval db upgrade" in process.stdout

    assert program.succeeds("db", "upgrade").endswith(f"schema 'up_and_down' is current (revision {HEAD})\n")
    status = program.json("db", "status")
    assert (status["current"], status["head"], status["is_current"]) == (HEAD, HEAD, True)

    assert "not set up" in program.succeeds("db", "downgrade", "base", "-y")
    process = program("db", "status", "--json")
    assert (process.returncode, json.loads(process.stdout)["current"]) == (1, None)
    program.succeeds("db", "upgrade", "head")


def test_an_administrator_reaches_the_embedded_server_by_the_line_of_the_status(program: Program) -> None:
    """And lets an analyst in, whose statements are printed only if asked for."""
    program.succeeds("db", "upgrade")
    line = re.search(r"for SQL, .*: psql '(.*)'", program.succeeds("db", "status"))
    assert line is not None
    with psycopg.connect(line[1], autocommit=True) as admin:
        admin.execute("CREATE ROLE ann_by_cli LOGIN")

    assert program.succeeds("analysts", "add", "ann_by_cli") == "ann_by_cli may read this tenant's figures\n"
    assert "GRANT" in program.succeeds("analysts", "add", "ann_by_cli", "--sql")
    assert "may no longer read this tenant's figures" in program.succeeds("analysts", "remove", "ann_by_cli")
    with psycopg.connect(line[1], autocommit=True) as admin:
        admin.execute("DROP ROLE ann_by_cli")


@pytest.mark.parametrize("arguments", [["--nope"], ["--nope", "base"], ["-x", "--yes"]])
def test_an_unknown_option_is_not_a_revision(program: Program, arguments: list[str]) -> None:
    """Its message says so before anything is asked or changed."""
    process = program("db", "downgrade", *arguments)
    assert process.returncode == 2
    assert f"No such option: {arguments[0]} (see: retrieval db downgrade --help)" in process.stderr


def test_data_is_not_destroyed_without_a_yes(program: Program) -> None:
    """Without a terminal, ``--yes`` has to confirm in advance."""
    program = program.using(RETRIEVAL_SCHEMA="kept")
    program.succeeds("db", "upgrade")
    assert "to go on, give --yes" in program.fails("db", "downgrade", "base", stdin="y\n")
    assert program.json("db", "status")["is_current"]


@pytest.mark.parametrize("revision", ["9999", ""])
def test_an_unknown_revision_is_refused(program: Program, revision: str) -> None:
    """With those there are, before anything is asked; a script may have set no name."""
    assert "there are base, 0001" in program.fails("db", "upgrade", revision)
    assert "there are base, 0001" in program.fails("db", "downgrade", revision)


def test_several_upgrades_at_once_wait_for_each_other(program: Program) -> None:
    """All of them succeed."""
    program = program.using(RETRIEVAL_SCHEMA="at_once")
    with ThreadPoolExecutor(3) as threads:
        for output in threads.map(lambda _: program.succeeds("db", "upgrade"), range(3)):
            assert "is current" in output


def test_the_sql_is_printed_and_nothing_else(program: Program) -> None:
    """Without a database, for the schema that is configured."""
    unreachable = program.using(RETRIEVAL_SCHEMA="for_the_dba", RETRIEVAL_DATABASE_URL="postgresql://127.0.0.1:1/x")
    text = unreachable.succeeds("db", "sql")
    assert text.startswith("-- ")
    assert 'CREATE SCHEMA IF NOT EXISTS "for_the_dba";' in text
    assert text.rstrip().endswith("COMMIT;")


def test_the_answer_no_on_a_terminal_keeps_the_data(program: Program) -> None:
    """The question is on standard error; the answer comes from the terminal."""
    program = program.using(RETRIEVAL_SCHEMA="asked")
    program.succeeds("db", "upgrade")
    script = (
        "import os, pty, sys\n"
        "answer = sys.argv.pop(1)\n"
        "pid, terminal = pty.fork()\n"
        "if pid == 0: os.execv(sys.argv[1], sys.argv[1:])\n"
        "shown = b''\n"
        "while b'revisions?' not in shown: shown += os.read(terminal, 1000)\n"
        "os.write(terminal, answer.encode() + b'\\n')\n"
        "try:\n"
        "    while os.read(terminal, 1000): pass\n"
        "except OSError: pass\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    codes = [
        subprocess.run(
            [sys.executable, "-c", script, answer, *program.command, "db", "downgrade", "base"],
            env=program.variables,
            cwd=program.folder,
            check=False,
            timeout=120,
        ).returncode
        for answer in ("n", "y")
    ]
    assert codes == [1, 0]
    assert program("db", "status").returncode == 1


def test_the_home_is_saved_destroyed_and_restored(own_home: Path, tmp_path: Path) -> None:
    """A search finds the same items afterwards; nothing is overwritten."""
    program, folder, home = program_in(tmp_path, own_home), tmp_path / "backup", own_home.parent / "restored"
    items = program.write("items.jsonl", *({"_id": str(n), "text": f"common word{n}"} for n in range(3)))
    program.succeeds("ingest", "docs", items, "--quiet")
    before = program.json("search", "docs", "word1")["hits"]

    saved = program.json("backup", folder)
    assert saved["folder"] == str(folder)
    assert "retrieval_app" in saved["roles"]
    assert "already exists; name a folder that does not" in program.fails("backup", folder)
    assert "none is overwritten" in program.fails("restore", folder)
    assert "is not a backup" in program.fails("restore", tmp_path)
    for command in ("backup", "restore"):
        assert "'' is not a path; name a file or a folder" in program.fails(command, "")

    again = program.using(RETRIEVAL_HOME=str(home))
    assert f"rows in {saved['tables']} tables" in again.succeeds("restore", folder)
    assert again.json("search", "docs", "word1")["hits"] == before
    assert "there is no database yet" in program.using(RETRIEVAL_HOME=str(tmp_path / "x")).fails(
        "backup", tmp_path / "y"
    )


def test_a_server_is_upgraded_from_an_older_version_alone(program: Program) -> None:
    """There is nothing to do here, and the message says so."""
    message = program.fails("db", "upgrade-server", "/usr/bin")
    assert re.search(r"was made by PostgreSQL (\d+), and \1 is installed: nothing to do", message)
    own = program.using(RETRIEVAL_DATABASE_URL="postgresql://127.0.0.1:1/x")
    assert "which its administrator upgrades" in own.fails("db", "upgrade-server", "/usr/bin")


def test_a_collection_moves_to_another_tenant(program: Program) -> None:
    """By a file, and by a pipe; the summary says what moved."""
    items = program.write("items.jsonl", *({"_id": str(n), "text": f"common word{n}"} for n in range(3)))
    program.succeeds("ingest", "docs", items, "--quiet")
    before = program.json("search", "docs", "word1")["hits"]
    assert program.succeeds("collections", "export", "docs", "docs.jsonl.gz").startswith(
        "exported docs: 3 items with 3 vectors, 5 rows in all to docs.jsonl.gz"
    )
    assert "already exists" in program.fails("collections", "export", "docs", "docs.jsonl.gz")
    assert "import under another name" in program.fails("collections", "import", "docs.jsonl.gz")
    assert "items of other files are stored by ingest" in program.fails("collections", "import", items)

    other = ("-t", f"{program.folder}-other")
    moved = program.json(*other, "collections", "import", "docs.jsonl.gz")
    assert (moved["items"], moved["vectors"], moved["rows"]["retrieval"]) == (3, 3, 1)
    assert program.json(*other, "search", "docs", "word1")["hits"] == before

    piped = program("collections", "export", "docs", "-", "--no-records")
    assert piped.returncode == 0
    assert "exported docs" in piped.stderr
    output = program.succeeds("collections", "import", "-", "--name", "copy", stdin=piped.stdout)
    assert output.startswith("imported copy: 3 items with 3 vectors")
    assert "learning starts from nothing" in output
