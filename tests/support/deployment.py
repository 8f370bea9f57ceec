"""Names that the files of a deployment may use: commands of the program and variables of its settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer
from pydantic import AliasChoices

from retrieval import Settings
from retrieval.surfaces.cli.app import app


def variable(name: str) -> str:
    """The environment variable of a setting."""
    alias = Settings.model_fields[name].validation_alias
    if isinstance(alias, AliasChoices):
        return str(alias.choices[0])
    return alias if isinstance(alias, str) else f"RETRIEVAL_{name.upper()}"


VARIABLES = frozenset(map(variable, Settings.model_fields))
"""The variables of every setting."""


def check_command(place: str, words: Sequence[str]) -> None:
    """Fail unless ``retrieval`` has this command with these options; ``place`` is the place of the reference."""
    assert words[0] == "retrieval", place
    command: Any = typer.main.get_command(app)
    rest = list(words[1:])
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    assert not getattr(command, "commands", {}), f"{place}: {words} is no command"
    # Parsed without running; an unknown option or an invalid value is an error.
    command.make_context(words[-1], rest, resilient_parsing=False)
