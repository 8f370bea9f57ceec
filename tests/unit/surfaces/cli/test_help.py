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


def test_every_command_has_a_description_and_an_example() -> None:
    """A sentence, and a line to copy that calls this very command (or, of a group, one of its own)."""
    for path, command in ALL.items():
        assert inspect.cleandoc(command.help).split("\n")[0].endswith("."), path
        assert any(path in example for example in examples_of(command)), path


def test_every_command_can_answer_in_json() -> None:
    """A program reads what a person does."""
    for path in filter(does_something, ALL):
        assert "--json" in {name for param in ALL[path].params for name in param.opts}, path


def test_the_contents_are_in_the_order_of_tasks() -> None:
    """Each command is in a panel, and a panel's commands are consecutive."""
    root = ALL["retrieval"]
    panels = [root.commands[name].rich_help_panel for name in root.list_commands(typer.Context(root))]
    assert [panel for panel, _ in groupby(panels)] == [
        *("Store and find", "Serve", "Learn", "Measure and tune", "Run and maintain", "Database")
    ]


def test_every_option_is_described() -> None:
    """This includes typer's own options."""
    for path, command in ALL.items():
        for parameter in command.params:
            assert getattr(parameter, "help", None), f"{path}: {parameter.name}"


def test_flags_are_shown_without_a_type(capsys: pytest.CaptureFixture[str]) -> None:
    """They take no value, `--help` included."""
    for path, command in ALL.items():
        shown = command.get_help(typer.Context(command, info_name=path)) + capsys.readouterr().out
        assert "--help" in shown, path
        assert "<bool>" not in shown, path


@pytest.mark.parametrize("path", ALL)
def test_examples_can_be_typed(path: str) -> None:
    """The parser takes them, down to the last option."""
    for example in examples_of(ALL[path]):
        parse(example)


def parse(example: str) -> None:
    """Let the parser of each command read its words."""
    words = shlex.split(re.sub(r"^\w+=\S+ | > .*$", "", example).replace("\\[", "["))
    command, context = ALL[words[0]], None
    while words:
        context = command.make_context(words[0], words[1:], parent=context)
        rest = [*getattr(context, "_protected_args", []), *context.args]
        if not rest:
            break
        command, words = command.commands[rest[0]], rest
    assert not hasattr(command, "commands")


def test_paragraphs_of_help_fit_a_terminal() -> None:
    """Help keeps the line ends inside a paragraph, so longer lines would be broken twice."""
    for path, command in ALL.items():
        first, *others = inspect.cleandoc(command.help).split("\n\n")
        assert "\n" not in first, path
        for paragraph in others:
            lines = paragraph.split("\n")
            assert len(lines) == 1 or max(map(len, lines)) <= 78, path


def test_the_version_ends_the_program() -> None:
    """A command after it does not run."""
    result = CliRunner().invoke(app, ["--version", "jobs", "run", "nosuch"])

    assert result.exit_code == 0
    assert result.output.startswith("retrieval")
