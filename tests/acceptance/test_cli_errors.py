"""Everything that can be typed or configured wrongly is answered by one line and an exit code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.acceptance.conftest import ROOT, Program, program_in

UNKNOWN = "01890a5d-ac96-774b-bcce-b302099a8057"


@pytest.fixture(scope="module")
def ready(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The program with a collection ``notes`` and some files, which no mistake changes."""
    program = program_in(tmp_path_factory.mktemp("ready"), home)
    program.write("notes.jsonl", {"_id": "1", "text": "disk full", "priority": "High"})
    (program.folder / "notes.csv").write_text("key,text\n1,disk\n")
    program.succeeds("ingest", "notes", "notes.jsonl", "-q")
    return program


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("search", "nothing", "disk"), "there is no collection 'nothing'; there are: 'notes'"),
        (("feedback", "-c", "nothing", "1", "--helpful"), "there is no collection 'nothing'; there are: 'notes'"),
        (("collections", "remove", "nothing", "--yes"), "there is no collection 'nothing'; there are: 'notes'"),
        (("replay", UNKNOWN, "-c", "nothing"), "there is no collection 'nothing'; there are: 'notes'"),
        (("tickets", "search", "x", "--collection", "nothing"), "there is no collection 'nothing'; there are: 'notes'"),
        (("feedback", "-c", "notes", "1"), "--helpful, --not-helpful, --reward R"),
        (("search", "notes", ""), "the query is empty"),
        (("search", "notes", "disk", "--limit", "0"), "limit is 0; it must be a whole number from 1 to 1,000"),
        (("search", "notes", "disk", "--limit", "1001"), "limit is 1001"),
        (("search", "notes", "disk", "--legs", "bm25"), "there are: dense, lexical"),
        (("search", "notes", "disk", "--legs", ","), "names no leg"),
        (("search", "notes", "disk", "--where", "priority"), "write FIELD=VALUE"),
        (("search", "notes", "disk", "--where", "prioriti=High"), "did you mean 'priority'"),
        (("search", "notes", "disk", "--where", '{"priority"'), "not JSON"),
        (("ingest", "notes", "missing.jsonl"), "missing.jsonl: no such file"),
        (("ingest", "notes", "notes.jsonl", "missing.csv"), "missing.csv: no such file"),
        (("ingest", "notes", ".", "-f", "csv"), "is a directory"),
        (("ingest", "notes", "/"), "documents are called after their folder, and this one has no name"),
        (("ingest", "notes", "notes.csv"), "no column 'id'"),
        (("ingest", "notes", "notes.csv", "--map", "_id=ticket"), "no column 'ticket'"),
        (("ingest", "notes", "notes.csv", "--map", "_id"), "write FIELD=NAME"),
        (("ingest", "notes", "notes.jsonl", "--map", "_id=key"), "no 'key', which is mapped to '_id'"),
        (("ingest", "notes", "notes.jsonl", "--map", "txt=text"), "did you mean 'text'?"),
        (("ingest", "notes", "notes.jsonl", "--rejects", "x"), "--on-error skip"),
        (("ingest", "notes", "notes.jsonl", "--on-error", "skip", "--rejects", "notes.jsonl"), "files to ingest"),
        (("ingest", "", "notes.jsonl"), "a collection's name"),
        (("--tenant", "", "collections"), "tenant: a tenant's name has"),
        (("--tenant", "acme", "search", "notes", "x"), "make it with: retrieval --tenant acme ingest notes FILE"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_1(ready: Program, arguments: tuple[str, ...], reason: str) -> None:
    """The line is on standard error, and standard output is empty, even with ``--json``."""
    line = ready.fails(*arguments)
    assert line.startswith("error: ")
    assert reason in line


@pytest.mark.parametrize(
    "arguments",
    [
        ("serch",),
        ("search", "notes", "disk", "--bogus"),
        ("search", "notes", "disk", "--limit", "many"),
        ("search", "notes", "disk", "full"),
        ("ingest", "notes"),
        ("ingest", "notes", "notes.jsonl", "--on-error", "explode"),
        ("ingest", "notes", "notes.jsonl", "--format", "xml"),
        ("evaluate", "notes"),
        ("tickets", "search"),
        ("db", "sidegrade"),
        ("db", "downgrade"),
        ("--bogus",),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(program: Program, arguments: tuple[str, ...]) -> None:
    """It says where the help is."""
    line = program.fails(*arguments, code=2)
    assert line.startswith("error: ")
    assert "--help)" in line


@pytest.mark.parametrize("command", [("collections",), ("db", "status")])
@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"RETRIEVAL_DATABASE_URL": "postgresql://me:secret@127.0.0.1:1/x"}, "cannot reach PostgreSQL at 127.0.0.1:1"),
        (
            {"RETRIEVAL_DATABASE_URL": "mysql://me:secret@127.0.0.1/x"},
            "RETRIEVAL_DATABASE_URL: it must be a URL such as",
        ),
        ({"RETRIEVAL_POOL_SIZE": "0"}, "RETRIEVAL_POOL_SIZE: "),
        ({"RETRIEVAL_SCHEMA": "pg_mine"}, "RETRIEVAL_SCHEMA: 'pg_mine' belongs to PostgreSQL"),
        ({"RETRIEVAL_EMBEDDER": "magic"}, "RETRIEVAL_EMBEDDER: "),
        ({"RETRIEVAL_HOME": "/dev/null/x"}, "RETRIEVAL_HOME"),
    ],
)
def test_a_wrong_environment_is_one_line(
    program: Program, command: tuple[str, ...], variables: dict[str, str], reason: str
) -> None:
    """It names the variable or the server, and never a password."""
    line = program.using(**variables).fails(*command)
    assert reason in line
    assert "secret" not in line


def test_a_variable_that_is_not_a_setting_is_noted(ready: Program) -> None:
    """The note names the nearest setting; settings of tickets and of tests are known, and the command runs."""
    process = ready.using(RETRIEVAL_EMBEDER="none", RETRIEVAL_TICKETS_COLLECTION="x", RETRIEVAL_TEST_PARTS="4")(
        "collections"
    )
    assert process.returncode == 0
    assert (
        process.stderr == "note: RETRIEVAL_EMBEDER is not a setting, and is ignored; did you mean RETRIEVAL_EMBEDDER?\n"
    )


def test_every_documented_setting_is_known(program: Program) -> None:
    """None is noted as one that sets nothing, also those that have a second name."""
    page = (ROOT / "docs" / "reference" / "settings.md").read_text()
    documented = re.findall(r"^\| `(RETRIEVAL_[A-Z_]+)` \|", page, re.MULTILINE)
    assert "RETRIEVAL_OPENAI_API_KEY" in documented
    done = program.using(**dict.fromkeys([*documented, "RETRIEVAL_EMBEDER"], "x"))()
    assert done.stderr == "note: RETRIEVAL_EMBEDER is not a setting, and is ignored; did you mean RETRIEVAL_EMBEDDER?\n"


def test_a_traceback_is_shown_only_with_debug(ready: Program) -> None:
    """The error line is still the last line."""
    process = ready("--debug", "search", "notes", "")
    assert process.returncode == 1
    assert "Traceback" in process.stderr
    assert process.stderr.splitlines()[-1].startswith("error: the query is empty")


def test_a_fault_of_the_program_is_one_line_and_exit_code_70(program: Program) -> None:
    """The line names the type of the error; ``--debug`` shows more."""
    (program.folder / "sitecustomize.py").write_text(
        "import retrieval.surfaces.cli.commands.collections as command\ncommand.opened = None\n"
    )
    line = program.alone().using(PYTHONPATH=f"{program.folder}:{ROOT}").fails("collections", code=70)
    assert line.startswith("error: unexpected TypeError: ")
    assert "--debug" in line


def test_help_is_a_table_of_contents(program: Program) -> None:
    """It lists every command under its heading, then the exit codes; a call without arguments prints it too."""
    output = program.using(GITHUB_ACTIONS="true").succeeds("--help")
    headings = [output.index(heading) for heading in ("Store and find", "Measure and tune", "Database", "Exit codes")]
    assert headings == sorted(headings)
    assert all(f"│ {name} " in output for name in ("ingest", "search", "collections", "evaluate", "tune", "db"))
    assert "\x1b" not in output
    assert program.succeeds() == output
    assert program.succeeds("-h") == program.succeeds("--help")


def test_the_version_is_printed(program: Program) -> None:
    """Before anything else is looked at."""
    assert program.succeeds("--version").startswith("retrieval")


def test_help_needs_nothing_heavy(program: Program) -> None:
    """Neither the database driver nor numerics are loaded before a command runs, nor another command for its help."""
    (program.folder / "sitecustomize.py").write_text(
        "import atexit, sys\n"
        "heavy = {'psycopg', 'sqlalchemy', 'numpy', 'openai', 'alembic', 'ir_measures'}\n"
        "heavy |= {'retrieval.surfaces.cli.commands.access'} if 'search' in sys.argv else set()\n"
        "atexit.register(lambda: print(sorted(heavy & set(sys.modules)), file=sys.stderr))\n"
    )
    for command in (["--help"], ["search", "--help"]):
        assert program.alone().using(PYTHONPATH=f"{program.folder}:{ROOT}")(*command).stderr == "[]\n"
