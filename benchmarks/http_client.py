"""Clients of an HTTP service, many at once in one process: each sends its next request when it has its answer.

Requests are written as bytes beforehand, and answers are read for their status and length alone: so the clients cost
little beside what they measure.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

COME_AGAIN_SECONDS = 0.5
"""After an answer 503; twice as soon as its ``Retry-After`` asks for."""


@dataclass(slots=True)
class LoadResult:
    """The results of one stretch of load."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    """Seconds of each answer with status 200."""
    statuses: Counter[int] = field(default_factory=Counter)

    @property
    def answered(self) -> int:
        """Answers with status 200."""
        return len(self.latencies)

    @property
    def a_second(self) -> float:
        """The same, by the second."""
        return self.answered / self.seconds if self.seconds else 0.0


def posts(url: str, bodies: Sequence[dict[str, Any]]) -> list[bytes]:
    """The requests as they go over the wire."""
    parts = urlsplit(url)
    requests = []
    for body in bodies:
        content = json.dumps(body).encode()
        head = (
            f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\n\r\n"
        )
        requests.append(head.encode() + content)
    return requests


async def press(url: str, requests: Sequence[bytes], *, clients: int, seconds: float) -> LoadResult:
    """Load by ``clients`` clients for ``seconds``; each sends all requests, from a different start."""
    measured, parts = LoadResult(), urlsplit(url)
    until = time.perf_counter() + seconds
    started = time.perf_counter()
    host, port = parts.hostname or "", parts.port or 80

    async def client(place: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        try:
            while time.perf_counter() < until:
                await _ask(reader, writer, requests[place % len(requests)], measured)
                place += 1
        finally:
            writer.close()

    await asyncio.gather(*(client(number * 37) for number in range(clients)))
    measured.seconds = time.perf_counter() - started
    return measured


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes, result: LoadResult) -> None:
    began = time.perf_counter()
    writer.write(request)
    status = await _answer(reader)
    result.statuses[status] += 1
    if status == 200:
        result.latencies.append(time.perf_counter() - began)
    elif status == 503:
        await asyncio.sleep(COME_AGAIN_SECONDS)


async def _answer(reader: asyncio.StreamReader) -> int:
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    await reader.readexactly(length)
    return int(head[9:12])
