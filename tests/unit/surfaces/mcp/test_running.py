"""A run over standard input and output, with pipes in their place and no database."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import pytest

from retrieval.settings import Settings
from retrieval.surfaces.mcp.running import run_stdio
from retrieval.surfaces.mcp.served import Offer

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "one", "version": "1"}},
}
NOWHERE = Settings().changed(database_url="postgresql://nobody@127.0.0.1:1/none", pool_timeout_seconds=1)


@dataclass(frozen=True)
class Pipes:
    """The client's ends."""

    asked: BinaryIO
    answered: BinaryIO

    def ask(self, line: str) -> None:
        """Send a line to the server."""
        self.asked.write(line.encode() + b"\n")
        self.asked.flush()


@contextlib.contextmanager
def piped(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipes]:
    """Pipes in place of the process's own: for a test to enter itself, since capturing puts its own there before."""
    (asked_from, ask), (answered, answer_to) = os.pipe(), os.pipe()
    with (
        os.fdopen(asked_from) as stdin,
        os.fdopen(ask, "wb") as requests,
        os.fdopen(answered, "rb") as answers,
        os.fdopen(answer_to, "w") as stdout,
    ):
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stdout", stdout)
        yield Pipes(requests, answers)
        monkeypatch.undo()


async def test_a_client_that_stops_listening_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run ends as if standard input were closed."""
    with piped(monkeypatch) as pipes:
        pipes.answered.close()
        pipes.ask(json.dumps(INITIALIZE))
        pipes.asked.close()
        assert await run_stdio(NOWHERE, Offer(), asyncio.Event())
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.close()  # it still holds the answer
