"""A proxy in front of a server's socket, which resets connections or holds them up."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress


class Proxy:
    """Between clients and a server, whose host or socket's folder, and port, ``target`` returns."""

    def __init__(self, target: Callable[[], tuple[str, int]]) -> None:
        self._target = target
        self._writers: set[asyncio.StreamWriter] = set()
        self._runs = asyncio.Event()
        self._runs.set()
        self._server: asyncio.Server | None = None

    async def start(self) -> int:
        """The port on which it listens."""
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    def reset(self) -> None:
        """Each connection ends with a reset, in the middle of whatever it says."""
        for writer in list(self._writers):
            with suppress(OSError):
                raw = writer.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    async def stall(self, seconds: float) -> None:
        """Nothing is passed on for a while."""
        self.freeze()
        await asyncio.sleep(seconds)
        self._runs.set()

    def freeze(self) -> None:
        """Nothing is passed on from now on; new connections are accepted, as by the kernel for a frozen server."""
        self._runs.clear()

    async def stop(self) -> None:
        """Ends all."""
        assert self._server is not None
        self._server.close()
        self.reset()
        self._runs.set()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            with suppress(OSError):
                host, port = self._target()
                there, back = await (
                    asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
                    if host.startswith("/")
                    else asyncio.open_connection(host, port)
                )
                self._writers.add(back)
                await asyncio.gather(self._pass_on(reader, back), self._pass_on(there, writer))
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                await self._runs.wait()
                target.write(data)
                await target.drain()
        self._writers.discard(target)
        target.close()
