"""What waits to be sent, in memory up to a bound and beyond it in a file, which is bounded too.

A client may send its whole body before it reads a word of the answer; who waited for that would wait for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import Self, TypeVar

from retrieval.surfaces.http.request_refusals import UnreadAnswerError

T = TypeVar("T")

IN_MEMORY_BYTES = 1024 * 1024
MOST_BYTES = 256 * 1024 * 1024
"""The answers to a million lines and more, of a client that has not read the ones before."""

PART_BYTES = 64 * 1024


class Spool:
    """Bytes that one task writes and another one reads, in their order: ``with Spool() as spool``.

    The file is worked on in a thread: a disk may be slow.
    """

    def __init__(self, in_memory_bytes: int = IN_MEMORY_BYTES, most_bytes: int = MOST_BYTES) -> None:
        self._file = SpooledTemporaryFile(max_size=in_memory_bytes)  # noqa: SIM115 - closed at the end of the with
        self._in_memory, self._most = in_memory_bytes, most_bytes
        self._written = self._read = 0
        self._is_on_disk = self._is_closed = False
        self._more, self._alone = asyncio.Event(), asyncio.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    async def write(self, data: bytes) -> None:
        """Let this be read next. Raises ``UnreadAnswerError`` where too much waits already."""
        if self._written + len(data) > self._most:
            raise UnreadAnswerError(self._most)
        await self._append(data)

    async def end(self, data: bytes = b"") -> None:
        """Let this be read last, however much waits."""
        await self._append(data)
        self._is_closed = True
        self._more.set()

    async def parts(self) -> AsyncIterator[bytes]:
        """All that is written, in parts, as soon as it is there."""
        while True:
            while self._read < self._written:
                yield await self._on_file(self._take)
            if self._is_closed:
                return
            self._more.clear()
            await self._more.wait()

    async def _append(self, data: bytes) -> None:
        # Once it is on the disk it stays there, also when all was read.
        self._is_on_disk = self._is_on_disk or self._written + len(data) > self._in_memory
        await self._on_file(lambda: self._put(data))
        self._more.set()

    async def _on_file(self, work: Callable[[], T]) -> T:
        """Work on the file, one at a time, and to the end: a thread cannot be called back."""
        async with self._alone:
            if not self._is_on_disk:
                return work()
            working = asyncio.ensure_future(asyncio.to_thread(work))
            try:
                return await asyncio.shield(working)
            except asyncio.CancelledError:
                await asyncio.wait([working])
                raise

    def _put(self, data: bytes) -> None:
        self._file.seek(self._written)
        self._written += self._file.write(data)

    def _take(self) -> bytes:
        self._file.seek(self._read)
        part = self._file.read(PART_BYTES)
        self._read += len(part)
        if self._read == self._written:
            # All is read: the room is free again.
            self._file.seek(0)
            self._file.truncate()
            self._written = self._read = 0
        return part
