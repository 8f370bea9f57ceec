"""The help texts are the command line's reference."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from retrieval.surfaces.cli.app import app


def commands() -> Iterator[tuple[str, Any]]:
    """Every command and group with its path; not the second names that the help leaves out."""
    waiting = [("retrieval", typer.main.get_command(app))]
    while waiting:
        path, command = waiting.pop()
        yield path, command
        below = getattr(command, "commands", {}).items()
        waiting += [(f"{path} {name}", inner) for name, inner in below if not inner.hidden]


ALL = dict(commands())


def examples_of(command: Any) -> list[str]:
    """The lines of its example."""
    return [line for line in (command.epilog or "").split("\n\n") if "retrieval " in line]


def does_something(path: str) -> bool:
    """Whether the command does more than list those below it."""
    return not hasattr(ALL[path], "commands") or path == "retrieval collections"


@pytest.mark.parametrize("group", [path.removesuffix(" remove") for path in ALL if path.endswith(" remove")])
def test_delete_is_another_name_of_remove(group: str) -> None:
    """Every group with `remove` has `delete`."""
    commands = ALL[group].commands

    assert commands["delete"].hidden
    assert inspect.getdoc(commands["delete"].callback) == inspect.getdoc(commands["remove"].callback)


@pytest.mark.parametrize("path", ALL)
def test_every_command_has_a_description_and_an_example(path: str) -> None:
    """A sentence, and a line to copy that calls this very command (or, of a group, one of its own)."""
    command = ALL[path]
    assert inspect.cleandoc(command.help).split("\n")[0].endswith(".")
    assert any(path in example for example in examples_of(command))


@pytest.mark.parametrize("path", [path for path in ALL if does_something(path)])
def test_every_command_can_answer_in_json(path: str) -> None:
    """A program reads what a person does."""
    assert "--json" in {name for param in ALL[path].params for name in param.opts}


def test_the_contents_are_in_the_order_of_tasks() -> None:
    """Each command is in a panel, and a panel's commands are consecutive."""
    root = ALL["retrieval"]
    panels = [root.commands[name].rich_help_panel for name in root.list_commands(typer.Context(root))]
    assert [panel for panel, _ in groupby(panels)] == [
        *("Store and find", "Serve", "Learn", "Measure and tune", "Run and maintain", "Database")
    ]


@pytest.mark.parametrize("path", ALL)
def test_every_option_is_described(path: str) -> None:
    """This includes typer's own options."""
    for parameter in ALL[path].params:
        assert getattr(parameter, "help", None), f"{path}: {parameter.name}"


@pytest.mark.parametrize("path", ALL)
def test_flags_are_shown_without_a_type(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """They take no value, `--help` included."""
    shown = ALL[path].get_help(typer.Context(ALL[path], info_name=path)) + capsys.readouterr().out
    assert "--help" in shown
    assert "<bool>" not in shown


@pytest.mark.parametrize("example", sorted({line for command in ALL.values() for line in examples_of(command)}))
def test_examples_can_be_typed(example: str) -> None:
    """The parser takes them, down to the last option."""
    words = shlex.split(re.sub(r"^\w+=\S+ | > .*$", "", example).replace("\\[", "["))
    command, context = ALL[words[0]], None
    while words:
        context = command.make_context(words[0], words[1:], parent=context)
        rest = [*getattr(context, "_protected_args", []), *context.args]
        if not rest:
            break
        command, words = command.commands[rest[0]], rest
    assert not hasattr(command, "commands")


@pytest.mark.parametrize("path", ALL)
def test_paragraphs_of_help_fit_a_terminal(path: str) -> None:
    """Help keeps the line ends inside a paragraph, so longer lines would be broken twice."""
    first, *others = inspect.cleandoc(ALL[path].help).split("\n\n")
    assert "\n" not in first
    for paragraph in others:
        lines = paragraph.split("\n")
        assert len(lines) == 1 or max(map(len, lines)) <= 78


def test_the_version_ends_the_program() -> None:
    """A command after it does not run."""
    result = CliRunner().invoke(app, ["--version", "jobs", "run", "nosuch"])

    assert result.exit_code == 0
    assert result.output.startswith("retrieval")
