"""The processes that the systems run in, seen from the one that asks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from peers import FOREIGN

FOLDER = Path(__file__).parent


class PeerError(Exception):
    """A system failed; the message says which and why."""


class Worker:
    """One system in a process of its own, by the Python of its environment. Use it in a ``with`` statement."""

    def __init__(self, name: str, peers_python: str | None = None) -> None:
        self.name = name
        self._python = peers_python if name in FOREIGN and peers_python else sys.executable
        self.plain: tuple[str, ...] = ()
        self.filtered: tuple[str, ...] = ()
        self.fusions: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        here, there = socket.socketpair()
        command = [self._python, "-m", "peers.serve", self.name, str(there.fileno())]
        # The checkout comes first, so that its code is measured.
        path = os.pathsep.join([str(FOLDER), str(FOLDER.parent)])
        environment = {**os.environ, "PYTHONPATH": path}
        self._process = subprocess.Popen(command, pass_fds=[there.fileno()], env=environment, stdout=subprocess.DEVNULL)
        there.close()
        self._channel = Connection(here.detach())
        described = self.call("describe")[0]
        self.plain, self.filtered, self.fusions = (tuple(described[kind]) for kind in ("plain", "filtered", "fusions"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._channel.close()
        self._process.wait(timeout=30)

    def load(self, url: str, folder: Path) -> Mapping[str, float]:
        """Store the corpus of the folder; gives seconds by stage."""
        stages: Mapping[str, float] = self.call("load", url, str(folder))[0]
        return stages

    def call(self, method: str, *arguments: Any) -> tuple[Any, float]:
        """The result and its milliseconds. Raises ``PeerError``."""
        try:
            self._channel.send((method, arguments))
            worked, result, milliseconds = self._channel.recv()
        except (EOFError, OSError):
            raise PeerError(f"{self.name}: its process ended; its message stands above") from None
        if not worked:
            raise PeerError(result)
        return result, milliseconds


def installed(name: str, peers_python: str | None) -> bool:
    """Whether the system can run: the product's own always, a foreign one if its environment is there."""
    return name not in FOREIGN or (peers_python is not None and Path(peers_python).exists())
