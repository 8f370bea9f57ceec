"""Every surface has the same calls: the page that compares them is complete and correct."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import BaseModel

import retrieval.sync
from retrieval import Collection, Context, Platform, Settings
from retrieval.apps.tickets import PreviewConfig, RetrievalRequest, RetrievalService
from retrieval.surfaces.cli.app import app
from retrieval.surfaces.http.routes.profiles import PreviewRequest
from retrieval.surfaces.http.routes.search import BatchRequest, SearchBody
from retrieval.surfaces.http.routes.tickets import TicketPreviewRequest
from retrieval.surfaces.mcp.items import ItemTools
from retrieval.surfaces.mcp.memories import MemoryTools
from retrieval.surfaces.mcp.principles import PrincipleTools
from retrieval.surfaces.mcp.served import EVERY_TOOL, Offer, Served
from retrieval.sync.mirror import Mirror
from tests.support.serving import description

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "surfaces.md"
PYTHON, HTTP, COMMANDS, LANGCHAIN = range(4)

NO_DOORS = {"refresh"}
"""Public for the parts of the platform that keep a collection."""

ASKED: list[tuple[Callable[..., Any], type[BaseModel], str | None]] = [
    (Collection.search, SearchBody, "search"),
    (Collection.search_each, BatchRequest, None),
    (Collection.preview, PreviewRequest, "profiles preview"),
    (RetrievalService.process, RetrievalRequest, "tickets search"),
    (RetrievalService.preview_search, TicketPreviewRequest, "tickets preview"),
]
"""Calls, each with the HTTP model and the command that correspond to it."""

IN_PARTS: dict[str, type] = {"context": Context, "request": RetrievalRequest, "config": PreviewConfig}
"""A value of Python's that other doors take part by part."""

SPELLED = {"plain": "syntax", "profile of profiles preview": "profiles"}
"""Other names of a command's options: an option turns syntax off, and repeated options are in the singular."""

OF_A_DOOR = {"collection", "explain", "as_json", "help"}
"""Options for the target and for the output; in Python the object and the result have these roles."""


def rows() -> list[tuple[str, list[str]]]:
    """The subject of each row, with its four cells."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [(what.lstrip("| "), rest) for what, *rest in cells if what.lstrip("| ") != "What"]


def named(column: int) -> list[str]:
    """Every name of a column, once."""
    names = (name for _, cells in rows() if not cells[column].startswith("–") for name in names_in(cells[column]))
    return list(dict.fromkeys(names))


def names_in(cell: str) -> list[str]:
    """The names between the cell's backticks."""
    return re.findall(r"`([^`]+)`", cell)


def methods(cls: type) -> set[str]:
    """The public methods of a class, its bases' among them."""
    return {name for name, _ in inspect.getmembers(cls, inspect.isfunction) if not name.startswith("_")}


def mirrored() -> dict[str, type]:
    """The classes of the sync package, by the names of the async ones."""
    public = [getattr(retrieval.sync, name) for name in retrieval.sync.__all__]
    mirrors = (mirror for mirror in public if isinstance(mirror, type) and issubclass(mirror, Mirror))
    return {mirror.__name__.removeprefix("Sync"): mirror for mirror in mirrors}


def operations() -> set[str]:
    """The service's operations, as ``GET /v1/collections``."""
    paths = description()["paths"]
    return {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}


def commands(group: Any = None, path: str = "retrieval") -> set[str]:
    """The commands that do something, by their path."""
    group = typer.main.get_command(app) if group is None else group
    below = getattr(group, "commands", {})
    paths = {command for name, inner in below.items() for command in commands(inner, f"{path} {name}")}
    return paths | ({path} if not below or path == "retrieval collections" else set())


@pytest.mark.parametrize(("what", "cells"), rows(), ids=lambda value: value if isinstance(value, str) else "")
def test_each_cell_names_a_call_or_says_why_there_is_none(what: str, cells: list[str]) -> None:
    """No cell is left empty."""
    assert len(cells) == 4, what
    for cell in cells:
        assert re.fullmatch(r"– \S.*|(`[^`]+`, )*`[^`]+`", cell), f"{what}: {cell}"


def test_each_python_name_exists_with_and_without_await() -> None:
    """The sync door has the same methods."""
    doors = mirrored()
    for name in named(PYTHON):
        cls, _, method = name.partition(".")
        assert hasattr(doors[cls], method), name
    assert {name.partition(".")[2] for name in named(PYTHON) if name.startswith("Platform.")} <= methods(Platform)
    assert {name.partition(".")[2] for name in named(PYTHON) if name.startswith("Collection.")} <= methods(Collection)


def test_each_name_of_langchain_exists() -> None:
    """A class, a method of one, or a function."""
    names = named(LANGCHAIN)
    assert names
    for name in names:
        target: Any = importlib.import_module("retrieval.surfaces.langchain")
        for part in name.split("."):
            target = getattr(target, part)


def test_no_call_of_the_platform_is_missing() -> None:
    """A new one needs its other doors, or a reason."""
    there = set(named(PYTHON))
    assert sorted(name for name in methods(Platform) - NO_DOORS if f"Platform.{name}" not in there) == []
    assert sorted(name for name in methods(Collection) - NO_DOORS if f"Collection.{name}" not in there) == []


def test_the_operations_are_those_of_the_service() -> None:
    """All operations are listed, and no others."""
    assert set(named(HTTP)) == operations()


def test_the_commands_are_those_of_the_program() -> None:
    """All commands are listed, and no others."""
    assert set(named(COMMANDS)) == commands()


async def test_the_tools_are_those_of_the_mcp_server() -> None:
    """Each with its scope, and a call that is there with and without ``await``."""
    lines = re.findall(r"^- `(\w+)` \(`(\w+)`\): `(\w+)\.(\w+)`$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    served = Served(Settings(), Offer(groups=EVERY_TOOL))
    groups = (PrincipleTools(served), ItemTools(served), MemoryTools(served))
    assert {name: scope for name, scope, _, _ in lines} == {
        tool.tool.name: tool.scope.value for group in groups for tool in group.as_tools()
    }
    doors = mirrored()
    assert not [f"{cls}.{method}" for _, _, cls, method in lines if not hasattr(doors[cls], method)]


def in_parts(names: Iterable[str]) -> set[str]:
    """The names, with those of a value's parts instead of its own name; without those of one surface only."""
    found = set()
    for name in names:
        whole: Any = IN_PARTS.get(name)
        found |= {name} if whole is None else set(getattr(whole, "model_fields", None) or whole.__slots__)
    return found - OF_A_DOOR


def options_of(path: str) -> set[str]:
    """The options of a command, by their names in Python."""
    command: Any = typer.main.get_command(app)
    for word in path.split():
        command = command.commands[word]
    names = (param.name for param in command.params)
    return {SPELLED.get(f"{name} of {path}", SPELLED.get(name, name)) for name in names}


@pytest.mark.parametrize(("call", "body", "command"), ASKED, ids=lambda value: getattr(value, "__qualname__", value))
def test_each_door_takes_what_the_call_takes(
    call: Callable[..., Any], body: type[BaseModel], command: str | None
) -> None:
    """By the same names; a new parameter needs its option and its field."""
    parameters = in_parts(name for name in inspect.signature(call).parameters if name != "self")
    assert in_parts(body.model_fields) == parameters
    if command is not None:
        assert in_parts(options_of(command)) == parameters
