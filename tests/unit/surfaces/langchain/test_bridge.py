"""The bridge between callers and the loop of a platform."""

from __future__ import annotations

import asyncio

import pytest

from retrieval import connect
from retrieval.domain.errors import InvalidRequestError, RunningLoopError
from retrieval.surfaces.langchain import Bridge
from retrieval.sync import connect as connect_sync


async def answer(number: int) -> int:
    """A call."""
    await asyncio.sleep(0)
    return number


def test_what_is_no_collection_is_refused() -> None:
    """With the way to get one."""
    with pytest.raises(InvalidRequestError, match=r"platform\.collection"):
        Bridge("docs")  # type: ignore[call-overload]


def test_a_sync_platform_has_to_be_open() -> None:
    """Before that there is no loop."""
    with pytest.raises(InvalidRequestError, match="not open"):
        Bridge(connect_sync()).run(answer, 1)


def test_an_async_platform_belongs_to_the_loop_that_called_first() -> None:
    """Without one it is told that none is known, and after its end that it has ended."""
    bridge = Bridge(connect())

    with pytest.raises(RunningLoopError, match="not known which event loop"):
        bridge.run(answer, 1)
    assert asyncio.run(bridge.arun(answer, 2)) == 2
    with pytest.raises(RunningLoopError, match="does not run"):
        bridge.run(answer, 3)
    with pytest.raises(RunningLoopError, match="does not run"):
        asyncio.run(bridge.arun(answer, 4))


async def test_threads_call_the_loop_that_runs_and_the_loop_itself_must_not_wait() -> None:
    """The answer, and the errors, come back to the caller."""
    bridge = Bridge(connect())

    async def fail() -> None:
        raise KeyError("gone")

    assert await asyncio.to_thread(bridge.run, answer, 5) == 5
    with pytest.raises(KeyError, match="gone"):
        await asyncio.to_thread(bridge.run, fail)
    with pytest.raises(RunningLoopError, match="await the async one"):
        bridge.run(answer, 6)
