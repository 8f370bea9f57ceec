"""Presentation that the commands share: consoles, tables, JSON."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Container, Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text


def console(*, stderr: bool = False) -> Console:
    """Standard output or standard error; what is printed is text, never markup.

    Colours appear on a terminal alone, and not where ``NO_COLOR`` is set.
    """
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def print_json(value: Any) -> None:
    """Print the value as JSON on standard output: indented, in UTF-8 where the output can take it."""
    if sys.stdout is None:
        return
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(value, ensure_ascii=not is_utf8, indent=2, allow_nan=False))  # noqa: T201


def print_json_line(value: Any) -> None:
    """Print the value as JSON on a line of its own, at once."""
    if sys.stdout is not None:
        print(json.dumps(value, allow_nan=False), flush=True)  # noqa: T201


def plain(text: str) -> str:
    """The text without control characters: stored texts must not steer the reader's terminal."""
    return "".join(" " if char in "\t\n\r" else "" if _is_control(char) else char for char in text)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Container[str] = ()) -> Table:
    """A table without frames; columns of numbers, and those named in ``right``, are aligned on the right."""
    listed = [list(row) for row in rows]
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for place, name in enumerate(columns):
        numbers = name in right or (bool(listed) and all(_is_number(row[place]) for row in listed))
        made.add_column(name, justify="right" if numbers else "left", overflow="fold")
    for row in listed:
        made.add_row(*(Text(plain(cell_text(cell))) for cell in row))
    return made


def cell_text(value: object) -> str:
    """A value as it stands in a table: whole numbers with separators, fractions with four digits."""
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.4f}"
        case _:
            return str(value)


def count(number: int, noun: str) -> str:
    """``1 item``, ``1,200 items``, ``2 queries``, ``3 searches``."""
    return f"{number:,} {noun if number == 1 else _plural(noun)}"


def _plural(noun: str) -> str:
    if noun.endswith("y"):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith("ch") else f"{noun}s"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_control(char: str) -> bool:
    # Format characters stay, for emoji and many scripts need them; the bidirectional overrides do not.
    return (
        unicodedata.category(char) in ("Cc", "Cs") or char in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    )
