#!/usr/bin/env python3
"""Write docs/reference/cli.md from the program's own help. With --check, only say whether it is current."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer

from retrieval.surfaces.cli.app import app
from retrieval.surfaces.cli.errors import EXIT_MEANINGS

NAME = "retrieval"

_HEAD = """# The command line

<!-- Written by scripts/cli_reference.py from the program's own help; change it there. -->

`retrieval` is the whole platform on the command line; [other surfaces](surfaces.md) offer the same.
This page is the output of `retrieval --help` and `retrieval COMMAND --help`.

- **Database**: `RETRIEVAL_DATABASE_URL`; without it an embedded PostgreSQL is created and used.
  [Settings](settings.md) lists every variable.
- **Tenant**: `--tenant NAME` before the command, else `RETRIEVAL_TENANT`, else `default`.
- **JSON**: every command takes `--json`. Standard output is then only JSON: one document, or one object per
  line for a sequence of results. Hints and errors go to standard error.
- **Colours and progress** appear only on a terminal. `NO_COLOR=1` turns colours off.
- **Completion** for bash, zsh, fish and PowerShell: `retrieval --install-completion`, then a new shell.
"""

_EXIT = """## Exit codes

| Code | Meaning |
|---|---|
{rows}

An error is one line on standard error that says what to do. The hooks `session-start` and `session-end` always end
with 0.
"""


def reference() -> str:
    """The page, in Markdown."""
    root = typer.main.get_command(app)
    codes = "\n".join(f"| {code} | {meaning} |" for code, meaning in EXIT_MEANINGS.items())
    sections = [f"## Before the command\n\n{_options(root.params)}\n", _EXIT.format(rows=codes)]
    for path, command in _commands(root, NAME):
        sections.append(_section(path, command))
    return "\n".join([_HEAD, _contents(root), *sections]).rstrip() + "\n"


def _commands(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every command below the group, in the order of its help, each group before its commands."""
    for name, command in _listed(group):
        yield f"{path} {name}", command
        yield from _commands(command, f"{path} {name}")


def _listed(group: Any) -> Iterator[tuple[str, Any]]:
    commands = getattr(group, "commands", {})
    if not commands:
        return
    for name in group.list_commands(typer.Context(group)):
        if not commands[name].hidden:
            yield name, commands[name]


def _contents(root: Any) -> str:
    """A table of contents by panel: each command with its first line."""
    panels: dict[str, list[str]] = {}
    for name, command in _listed(root):
        inner = ", ".join(f"[`{below}`](#{_anchor(f'{NAME} {name} {below}')})" for below, _ in _listed(command))
        line = f"| [`{name}`](#{_anchor(f'{NAME} {name}')}) | {_paragraphs(command)[0]}{f' {inner}' if inner else ''} |"
        panels.setdefault(str(command.rich_help_panel), []).append(line)
    rows = [
        f"### {panel}\n\n| Command | What it does |\n|---|---|\n" + "\n".join(lines) for panel, lines in panels.items()
    ]
    return "\n\n".join(["## Contents", *rows]) + "\n"


def _section(path: str, command: Any) -> str:
    """The section of a command: description, usage, options, examples."""
    parts = [f"## {path}", *_paragraphs(command)]
    usage = " ".join([path, *_usage(command)])
    parts.append(f"<!-- not run: how it is called -->\n```sh\n{usage}\n```")
    if command.params:
        parts.append(_options(command.params))
    if lines := _examples(command):
        parts.append("<!-- not run: an example by itself -->\n```sh\n" + "\n".join(lines) + "\n```")
    return "\n\n".join(part for part in parts if part) + "\n"


def _paragraphs(command: Any) -> list[str]:
    return [" ".join(part.split()) for part in inspect.cleandoc(command.help or "").split("\n\n")]


def _usage(command: Any) -> Iterator[str]:
    if any(_is_option(parameter) for parameter in command.params):
        yield "[OPTIONS]"
    for parameter in command.params:
        if not _is_option(parameter):
            name = _metavar(parameter)
            is_whole = name.startswith("[") and not name.endswith("]")  # the usage line marks optional arguments
            name = name if is_whole else name.strip("[]")
            shown = f"{name}..." if parameter.nargs == -1 else name
            yield shown if parameter.required or is_whole else f"[{shown}]"
    if getattr(command, "commands", None):
        yield "COMMAND"


def _options(parameters: Sequence[Any]) -> str:
    """A table of arguments and options, without those for help and completion, which every command has."""
    rows = [_row(parameter) for parameter in parameters if parameter.name != "help"]
    return "\n".join(["| Argument or option | What it says |", "|---|---|", *rows]) if rows else ""


def _row(parameter: Any) -> str:
    if not _is_option(parameter):
        return f"| `{_metavar(parameter)}` | {_help_of(parameter)} |"
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    value = "" if parameter.is_flag else f" `{_metavar(parameter)}`".replace("|", "\\|")
    return f"| {names}{value} | {_help_of(parameter)} |"


def _help_of(parameter: Any) -> str:
    """The help of a parameter, with its choices and its default."""
    text = " ".join((parameter.help or "").split()).replace("\\[", "[").replace("|", "\\|")
    kind = parameter.type_descriptor.annotation
    is_enum = isinstance(kind, type) and issubclass(kind, Enum)
    choices = [choice.value for choice in kind] if is_enum else get_args(kind) if get_origin(kind) is Literal else []
    if choices:
        text += f" One of {', '.join(f'`{choice}`' for choice in choices)}."
    default = getattr(parameter.default, "value", parameter.default)
    is_shown = default not in (None, "", False, True, (), []) and not callable(default)
    return f"{text} Default: `{default}`." if is_shown else text


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _is_option(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "option")


def _examples(command: Any) -> list[str]:
    lines = (command.epilog or "").replace("\\[", "[").split("\n\n")
    return [line for line in lines if f"{NAME} " in line]


def _anchor(heading: str) -> str:
    return heading.replace(" ", "-")


PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "cli.md"


def main() -> int:
    """The exit code: 1 if ``--check`` finds that the page differs from the program's help."""
    new_page = reference()
    if "--check" in sys.argv[1:]:
        if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == new_page:
            return 0
        print(f"{PAGE} differs from the program's help; run: python scripts/cli_reference.py", file=sys.stderr)
        return 1
    PAGE.write_text(new_page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
