"""A system in a process of its own: ``python -m peers.serve NAME DESCRIPTOR`` answers calls until told to stop.

A call comes as (method, arguments) and is answered by (True, result) or (False, message); a system's result is that of
its method and the milliseconds that it took.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from corpora import Corpus

from peers import PEERS
from peers.contract import Peer

_BACKGROUND_SECONDS = 2.0


def make_system(name: str) -> Peer:
    """The system of that name. Its dependencies are imported here."""
    module, _, kind = PEERS[name].partition(":")
    peer: Peer = getattr(importlib.import_module(module), kind)()
    return peer


async def answer(peer: Peer, method: str, arguments: tuple[Any, ...]) -> tuple[Any, float]:
    """The result and how many milliseconds it took."""
    if method == "describe":
        return {"plain": peer.plain, "filtered": peer.filtered, "fusions": peer.fusions}, 0.0
    if method == "load":
        return await _load(peer, *arguments), 0.0
    call = getattr(peer, method)
    started = time.perf_counter()
    result = await call(*arguments)
    milliseconds = (time.perf_counter() - started) * 1e3
    await _background_work()
    return result, milliseconds


async def _background_work() -> None:
    """Wait until the tasks end that a call left behind, such as the record of a search.

    Otherwise they would go on during the next measured call, because the loop stops between calls.
    """
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    if tasks:
        await asyncio.wait(tasks, timeout=_BACKGROUND_SECONDS)


async def _load(peer: Peer, url: str, folder: str) -> Mapping[str, float]:
    corpus = Corpus.read(Path(folder))
    started = time.perf_counter()
    stages = await peer.load(url, corpus)
    return {**stages, "total": time.perf_counter() - started}


async def answer_calls(answer_to: Callable[[str, tuple[Any, ...]], Awaitable[Any]], channel: Connection) -> None:
    """Answer by ``answer_to(method, arguments)`` until the other side hangs up."""
    while True:
        try:
            # Waiting blocks the loop on purpose: nothing else may run during the measurement.
            method, arguments = channel.recv()
        except EOFError:
            return
        try:
            channel.send((True, await answer_to(method, arguments)))
        except Exception as error:  # noqa: BLE001 - whatever went wrong is told to the other side
            channel.send((False, f"{method}: {type(error).__name__}: {error}".splitlines()[0]))


async def serve(name: str, channel: Connection) -> None:
    """Answer calls to the system of that name."""
    peer = make_system(name)
    await answer_calls(partial(answer, peer), channel)
    await peer.close()


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    asyncio.run(serve(sys.argv[1], Connection(int(sys.argv[2]))))
