"""What became of one line of an input file."""

from __future__ import annotations

from dataclasses import dataclass

from retrieval.adapters.readers.lines import Line
from retrieval.domain.errors import BadLineError
from retrieval.domain.item import Item

_MAX_REASON = 400


@dataclass(frozen=True, slots=True)
class InputLine:
    """One line, or one CSV record, as an item or as an error: exactly one of the two is set."""

    file: str
    """The name as given; ``-`` is standard input."""
    line: int
    """Counts from 1; of a CSV record, the line on which it starts."""
    raw: str
    r"""The text as read, without its line end: what a file of rejected lines is made of.

    Bytes that are not UTF-8 stand in it as ``\xff``; of a line that is too long, only the start is kept.
    """
    item: Item | None
    error: BadLineError | None
    offset: int
    """Bytes of the input, packed as it is on disk, consumed so far; rises to the file's size."""
    is_cleaned: bool = False
    """Whether characters that are refused were taken out of the item."""


def good_line(file: str, line: Line, raw: str, item: Item, *, is_cleaned: bool = False) -> InputLine:
    """The line that held this item."""
    return InputLine(file, line.number, raw.rstrip("\r\n"), item, None, line.offset, is_cleaned)


def bad_line(file: str, line: Line, raw: str, reason: str) -> InputLine:
    """The line that held no item, and why; a long reason is cut."""
    short = reason if len(reason) <= _MAX_REASON else f"{reason[:_MAX_REASON]}…"
    error = BadLineError(file, line.number, short)
    return InputLine(file, line.number, raw.rstrip("\r\n"), None, error, line.offset)
