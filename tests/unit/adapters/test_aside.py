"""Long computations run outside the event loop."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import threading
import time
import weakref
from contextlib import suppress

import pytest

from retrieval.adapters.aside import aside, without_collector


async def test_long_work_runs_in_one_thread_and_short_work_at_once() -> None:
    """Many threads that compute would keep the loop waiting as long as the work itself."""
    here = threading.get_ident()
    assert await aside(threading.get_ident, is_long=False) == here
    threads = await asyncio.gather(*(aside(threading.get_ident, is_long=True) for _ in range(5)))
    assert len(set(threads)) == 1
    assert threads[0] != here


async def test_the_loop_goes_on_meanwhile() -> None:
    """Others are answered while Python computes."""
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0)
            beats += 1

    def compute() -> int:
        until = time.process_time() + 0.1
        while time.process_time() < until:
            pass
        return beats

    beating = asyncio.create_task(beat())
    assert await aside(compute, is_long=True) > 1
    beating.cancel()


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_has_a_thread_of_its_own() -> None:
    """Its copy of the parent's executor would wait for ever for a thread that only the parent has."""
    assert asyncio.run(aside(lambda: 1, is_long=True)) == 1
    child = os.fork()
    if child == 0:
        code = 1
        with suppress(TimeoutError):
            code = asyncio.run(asyncio.wait_for(aside(lambda: 0, is_long=True), 5))
        os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("is_long", [True, False])
async def test_errors_come_through(is_long: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """As from a call."""
    with pytest.raises(ZeroDivisionError):
        await aside(lambda: 1 // 0, is_long=is_long)


async def test_a_cancelled_caller_does_not_wait() -> None:
    """Started work ends by itself."""
    going_on = threading.Event()
    task = asyncio.create_task(aside(lambda: going_on.wait(10), is_long=True))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    going_on.set()


async def test_garbage_of_long_work_is_freed_before_it_grows_old() -> None:
    """Old garbage is looked for among everything that the process holds, while nothing else runs."""

    class Knot:
        def __init__(self) -> None:
            self.itself = self

    def tie() -> weakref.ref[Knot]:
        for _ in range(10_000):
            Knot()
        return weakref.ref(Knot())

    gc.collect()
    assert (await aside(tie, is_long=True))() is None
    assert gc.collect() < 10_000
    assert gc.isenabled()


def test_large_json_is_read_without_the_collector() -> None:
    """The collector runs again afterwards, for valid and invalid texts; it stays off if it was off."""
    thresholds = list[int]()

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            thresholds.append(info["generation"])

    text = json.dumps([[] for _ in range(100_000)]).encode()
    gc.callbacks.append(note)
    try:
        with without_collector():
            thresholds.clear()
            sent = json.loads(text)
            collected = list(thresholds)
        assert len(sent) == 100_000
        assert not collected
        assert gc.isenabled()
        with pytest.raises(json.JSONDecodeError), without_collector():
            json.loads(b"[1,")
        assert gc.isenabled()
        gc.disable()
        with without_collector():
            json.loads(b"[]")
        assert not gc.isenabled()
    finally:
        gc.enable()
        gc.callbacks.remove(note)
