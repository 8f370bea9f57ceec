"""The bridge between callers and the loop of a platform."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from retrieval import connect
from retrieval.domain.errors import InvalidRequestError, RunningLoopError
from retrieval.surfaces.langchain import Bridge
from retrieval.surfaces.langchain import bridge as carried
from retrieval.sync import connect as connect_sync


async def answer(number: int) -> int:
    """A call."""
    await asyncio.sleep(0)
    return number


def test_a_value_that_is_not_a_collection_is_refused() -> None:
    """With the way to get one."""
    with pytest.raises(InvalidRequestError, match=r"platform\.collection"):
        Bridge("docs")  # type: ignore[call-overload]


def test_a_sync_platform_has_to_be_open() -> None:
    """Before that there is no loop."""
    with pytest.raises(InvalidRequestError, match="not open"):
        Bridge(connect_sync()).run(answer, 1)


def test_an_async_platform_that_is_not_open_belongs_to_no_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a loop, and after its end, the error says so; the first loop that awaits a call opens it."""
    bridge = Bridge(connect())

    with pytest.raises(RunningLoopError, match="event loop of the collection is unknown"):
        bridge.run(answer, 1)
    assert asyncio.run(bridge.arun(answer, 2)) == 2
    ended = asyncio.new_event_loop()
    ended.close()
    monkeypatch.setattr(carried, "loop_of", lambda _: ended)
    with pytest.raises(RunningLoopError, match="does not run"):
        bridge.run(answer, 3)
    with pytest.raises(RunningLoopError, match="does not run"):
        asyncio.run(bridge.arun(answer, 4))


@pytest.fixture
async def at_home(monkeypatch: pytest.MonkeyPatch) -> Bridge[Any]:
    """A bridge to a platform that this loop opened."""
    home = asyncio.get_running_loop()
    monkeypatch.setattr(carried, "loop_of", lambda _: home)
    return Bridge(connect())


async def test_threads_call_the_loop_that_runs_and_the_loop_itself_must_not_wait(at_home: Bridge[Any]) -> None:
    """The answer, and the errors, come back to the caller."""
    bridge = at_home

    async def fail() -> None:
        raise KeyError("gone")

    assert await asyncio.to_thread(bridge.run, answer, 5) == 5
    with pytest.raises(KeyError, match="gone"):
        await asyncio.to_thread(bridge.run, fail)
    with pytest.raises(RunningLoopError, match="await the async one"):
        bridge.run(answer, 6)


def awaited_elsewhere(bridge: Bridge[Any], call: Callable[[], Any]) -> Any:
    """The result of the call in another loop."""
    return asyncio.run(bridge.arun(call))


@pytest.mark.parametrize("carry", [Bridge.run, awaited_elsewhere])
async def test_a_loop_that_waits_for_its_caller_is_reported(
    carry: Any, at_home: Bridge[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller gives up after a timeout, and the call is never made."""
    monkeypatch.setattr(carried, "BEGIN_SECONDS", 0.02)
    bridge, results = at_home, list[int]()

    async def call() -> None:
        results.append(1)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(carry, bridge, call)
        with pytest.raises(RunningLoopError, match=r"blocked.*ainvoke"):
            waiting.result(30)  # like a chain's sync call within the loop, which waits for its threads
    await asyncio.sleep(0.01)
    assert not results


async def test_an_open_platform_belongs_to_the_loop_that_opened_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the bridge was made: here, in a loop of another thread."""
    platform = connect()
    home = asyncio.get_running_loop()

    async def where() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def made() -> Bridge[Any]:
        return Bridge(platform)

    bridge = await asyncio.to_thread(asyncio.run, made())
    monkeypatch.setattr(carried, "loop_of", lambda _: home)
    assert await asyncio.to_thread(bridge.run, where) is home
    assert await bridge.arun(where) is home
