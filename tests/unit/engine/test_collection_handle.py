"""A collection's handle: an old state is read once, by any number of calls."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.domain.errors import DatabaseUnreachableError
from retrieval.engine import collection_handle as module
from retrieval.engine.collection_handle import CollectionHandle, SharedServices
from tests.unit.engine.test_plan import SMALL


class Reading:
    """Takes the place of the look-up in the database; it answers when it is let."""

    def __init__(self) -> None:
        self.times = 0
        self.fails = 0
        self.answers = asyncio.Event()

    async def __call__(self, *_: object) -> StoredCollection:
        """The collection; the first ``fails`` times, an error."""
        self.times += 1
        failing = self.times <= self.fails
        await self.answers.wait()
        if failing:
            raise DatabaseUnreachableError("away")
        return SMALL


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Reading:
    """A stand-in for the query."""
    reader = Reading()
    monkeypatch.setattr(module, "find_collection", reader)
    return reader


def _aged(seconds: float) -> tuple[CollectionHandle, list[float]]:
    """A handle that was read that long ago, with its clock."""
    now = [0.0]
    parts = SimpleNamespace(database=None, tenant_id=1, clock=lambda: now[0], embedders=lambda _: None)
    handle = CollectionHandle(cast("SharedServices", parts), SMALL)
    now[0] = seconds
    return handle, now


async def _many(handle: CollectionHandle, reading: Reading) -> list[StoredCollection | BaseException]:
    calls = [asyncio.create_task(handle.refresh(older_than_seconds=1.0)) for _ in range(5)]
    await asyncio.sleep(0)
    reading.answers.set()
    return await asyncio.gather(*calls, return_exceptions=True)


async def test_calls_that_find_it_old_at_once_share_one_reading(reading: Reading) -> None:
    """They wait for the first call's query, and share its result."""
    handle, _ = _aged(2.0)
    assert await _many(handle, reading) == [SMALL] * 5
    assert reading.times == 1


async def test_a_reading_that_fails_is_the_first_calls_alone(reading: Reading) -> None:
    """The waiting calls read for themselves."""
    handle, _ = _aged(2.0)
    reading.fails = 1
    failed, *others = await _many(handle, reading)
    assert isinstance(failed, DatabaseUnreachableError)
    assert others == [SMALL] * 4


async def test_a_call_that_wants_it_as_it_is_now_reads_for_itself(reading: Reading) -> None:
    """A reading in progress may have begun before the change."""
    handle, _ = _aged(2.0)
    calls = [asyncio.create_task(handle.refresh(older_than_seconds=1.0)), asyncio.create_task(handle.refresh())]
    await asyncio.sleep(0)
    assert reading.times == 2
    reading.answers.set()
    await asyncio.gather(*calls)


async def test_a_fresh_state_is_not_read_again(reading: Reading) -> None:
    """Up to the age that the call allows."""
    handle, now = _aged(1.0)
    assert await handle.refresh(older_than_seconds=1.0) is SMALL
    assert reading.times == 0
    now[0] = 1.5
    reading.answers.set()
    await handle.refresh(older_than_seconds=1.0)
    assert reading.times == 1
