"""A proxy in front of a server's socket, which resets connections or holds them up."""

from __future__ import annotations

import asyncio
import ctypes
import socket
import struct
from collections.abc import Callable
from contextlib import suppress

_ATTACH_FILTER, _BPF_RETURN = 26, 6
"""Numbers of Linux: the option of a socket that drops packets by a program, and the program's instruction to end."""


class Proxy:
    """Between clients and a server, whose host or socket's folder, and port, ``target`` returns."""

    def __init__(self, target: Callable[[], tuple[str, int]]) -> None:
        self._target = target
        self._writers: set[asyncio.StreamWriter] = set()
        self._runs = asyncio.Event()
        self._runs.set()
        self._server: asyncio.Server | None = None
        self._port = 0

    async def start(self) -> int:
        """The port on which it listens."""
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        self._port = int(self._server.sockets[0].getsockname()[1])
        return self._port

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

    def lose(self) -> None:
        """What clients send on their connections of now is lost without a word, as behind a router that forgot them."""
        lose_all = ctypes.create_string_buffer(struct.pack("HBBI", _BPF_RETURN, 0, 0, 0))
        program = struct.pack("HL", 1, ctypes.addressof(lose_all))
        for writer in self._writers:
            raw = writer.get_extra_info("socket")
            if raw.getsockname()[1:2] == (self._port,):
                raw.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, program)

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
