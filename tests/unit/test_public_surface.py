"""Public facts about the package: its names, and what importing it does not do."""

from __future__ import annotations

import inspect
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import retrieval

HEAVY = ("alembic", "onnxruntime", "openai", "pgvector", "psycopg", "rich", "sqlalchemy", "tokenizers", "typer")
"""Modules that importing the package alone does not need."""

ONLY_WHEN_NEEDED = ("alembic", "anyio", "onnxruntime", "openai", "rich", "tokenizers", "typer")
"""Modules that a program which opens a platform and searches does not need."""

NOT_FOR_A_SEARCH = ("doctor", "ingest", "learned_model", "logistic_fit", "replay", "scoring", "shrinkage_fit", "tune")
"""Modules that a plain search has no use for: those who call their methods load them."""


def test_the_public_names_are_sorted_and_few() -> None:
    """``__all__`` fits one look."""
    assert retrieval.__all__ == sorted(retrieval.__all__)
    assert len(retrieval.__all__) <= 16


def test_only_public_names_are_visible() -> None:
    """``dir`` shows only the public names; a star import does not replace Python's ``open``."""
    assert [name for name in dir(retrieval) if not name.startswith("_")] == sorted([*retrieval.__all__, "open"])


@pytest.mark.parametrize("name", [*retrieval.__all__, "open"])
def test_a_public_name_says_where_it_is_public_and_what_it_is(name: str) -> None:
    """Its module is the package, from which users import it, and it has a docstring."""
    value = getattr(retrieval, name)

    assert value.__module__ == "retrieval"
    assert inspect.getdoc(value)


def test_values_can_be_pickled_by_their_public_name() -> None:
    """Another process finds the class where the package shows it."""
    item = retrieval.Item(item_id="a", title="An item")

    assert b"cretrieval\nItem" in pickle.dumps(retrieval.Item, protocol=0)
    assert item.title == "An item"


def test_a_name_that_is_not_there_raises_attribute_error() -> None:
    """A misspelling raises Python's own error."""
    with pytest.raises(AttributeError, match="has no attribute 'conect'"):
        retrieval.conect  # type: ignore[attr-defined]  # noqa: B018


@pytest.fixture(scope="module")
def import_record() -> dict[str, Any]:
    """Modules and files that a process of its own, with warnings as errors, has loaded and opened after each step."""
    program = """
import json, sys, threading
opened = []
watched = {"socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.fork", "os.posix_spawn"}
sys.addaudithook(lambda event, arguments: opened.append(event) if event in watched else None)
import asyncio, warnings
import retrieval
imported = list(sys.modules)
from retrieval import connect
connect()
connected = list(sys.modules)
from retrieval import *
used = list(sys.modules)
warnings.simplefilter("ignore")
loop = getattr(asyncio.get_event_loop_policy()._local, "_loop", None)
state = {"opened": opened, "threads": threading.active_count(), "loop": loop}
print(json.dumps({"imported": imported, "connected": connected, "used": used, **state}))
"""
    run = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    payload: dict[str, Any] = json.loads(run.stdout)
    return payload


def test_importing_the_package_loads_nothing_heavy(import_record: dict[str, Any]) -> None:
    """The command line's help and completion do not wait for the database's libraries."""
    assert "retrieval" in import_record["imported"]
    assert set(HEAVY).isdisjoint(import_record["imported"])


def test_using_every_public_name_loads_no_optional_library(import_record: dict[str, Any]) -> None:
    """Models, migrations and the terminal's libraries wait until they are used."""
    assert "retrieval.platform" in import_record["used"]
    assert set(ONLY_WHEN_NEEDED).isdisjoint(import_record["used"])


def test_a_program_that_searches_does_not_wait_for_other_modules(import_record: dict[str, Any]) -> None:
    """Half of the package's modules are for jobs, learning and examinations."""
    ours = {name.rpartition(".")[2] for name in import_record["connected"] if name.startswith("retrieval.")}
    assert "search" in ours
    assert ours.isdisjoint(NOT_FOR_A_SEARCH)


def test_importing_and_connecting_open_nothing(import_record: dict[str, Any]) -> None:
    """No socket, no process, no thread and no event loop before a platform is entered."""
    assert (import_record["opened"], import_record["threads"], import_record["loop"]) == ([], 1, None)


def test_the_sync_module_is_imported_only_on_use(import_record: dict[str, Any]) -> None:
    """An asynchronous program never loads it."""
    assert "retrieval.sync" not in import_record["used"]


def test_the_command_line_starts_without_any_extra() -> None:
    """Nothing that only an extra installs is imported before a command needs it."""
    optional = ["fastapi", "langchain_core", "mcp", "onnxruntime", "pypdf", "tokenizers", "uvicorn", "uvloop"]
    program = f"""
import sys
sys.modules.update(dict.fromkeys({optional!r}))
from retrieval.surfaces.cli import main
sys.argv = ["retrieval", "--version"]
main()
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.strip()


FRONT = [retrieval.Collection, retrieval.Platform]

NOT_FOR_USERS = {"calls", "home_loop", "rewrite_cache", "bounds", "leg_rankings", "standings_where", "count_vectors"}
"""Attributes that applications and surfaces reach by ``handle_of`` and ``loop_of``."""

READING_ORDER = {
    retrieval.Collection: ["search", "add", "put", "get", "profiles", "retrievals", "standings", "make_filterable"],
    retrieval.Platform: ["open", "collection", "feedback", "recorded", "create_key", "statistics", "database"],
}


@pytest.mark.parametrize("cls", FRONT, ids=lambda cls: cls.__name__)
def test_a_class_of_the_front_door_is_whole_in_its_file(cls: type) -> None:
    """It inherits nothing, and its file has each of its methods; most of their text is docstrings."""
    source = Path(retrieval.__file__).parent / f"{cls.__name__.lower()}.py"
    assert cls.__bases__ == (object,)
    methods = [inspect.unwrap(value) for value in vars(cls).values() if inspect.isfunction(value)]
    assert {Path(method.__code__.co_filename) for method in methods} == {source}
    assert len(source.read_text(encoding="utf-8").splitlines()) <= 1000
    assert all(inspect.getdoc(value) for name, value in vars(cls).items() if not name.startswith("_"))


def test_a_collection_is_made_of_few_parts_and_has_what_users_call() -> None:
    """One value holds the parts, and the calls of the platform's own parts are elsewhere."""
    assert len(inspect.signature(retrieval.Collection).parameters) == 2
    public = {name for name in dir(retrieval.Collection) if not name.startswith("_")}
    assert public.isdisjoint(NOT_FOR_USERS)
    assert len(public) <= 51


@pytest.mark.parametrize("cls", FRONT, ids=lambda cls: cls.__name__)
def test_a_class_of_the_front_door_is_read_in_the_order_of_use(cls: type) -> None:
    """The reference page keeps it, and shows the types."""
    names = [name for name in vars(cls) if not name.startswith("_")]
    assert [name for name in names if name in READING_ORDER[cls]] == READING_ORDER[cls]
    assert names[0] == READING_ORDER[cls][0]
    options = Path(__file__).parents[2].joinpath("mkdocs.yml").read_text(encoding="utf-8")
    assert "members_order: source" in options
    assert "group_by_category: false" in options
    assert "show_signature_annotations: true" in options
