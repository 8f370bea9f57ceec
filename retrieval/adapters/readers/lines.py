"""Read the lines of input files, and hold the outcome of each line."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

from retrieval.adapters.readers.records import item_cleaned_if_needed
from retrieval.domain.checks import GZIP_MAGIC, JSONTextError
from retrieval.domain.errors import BadLineError, InvalidItemError, InvalidRequestError
from retrieval.domain.items.item import Item

STANDARD_INPUT = "-"
"""The file name that means standard input."""

MAX_LINE_BYTES = 128 * 1024 * 1024
"""Longest line or CSV record, in bytes after unpacking: twice the longest body."""

_BYTES_OF_LONG_LINE = 1000
_SKIPPED_AT_ONCE = 1024 * 1024


class Line(NamedTuple):
    """One line, unchanged."""

    number: int
    """Counts from 1."""
    data: bytes
    """The line with its line end; the first 1,000 bytes of a line that is too long."""
    too_long: bool
    offset: int
    """The bytes of the input file, compressed or not, that were consumed so far."""


def read_lines(file: str, *, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[Line]:
    """Every line of the file, unpacked if it starts like gzip; a UTF-8 byte order mark is left out.

    Raises ``InvalidRequestError`` if the file cannot be opened or, after the lines before that place, if it becomes
    unreadable.
    """
    number = total = 0
    with ExitStack() as stack:
        source = _open(file, stack)
        lines: io.BufferedIOBase = stack.enter_context(io.BufferedReader(source, io.DEFAULT_BUFFER_SIZE * 8))
        if source.is_packed:
            lines = stack.enter_context(gzip.GzipFile(fileobj=lines, mode="rb"))
        while True:
            try:
                data, size = _next_line(lines, max_line_bytes)
            except (EOFError, OSError, zlib.error) as error:
                raise InvalidRequestError(_read_failure(file, number, error)) from error
            if not data:
                return
            number += 1
            total += size
            if number == 1:
                data = data.removeprefix(codecs.BOM_UTF8)
            # For plain files, count the lines: the buffer holds a small file completely before its first line.
            yield Line(number, data, size > max_line_bytes, source.consumed if source.is_packed else total)


def decoded(data: bytes) -> tuple[str, str | None]:
    r"""The text of a line, and the fault of its bytes (None: no fault).

    Bytes that are not UTF-8 appear in the text as ``\xff``, so that it can be shown and written anywhere.
    """
    try:
        text, fault = data.decode(), None
    except UnicodeDecodeError as error:
        text = data.decode(errors="backslashreplace")
        fault = f"byte {error.start + 1} (0x{data[error.start]:02x}) is not UTF-8; save the file as UTF-8"
    if data.startswith(GZIP_MAGIC):
        fault = "packed by gzip; unpack it first"
    elif b"\x00" in data:
        fault = "holds a NUL byte, which PostgreSQL cannot store (a UTF-16 file? save it as UTF-8)"
    return text, fault


def too_long_reason(max_line_bytes: int) -> str:
    """The reason to give for a line that is longer than that."""
    return f"longer than {max_line_bytes:,} bytes; split the item into several"


def readable_status(file: str) -> os.stat_result:
    """The file's status, after an attempt to open it.

    Raises ``InvalidRequestError`` if it is missing, a directory, or may not be read.
    """
    try:
        status = Path(file).stat()
        # Opening a pipe would wait for its writer.
        if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
            Path(file).open("rb").close()
    except (OSError, ValueError) as error:
        raise InvalidRequestError(_open_failure(file, error)) from error
    return status


class _CountedInput(io.RawIOBase):
    """Passes bytes through, counts them, and knows the first two."""

    def __init__(self, source: io.BufferedReader) -> None:
        self._source = source
        self.magic = source.read(2)
        self._unread = self.magic
        self.consumed = 0

    @property
    def is_packed(self) -> bool:
        """Whether the input starts like gzip."""
        return self.magic == GZIP_MAGIC

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if self._unread:
            size = min(len(buffer), len(self._unread))
            buffer[:size] = self._unread[:size]
            self._unread = self._unread[size:]
        else:
            size = self._source.readinto1(buffer)
        self.consumed += size
        return size


def _open(file: str, stack: ExitStack) -> _CountedInput:
    given = standard_input() if file == STANDARD_INPUT else None
    try:
        return _CountedInput(given or stack.enter_context(Path(file).open("rb")))
    except (OSError, ValueError) as error:
        raise InvalidRequestError(_open_failure(file, error)) from error


def standard_input() -> io.BufferedReader:
    """The bytes of standard input. Raises ``InvalidRequestError`` if it is closed."""
    if sys.stdin is None:
        raise InvalidRequestError("'-' is standard input, which is closed; give another value")
    return cast(io.BufferedReader, sys.stdin.buffer)


def _next_line(source: io.BufferedIOBase, limit: int) -> tuple[bytes, int]:
    """The next line, or the beginning of a line beyond the limit, and the line's size."""
    data = source.readline(limit + 1)
    size = len(data)
    if size <= limit:
        return data, size
    piece = data
    while piece and not piece.endswith(b"\n"):
        piece = source.readline(_SKIPPED_AT_ONCE)
        size += len(piece)
    return data[:_BYTES_OF_LONG_LINE], size


def _read_failure(file: str, number: int, error: Exception) -> str:
    where = f"{file}: after line {number}"
    if isinstance(error, EOFError):
        return f"{where}, the gzip data ends too early; the file was cut off, copy it again"
    if isinstance(error, gzip.BadGzipFile | zlib.error):
        return f"{where}, the gzip data is damaged ({error}); copy the file again"
    return f"{where}, reading failed: {error}"


def _open_failure(file: str, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{file}: no such file; check the name"
    if isinstance(error, IsADirectoryError):
        return f"{file}: is a directory; name the files in it"
    if isinstance(error, PermissionError):
        return f"{file}: may not be read by this user; change its permissions"
    return f"{file}: cannot be opened: {error}"


_MAX_REASON = 400


@dataclass(frozen=True, slots=True)
class InputLine:
    """One line, or one CSV record, as an item or as an error: exactly one of the two is set."""

    file: str
    """The name as given; ``-`` is standard input."""
    line: int
    """Counts from 1; of a CSV record, the line on which it starts."""
    raw: str
    r"""The text as read, without its line end; files of rejected lines contain these texts.

    Bytes that are not UTF-8 appear as ``\xff``; a line that is too long is cut.
    """
    item: Item | None
    error: BadLineError | None
    offset: int
    """The bytes of the input file, compressed or not, that were consumed so far; rises to the file's size."""
    is_cleaned: bool = False


def line_read(
    file: str, line: Line, raw: str, fault: str | None, make: Callable[..., Item], *, clean: bool
) -> InputLine:
    """The line with the item that ``make`` makes of it, or with the reason why it has none (``fault``: a known one)."""
    text, reason = raw.rstrip("\r\n"), fault or ""
    if not reason:
        try:
            item, is_cleaned = item_cleaned_if_needed(make, clean=clean)
        except (JSONTextError, InvalidItemError) as refusal:
            reason = str(refusal)
        else:
            return InputLine(file, line.number, text, item, None, line.offset, is_cleaned)
    short = reason if len(reason) <= _MAX_REASON else f"{reason[:_MAX_REASON]}…"
    return InputLine(file, line.number, text, None, BadLineError(file, line.number, short), line.offset)
