"""The access counter: adds up, waits for a database that is away, counts nothing twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from retrieval.adapters.store import deadline
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items.memories import Counts
from retrieval.domain.errors import DatabaseError, DatabaseUnreachableError
from retrieval.engine import accesses as module
from retrieval.engine.accesses import AccessCounter

NO_DATABASE = cast("Database", None)
MAY = datetime(2026, 5, 1, tzinfo=UTC)
AWAY = DatabaseUnreachableError("cannot reach PostgreSQL; check that it runs")


@dataclass
class Store:
    """Counts in place of the database."""

    errors: list[Exception | None] = field(default_factory=list)
    """Raised one a call, before anything is counted."""
    late: list[Exception] = field(default_factory=list)
    """Raised one a call, once all is counted: the answer is lost."""
    outcomes: list[str] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)
    batches: list[int] = field(default_factory=list)

    async def add(self, _: Database, __: int, counts: Counts, begun: Callable[[str], None]) -> None:
        """Count, or fail."""
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error
        begun("transaction 7")
        if not self.outcomes:
            self.batches.append(len(counts))
            self.counted.update({item_id: count.number for (_, item_id), count in counts.items()})
        if self.late:
            raise self.late.pop(0)

    async def outcome(self, _: Database, __: int, transaction: str) -> str:
        """The outcome of the transaction."""
        assert transaction == "transaction 7"
        return self.outcomes.pop(0) if self.outcomes else "committed"


def _counter(store: Store, most_waiting: int = 100) -> AccessCounter:
    return AccessCounter(NO_DATABASE, 1, most_waiting=most_waiting, add=store.add, outcome=store.outcome)


async def test_many_accesses_are_one_statement() -> None:
    """Each memory once, with how often; and again only what came since."""
    store = Store()
    counter = _counter(store)
    for _ in range(3):
        counter.count(1, ["a", "b", "b"], MAY)
    await counter.flush()
    await counter.flush()
    counter.count(1, ["b"], MAY + timedelta(days=1))
    await counter.aclose()
    assert store.counted == {"a": 3, "b": 7}
    assert store.batches == [2, 1]


async def test_accesses_are_counted_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """The task of the platform does it, and goes on after the database was away."""
    monkeypatch.setattr(module, "LINGER_SECONDS", 0.001)
    store = Store(errors=[AWAY, DatabaseError("the database gave up waiting: deadlock")])
    counter = _counter(store)
    counter.count(1, ["a"], MAY)
    assert counter._task is not None  # noqa: SLF001 - nobody else could tell when it is through
    await counter._task  # noqa: SLF001
    assert store.counted == {"a": 1}
    assert counter.uncounted == 0


async def test_flush_raises_the_error_of_an_unreachable_database() -> None:
    """The accesses wait on, and are counted once by the next call."""
    store = Store(errors=[AWAY])
    counter = _counter(store)
    counter.count(1, ["a"], MAY)
    with pytest.raises(DatabaseUnreachableError):
        await counter.flush()
    counter.count(1, ["a", "b"], MAY)
    await counter.flush()
    assert store.counted == {"a": 2, "b": 1}
    await counter.aclose()


@pytest.mark.parametrize("outcomes", [[], ["in progress", "aborted"]])
async def test_a_lost_answer_counts_nothing_twice(outcomes: list[str]) -> None:
    """The transaction's state decides; while it is unknown, the accesses wait."""
    store = Store(late=[AWAY], outcomes=outcomes)
    counter = _counter(store)
    counter.count(1, ["a"], MAY)
    for _ in range(len(outcomes) or 1):
        with pytest.raises(DatabaseError):
            await counter.flush()
    await counter.flush()
    assert store.counted == {"a": 1}
    await counter.aclose()


async def test_waiting_accesses_are_bounded_and_losses_counted() -> None:
    """Further memories are not counted; at the end, without a database, none of the waiting ones is."""
    store = Store(errors=[AWAY, AWAY])
    counter = _counter(store, most_waiting=2)
    counter.count(1, ["a", "b", "c", "a"], MAY)
    assert counter.uncounted == 1
    await counter.aclose()
    assert counter.uncounted == 4
    assert not store.counted


async def test_a_caller_that_stops_waiting_loses_nothing() -> None:
    """Its waiting counts are sent again."""
    started, go_on = asyncio.Event(), asyncio.Event()
    store = Store()

    async def slow(database: Database, tenant: int, counts: Counts, begun: Callable[[str], None]) -> None:
        started.set()
        await go_on.wait()
        await store.add(database, tenant, counts, begun)

    counter = AccessCounter(NO_DATABASE, 1, add=slow, outcome=store.outcome)
    counter.count(1, ["a"], MAY)
    waiting = asyncio.create_task(counter.flush())
    await started.wait()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    go_on.set()
    await counter.aclose()
    assert store.counted == {"a": 1}


async def test_flush_does_not_wait_for_later_accesses() -> None:
    """With continuous reads it returns once the accesses before the call are counted."""
    store = Store()

    async def busy(database: Database, tenant: int, counts: Counts, begun: Callable[[str], None]) -> None:
        await store.add(database, tenant, counts, begun)
        if len(store.batches) < 50:
            counter.count(1, ["a"], MAY)

    counter = AccessCounter(NO_DATABASE, 1, add=busy, outcome=store.outcome)
    counter.count(1, ["a", "b"], MAY)
    await counter.flush()
    assert store.counted == {"a": 1, "b": 1}
    await counter.aclose()


async def test_an_unexpected_error_loses_counts_only_at_the_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has its traceback, and the counts are sent again; counts left at the end are lost."""
    monkeypatch.setattr(module, "LINGER_SECONDS", 0.001)
    store = Store(errors=[ValueError("of nobody's"), None, ValueError("again")])
    counter = _counter(store)
    counter.count(1, ["a"], MAY)
    assert counter._task is not None  # noqa: SLF001 - nobody else could tell when it is through
    await counter._task  # noqa: SLF001
    assert store.counted == {"a": 1}
    assert [record.exc_info is not None for record in caplog.records] == [True]
    counter.count(1, ["a"], MAY)
    await counter.aclose()
    assert (store.counted, counter.uncounted) == ({"a": 1}, 1)


async def test_accesses_of_a_cancelled_task_are_lost() -> None:
    """The loss is reported at the end."""
    counter = _counter(Store())
    counter.count(1, ["a", "b"], MAY)
    assert counter._task is not None  # noqa: SLF001 - nobody else could cancel it
    counter._task.cancel()  # noqa: SLF001
    await counter.aclose()
    assert counter.uncounted == 2


async def test_closing_ends_while_the_database_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The accesses that wait are lost."""
    monkeypatch.setattr(deadline, "CLOSING_SECONDS", 0.01)
    counter = _counter(Store())

    async def add(*_: object) -> None:
        await asyncio.Event().wait()

    counter.add = add
    counter.count(1, ["a", "b"], MAY)
    await asyncio.wait_for(counter.aclose(), 5)
    assert counter.uncounted == 2
