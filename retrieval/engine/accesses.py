"""Counts retrievals of memories after the answer, many in one statement, in one background task of a platform.

A counter holds one number for each memory that was retrieved since its last write. While the database is
unreachable, the numbers wait in memory; they are lost if the process is killed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from retrieval.adapters.store.database import Database
from retrieval.adapters.store.deadline import ended, in_background
from retrieval.adapters.store.items.memories import Accesses, Counts, add_accesses, outcome_of
from retrieval.domain.errors import DatabaseError, RetrievalError

_log = logging.getLogger(__name__)

MOST_WAITING = 100_000
"""The most memories whose accesses can wait; accesses of further memories are not counted."""

BATCH = 1000
"""The most memories that one statement counts."""

LINGER_SECONDS = 0.2
"""The time that the first access waits for others."""

LONGEST_PAUSE_SECONDS = 5.0
"""The longest pause between attempts while the database is unreachable; each pause is twice the one before."""


@dataclass(slots=True)
class _Batch:
    counts: Counts
    transaction: str | None = None
    """None: the batch cannot have been committed."""


@dataclass(slots=True, eq=False)
class AccessCounter:
    """Counts a platform's retrievals of memories."""

    database: Database
    tenant_id: int
    most_waiting: int = MOST_WAITING
    add: Callable[[Database, int, Counts, Callable[[str], None]], Awaitable[None]] = add_accesses
    outcome: Callable[[Database, int, str], Awaitable[str]] = outcome_of
    uncounted: int = 0
    """Accesses that were not counted: there was no room, or the database stayed unreachable until the end."""
    _waiting: dict[tuple[int, str], Accesses] = field(default_factory=dict)
    _unanswered: _Batch | None = None
    """The batch that was sent and has no answer yet."""
    _sending: asyncio.Lock = field(default_factory=asyncio.Lock)
    _task: asyncio.Task[None] | None = None
    _closing: asyncio.Event = field(default_factory=asyncio.Event)

    def count(self, collection_id: int, item_ids: Iterable[str], at: datetime) -> None:
        """Count one access of each item, a moment later."""
        for item_id in item_ids:
            key, access = (collection_id, item_id), Accesses(1, at)
            if key in self._waiting:
                self._waiting[key] = self._waiting[key].plus(access)
            elif len(self._waiting) < self.most_waiting and not self._closing.is_set():
                self._waiting[key] = access
            else:
                self.uncounted += 1
        if self._waiting and (self._task is None or self._task.done()):
            self._task = in_background(self._work())

    async def flush(self) -> None:
        """Store every access so far. Raises ``DatabaseError``; the accesses then keep waiting."""
        async with self._sending:
            if self._unanswered is not None:
                await self._settle(self._unanswered)
            keys = sorted(self._waiting)  # without the counts of later calls, which may never end
            for start in range(0, len(keys), BATCH):
                part = {key: self._waiting.pop(key) for key in keys[start : start + BATCH] if key in self._waiting}
                self._unanswered = _Batch(part)
                await self._settle(self._unanswered)

    async def aclose(self) -> None:
        """Store the waiting accesses; those that cannot be stored are lost."""
        self._closing.set()
        if self._task is not None:
            await ended(self._task, lambda: len(self._waiting))
        if self._waiting or self._unanswered is not None:
            self._give_up("the counter was stopped")

    async def _work(self) -> None:
        """Count until nothing waits."""
        pause = LINGER_SECONDS
        while self._waiting or self._unanswered is not None:
            await self._wait(pause)
            try:
                await self.flush()
                pause = LINGER_SECONDS
            except Exception as error:  # noqa: BLE001 - after any error the accesses wait; at the end they are lost, with a warning
                if self._closing.is_set():
                    self._give_up(error)
                    return
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
                is_expected = isinstance(error, RetrievalError)
                level = logging.INFO if is_expected else logging.ERROR
                message = "the accesses of %d memories wait to be counted: %s"
                _log.log(level, message, len(self._waiting), error, exc_info=not is_expected)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            pass

    async def _settle(self, batch: _Batch) -> None:
        if batch.transaction is None or not await self._is_committed(batch.transaction):
            batch.transaction = None

            def keep(transaction: str) -> None:
                batch.transaction = transaction

            await self.add(self.database, self.tenant_id, batch.counts, keep)
        self._unanswered = None

    async def _is_committed(self, transaction: str) -> bool:
        """True if the batch is in the database, although the answer to its statement was lost."""
        outcome = await self.outcome(self.database, self.tenant_id, transaction)
        if outcome == "in progress":
            raise DatabaseError("the database still counts the accesses that were sent before; try again in a moment")
        return outcome == "committed"

    def _give_up(self, why: object) -> None:
        uncounted = [*self._waiting.values(), *(self._unanswered.counts.values() if self._unanswered else ())]
        self.uncounted += sum(access.number for access in uncounted)
        _log.warning("%d accesses of memories were not counted: %s", self.uncounted, why)
        self._waiting.clear()
        self._unanswered = None
