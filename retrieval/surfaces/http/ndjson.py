"""Lines of a stream: cut out of the parts in which it arrives, bounded in length, numbered."""

from __future__ import annotations

from dataclasses import dataclass

MAX_LINE_BYTES = 1024 * 1024
"""Longest line, without its end."""


@dataclass(frozen=True, slots=True)
class StreamLine:
    """One line that is not blank."""

    number: int
    """Counts from 1, blank lines too."""
    data: bytes
    """Without its end; empty where it is too long."""
    too_long: bool = False


class LineCutter:
    """Cuts lines out of a stream; of one that is too long nothing is kept."""

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._limit = max_line_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._number = 1

    def feed(self, data: bytes) -> list[StreamLine]:
        """The lines that end in what arrived."""
        *ended, rest = data.split(b"\n")
        lines = [line for one in ended if (line := self._end(one))]
        self._keep(rest)
        return lines

    def end(self) -> list[StreamLine]:
        """The last line, which nothing ended, if there is one."""
        line = self._end(b"")
        return [line] if line else []

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._limit:
            self._parts.clear()
        elif part:
            self._parts.append(part)

    def _end(self, part: bytes) -> StreamLine | None:
        """The line that ends with this part; None for a blank one."""
        self._keep(part)
        too_long, number = self._size > self._limit, self._number
        data = b"" if too_long else b"".join(self._parts)
        self._parts, self._size, self._number = [], 0, number + 1
        if number == 1:
            data = data.removeprefix(b"\xef\xbb\xbf")
        return StreamLine(number, data, too_long) if too_long or data.strip() else None
