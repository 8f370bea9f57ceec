"""The Dockerfile and the Compose file as values, for the scripts and tests that run them without an engine."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
DOCKER = ROOT / "docker"

_REFERENCE = re.compile(r"\$\{(?P<name>[A-Z_]+)(?:(?P<kind>:[?-])(?P<text>[^}]*))?\}")


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction of the Dockerfile."""

    stage: int
    """The number of the stage, counted from 0."""
    name: str
    arguments: str


def steps() -> list[Step]:
    """The Dockerfile's instructions in order, continued lines joined."""
    text = re.sub(r"(?m)^#.*\n", "", (DOCKER / "Dockerfile").read_text(encoding="utf-8"))
    instructions: list[Step] = []
    stage = -1
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        if line.strip():
            name, arguments = line.split(maxsplit=1)
            stage += name == "FROM"
            instructions.append(Step(stage, name, arguments))
    return instructions


def base_python() -> str:
    """The command of the base image's Python: ``python3.12`` for ``FROM python:3.12-slim``."""
    base = next(step.arguments for step in steps() if step.name == "FROM")
    return "python" + base.removeprefix("python:").partition("-")[0]


def let_into_the_build() -> set[str]:
    """The paths of the repository that the ignore file admits to the build."""
    lines = (DOCKER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    return {line.removeprefix("!") for line in lines if line.startswith("!")}


def compose(variables: Mapping[str, str] | None = None, name: str = "compose.yaml") -> dict[str, Any]:
    """The Compose file of that name, merged keys resolved; with ``variables``, its references are replaced too.

    Raises ``KeyError`` for a required reference without a value.
    """
    loaded: dict[str, Any] = yaml.safe_load((DOCKER / name).read_text(encoding="utf-8"))
    return loaded if variables is None else _replace_references(loaded, variables)


def command_of(service: Mapping[str, Any]) -> list[str]:
    """The command of a service that runs the platform's image: the image's entry point with the service's arguments."""
    entry = next(step.arguments for step in steps() if step.name == "ENTRYPOINT")
    return [*json.loads(entry), *service.get("command", [])]


def check_of(service: Mapping[str, Any]) -> list[str]:
    """The command of a service's health check: its own, or else the image's."""
    test: list[str] = service.get("healthcheck", {}).get("test", [])
    if not test:
        arguments = next(step.arguments for step in steps() if step.name == "HEALTHCHECK")
        test = ["CMD", *json.loads(arguments.partition(" CMD ")[2])]
    return test[1:] if test[0] == "CMD" else ["sh", "-c", test[1]]


def _replace_references(value: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _replace_references(inner, variables) for name, inner in value.items()}
    if isinstance(value, list):
        return [_replace_references(inner, variables) for inner in value]
    return _REFERENCE.sub(lambda match: _value(match, variables), value) if isinstance(value, str) else value


def _value(match: re.Match[str], variables: Mapping[str, str]) -> str:
    text = variables.get(match["name"], "")
    if text or match["kind"] == ":-":
        return text or match["text"]
    raise KeyError(match["name"])
