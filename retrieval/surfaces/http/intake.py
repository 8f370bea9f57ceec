"""The body of a request as a stream of lines, read ahead of who works on them, and only so far."""

from __future__ import annotations

import asyncio
from collections import deque

from starlette.types import Receive

from retrieval.surfaces.http.ndjson import LineCutter, StreamLine

BATCH_LINES = 500
BATCH_BYTES = 4 * 1024 * 1024
"""A batch ends at whichever comes first; so much is read ahead too."""


class Intake:
    """Reads the body in ``run``, and gives the lines that are there in ``batch``.

    So a client that sends fast has its lines taken many together, and one that waits for each answer gets it.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._lines: deque[StreamLine] = deque()
        self._bytes = 0
        self._is_over = False
        self._arrived, self._has_room = asyncio.Event(), asyncio.Event()
        self.is_cut_off = False
        """Whether the body ended before its end."""
        self.is_awaited = False
        """Whether all that has arrived was taken, and more is waited for."""

    async def run(self) -> None:
        """Read until the body ends, or the client is gone; wait while enough is there."""
        cutter, self.is_cut_off = LineCutter(), True
        try:
            while (message := await self._receive())["type"] == "http.request":
                self._take(cutter.feed(message.get("body", b"")))
                if not message.get("more_body", False):
                    self._take(cutter.end())
                    self.is_cut_off = False
                    return
                while self._is_full:
                    self._has_room.clear()
                    await self._has_room.wait()
        finally:
            self._is_over = True
            self._arrived.set()

    async def batch(self) -> list[StreamLine]:
        """The next lines, at least one; none at the end."""
        self.is_awaited = True
        while not self._lines and not self._is_over:
            self._arrived.clear()
            await self._arrived.wait()
        self.is_awaited = False
        batch: list[StreamLine] = []
        size = 0
        while self._lines and len(batch) < BATCH_LINES and size < BATCH_BYTES:
            batch.append(self._lines.popleft())
            size += len(batch[-1].data)
        self._bytes -= size
        self._has_room.set()
        return batch

    @property
    def _is_full(self) -> bool:
        return len(self._lines) >= BATCH_LINES or self._bytes >= BATCH_BYTES

    def _take(self, lines: list[StreamLine]) -> None:
        self._lines.extend(lines)
        self._bytes += sum(len(line.data) for line in lines)
        if lines:
            self._arrived.set()
