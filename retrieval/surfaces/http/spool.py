"""What waits to be sent, in memory up to a bound and beyond it in a file.

A client may send its whole body before it reads a word of the answer; who waited for that would wait for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import Self

IN_MEMORY_BYTES = 1024 * 1024
PART_BYTES = 64 * 1024


class Spool:
    """Bytes that one task writes and another one reads, in their order: ``with Spool() as spool``."""

    def __init__(self, in_memory_bytes: int = IN_MEMORY_BYTES) -> None:
        self._file = SpooledTemporaryFile(max_size=in_memory_bytes)  # noqa: SIM115 - closed at the end of the with
        self._written = self._read = 0
        self._is_closed = False
        self._more = asyncio.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def write(self, data: bytes) -> None:
        """Let this be read next."""
        self._file.seek(self._written)
        self._written += self._file.write(data)
        self._more.set()

    def end(self) -> None:
        """Nothing more is written."""
        self._is_closed = True
        self._more.set()

    async def parts(self) -> AsyncIterator[bytes]:
        """All that is written, in parts, as soon as it is there."""
        while True:
            while self._read < self._written:
                self._file.seek(self._read)
                part = self._file.read(PART_BYTES)
                self._read += len(part)
                if self._read == self._written:
                    self._start_over()
                yield part
            if self._is_closed:
                return
            self._more.clear()
            await self._more.wait()

    def _start_over(self) -> None:
        """All is read: the room is free again."""
        self._file.seek(0)
        self._file.truncate()
        self._written = self._read = 0
