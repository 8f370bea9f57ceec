"""Concurrent writes are stored together, and each gets its own outcome."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from retrieval import Item
from retrieval.domain.errors import DatabaseUnreachableError, InvalidItemError
from retrieval.surfaces.langchain.store import Changes, Writes


@dataclass
class Store:
    """A store of puts, one call after the other; a key among the faults is refused."""

    kept: dict[str, Item | None] = field(default_factory=dict)
    calls: list[set[str]] = field(default_factory=list)
    faults: dict[str, Exception] = field(default_factory=dict)
    begun: asyncio.Queue[None] = field(default_factory=asyncio.Queue)
    allowed: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    async def __call__(self, changes: Changes) -> None:
        """Wait until it is allowed."""
        self.calls.append(set(changes))
        self.begun.put_nowait(None)
        await self.allowed.acquire()
        for key in changes:
            if key in self.faults:
                raise self.faults[key]
        self.kept |= changes


def allow(store: Store, calls: int = 100) -> None:
    """Let that many calls go on."""
    for _ in range(calls):
        store.allowed.release()


async def begun(writes: Writes, *keys: str) -> list[asyncio.Task[None]]:
    """One write for each key, in that order, as far as they get."""
    tasks = []
    for number, key in enumerate(keys):
        changes = {key: Item(item_id=key, body=str(number))}
        tasks.append(asyncio.create_task(writes.write(changes)))
        await asyncio.sleep(0)
    return tasks


async def test_writes_that_wait_are_written_together() -> None:
    """The later of two of one key counts."""
    store = Store()
    tasks = await begun(Writes(store), "a", "b", "c", "b")
    allow(store)
    await asyncio.gather(*tasks)

    assert store.calls == [{"a"}, {"b", "c"}]
    assert {key: item and item.body for key, item in store.kept.items()} == {"a": "0", "b": "3", "c": "2"}


async def test_one_that_is_refused_costs_no_other() -> None:
    """Each write is then tried alone, and only the refused one fails."""
    store = Store(faults={"b": InvalidItemError("no")})
    tasks = await begun(Writes(store), "a", "b", "c")
    allow(store)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] == [type(None), InvalidItemError, type(None)]
    assert set(store.kept) == {"a", "c"}


async def test_an_unreachable_database_is_tried_once() -> None:
    """All writes of the batch get the error."""
    store = Store(faults={"b": DatabaseUnreachableError("away")})
    tasks = await begun(Writes(store), "a", "b", "c")
    allow(store)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] == [type(None), DatabaseUnreachableError, DatabaseUnreachableError]
    assert store.calls == [{"a"}, {"b", "c"}]


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_one_that_is_cancelled_costs_no_other(place: int) -> None:
    """Whether it writes for all, waits for its turn, or would be written with others."""
    store = Store()
    tasks = await begun(Writes(store), "a", "b", "c")
    tasks[place].cancel()
    await asyncio.sleep(0)
    allow(store)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)

    assert [isinstance(outcome, asyncio.CancelledError) for outcome in outcomes] == [
        number == place for number in range(3)
    ]
    assert set(store.kept) == {"a", "b", "c"} - {"abc"[place]}


async def test_the_task_that_writes_for_all_may_be_cancelled() -> None:
    """Another task writes its batch."""
    store = Store()
    writes = Writes(store)
    [first] = await begun(writes, "a")
    tasks = await begun(writes, "b", "c")
    await store.begun.get()
    allow(store, 1)
    await first
    await store.begun.get()
    tasks[0].cancel()
    await asyncio.wait([tasks[0]])
    allow(store)
    await tasks[1]

    assert set(store.kept) == {"a", "c"}
