"""TOML of a stranger, parsed where that costs little: its cost grows with the square of a key's parts. Pure."""

from __future__ import annotations

from typing import Any

MOST_CHARACTERS = 64 * 1024
_MOST_STEPS = 500_000
"""About 50 ms: as many as 700 parts in one key, or 15 in the key of each of 2000 lines."""

_STEPS_PER_PART = 8


def parsed_toml(text: str) -> dict[str, Any]:
    """The tables. Raises ``ValueError`` for what is no TOML, or would take long."""
    import tomllib

    if len(text) > MOST_CHARACTERS or _steps(text) > _MOST_STEPS:
        raise ValueError("too much to be parsed at once")
    return tomllib.loads(text)


def _steps(text: str) -> int:
    """An upper bound of what the keys cost: each dot may be one of a key, and of the header of every line."""
    lines = text.split("\n")
    dots = [line.count(".") for line in lines]
    header = max((count for line, count in zip(lines, dots, strict=True) if line.lstrip().startswith("[")), default=0)
    return sum((header + count + 1) * (count + _STEPS_PER_PART) for count in dots)
