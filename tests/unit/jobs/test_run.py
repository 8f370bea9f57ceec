"""Work that is repeated while other work runs."""

from __future__ import annotations

import asyncio

from retrieval.jobs.run import repeated


async def test_a_step_is_repeated_until_the_block_ends() -> None:
    """The step that runs at the end of the block is cancelled."""
    steps: list[str] = []
    third = asyncio.Event()

    async def step() -> None:
        steps.append("begun")
        if len(steps) == 3:
            third.set()
            await asyncio.Event().wait()

    async with repeated(step, seconds=0.001):
        await third.wait()
    await asyncio.sleep(0.01)
    assert len(steps) == 3


async def test_a_step_that_loses_its_cancellation_is_the_last() -> None:
    """A connection that breaks meanwhile raises its own error, which steps handle: the block ends all the same."""
    steps: list[str] = []
    begun = asyncio.Event()

    async def step() -> None:
        steps.append("begun")
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    async with asyncio.timeout(10), repeated(step, seconds=0.001):
        await begun.wait()
    await asyncio.sleep(0.01)
    assert steps == ["begun"]
