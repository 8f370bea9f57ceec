"""Calls that are shared, and go on behind who no longer waits."""

from __future__ import annotations

import asyncio

import pytest

from retrieval.domain.errors import LLMUnavailableError
from retrieval.engine import shared_calls
from retrieval.engine.shared_calls import SharedCalls


async def hang() -> None:
    """For ever."""
    await asyncio.Event().wait()


async def test_closing_ends_what_is_under_way_and_begins_nothing() -> None:
    """Waiting callers get an error."""
    calls = SharedCalls()
    with pytest.raises(TimeoutError):
        await calls.result("a", hang, 0)
    waiting = asyncio.create_task(calls.result("a", hang))
    await asyncio.sleep(0)
    await calls.aclose()
    with pytest.raises(LLMUnavailableError, match="was closed"):
        await waiting
    with pytest.raises(LLMUnavailableError, match="is closed; open it again"):
        await calls.result("a", hang)


async def test_calls_under_way_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is refused; one more that waits for the same is not."""
    monkeypatch.setattr(shared_calls, "MOST_CALLS", 1)
    calls = SharedCalls()
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await calls.result("a", hang, 0)
    with pytest.raises(LLMUnavailableError, match="are running already"):
        await calls.result("b", hang)
    await calls.aclose()
