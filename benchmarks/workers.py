"""The processes that the systems run in, seen from the one that asks."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

from peers import FOREIGN

FOLDER = Path(__file__).parent


class PeerError(Exception):
    """A system failed; the message says which and why."""


class Process:
    """A program that answers calls (``peers.serve.answer_calls``). Use it in a ``with`` statement.

    The command gets the descriptor of its end of the connection as its last argument. The package comes from
    ``tree``, by default from this checkout.
    """

    def __init__(self, name: str, command: Sequence[str], tree: Path = FOLDER.parent) -> None:
        self.name = name
        here, there = socket.socketpair()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(FOLDER), str(tree)])}
        self._process = subprocess.Popen(
            [*command, str(there.fileno())], pass_fds=[there.fileno()], env=environment, stdout=subprocess.DEVNULL
        )
        there.close()
        self._channel = Connection(here.detach())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()
        self._process.wait(timeout=60)

    def ask(self, method: str, *arguments: Any) -> None:
        """Begin a call."""
        self._channel.send((method, arguments))

    def answer(self) -> Any:
        """The call's result. Raises ``PeerError``."""
        try:
            worked, result = self._channel.recv()
        except (EOFError, OSError):
            raise PeerError(f"{self.name}: its process ended; see its message above") from None
        if not worked:
            raise PeerError(f"{self.name}: {result}")
        return result

    def call(self, method: str, *arguments: Any) -> Any:
        """A call and its result."""
        self.ask(method, *arguments)
        return self.answer()


class Worker(Process):
    """One compared system, by the Python of its environment. A call gives its result and its milliseconds."""

    def __init__(self, name: str, peers_python: str | None = None) -> None:
        python = peers_python if name in FOREIGN and peers_python else sys.executable
        super().__init__(name, [python, "-m", "peers.serve", name])
        described = self.call("describe")[0]
        self.plain, self.filtered, self.fusions = (tuple(described[kind]) for kind in ("plain", "filtered", "fusions"))

    def load(self, url: str, folder: Path) -> Mapping[str, float]:
        """Store the corpus of the folder; gives seconds by stage."""
        stages: Mapping[str, float] = self.call("load", url, str(folder))[0]
        return stages


def printed(python: str, module: str, *arguments: str) -> Any:
    """What a module of the benchmarks prints as JSON when the peers' Python runs it."""
    command = [python, "-m", module, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(FOLDER)}
    ended = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(ended.stdout)


def installed(name: str, peers_python: str | None) -> bool:
    """Whether the system can run: the product's own always, a foreign one if its environment is there."""
    return name not in FOREIGN or (peers_python is not None and Path(peers_python).exists())
