"""Awaiting several things that succeed or fail as one."""

from __future__ import annotations

import asyncio

import pytest

from retrieval.adapters.embedders.batching import all_of


async def test_results_keep_their_order() -> None:
    """Whoever finishes first, results stand where their coroutines stood."""
    gate = asyncio.Event()

    async def late() -> int:
        await gate.wait()
        return 1

    async def early() -> int:
        gate.set()
        return 2

    assert await all_of([late(), early()]) == [1, 2]


async def test_the_first_failure_is_raised_itself_and_stops_the_others() -> None:
    """Callers catch the error they know, and nothing is left running."""
    stopped = asyncio.Event()

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def fails() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        await all_of([waits(), fails()])
    assert stopped.is_set()
