"""Recording of searches after their answers, and sampling of some of them.

A search waits for its record only if its profile says so, and never fails because of it. While the database is
unreachable, records wait in memory. Records that find no room or that the database refuses are counted by reason.

A search neither waits for its sample nor fails because of it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from itertools import islice
from uuid import UUID

from retrieval.adapters.store.database import CollectionPlace, Database
from retrieval.adapters.store.deadline import ended, in_background
from retrieval.adapters.store.records.recording_statement import TOGETHER
from retrieval.adapters.store.records.recordings import Losses, store_recordings
from retrieval.adapters.store.search.candidate_request import CandidateRequest, Query
from retrieval.adapters.store.search.candidates import LegResults
from retrieval.adapters.store.search.recall import keep_sample
from retrieval.adapters.tracing import span
from retrieval.domain.errors import (
    DatabaseBusyError,
    DatabaseUnreachableError,
    InvalidFilterError,
    PoolExhaustedError,
    RetrievalError,
)
from retrieval.domain.items.embedding import Vector
from retrieval.domain.observer import Observer
from retrieval.domain.records.retrieval_id import time_of
from retrieval.domain.search.filters import as_mapping, parse_where
from retrieval.domain.search.hit import Path
from retrieval.domain.search.profile_parts import Recording
from retrieval.engine.record import AnsweredSearch, EncodedRecord, Recordable, encoded_record

_log = logging.getLogger(__name__)

MOST_WAITING = 2000
"""The most records that wait to be stored; further searches are not recorded."""

BATCH = TOGETHER
"""The most records that one statement stores."""

LINGER_SECONDS = 0.05
"""The time that the first record of a batch waits for others."""

MOST_LINGERS = 20
"""The most times that a batch waits while the database is in use: searches take precedence over records."""

WAIT_SECONDS = 5.0
"""The longest time that a search waits for its record, if its profile says that it waits."""

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 5.0
"""Pauses between attempts while the database is unreachable; each pause is twice the one before."""

OVERFLOW, UNREACHABLE, REFUSED, UNWRITABLE = "overflow", "unreachable", "refused", "unwritable"
"""Reasons for a lost record: no room, database unreachable until the end, refused by it, or not encodable."""

Store = Callable[[Database, int, Sequence[bytes], Losses], Awaitable[frozenset[UUID]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingState:
    """The counts of recorded searches since the platform was opened."""

    recorded: int
    """Searches that are in the database."""
    waiting: int
    """Searches that are still to be stored."""
    lost: Mapping[str, int]
    """Searches that were not recorded, by reason: ``overflow``, ``unreachable``, ``refused``, ``unwritable``."""


@dataclass(slots=True, eq=False)
class _Waiting:
    answered: Recordable
    number: int
    """The number of the search, from 1, in order."""
    stored: asyncio.Future[bool] | None
    """Completed when the record is stored, for a search that waits for its record."""

    def encode(self) -> EncodedRecord:
        """Encode the record, unless it is encoded already, and let go of the answer."""
        self.answered = record = encoded_record(self.answered)
        return record


@dataclass(slots=True, eq=False)
class Recorder:
    """Records a platform's searches. Records wait in memory, encoded as rows."""

    database: Database
    tenant_id: int
    most_waiting: int = MOST_WAITING
    store_together: Store = store_recordings
    observer: Observer | None = None
    """Called with the numbers of stored and lost records; None: no observer."""
    _queue: deque[_Waiting] = field(default_factory=deque)
    _offered: int = 0
    _recorded: int = 0
    _lost: Counter[str] = field(default_factory=Counter)
    _unstored_losses: Counter[tuple[int, date, str]] = field(default_factory=Counter)
    """Losses that are not in the database yet."""
    _sent_losses: tuple[UUID, Losses] | None = None
    """The losses sent last, after the search that they were sent with."""
    _task: asyncio.Task[None] | None = None
    _hurry: asyncio.Event = field(default_factory=asyncio.Event)
    _flushes: list[tuple[int, asyncio.Future[None]]] = field(default_factory=list)
    """The callers that wait until all records up to a number are settled."""
    _running: int = 0
    """The number of calls in progress."""
    _idle: asyncio.Event = field(default_factory=asyncio.Event)
    _is_closing: bool = False
    _pause: float = 0.0
    """Seconds until the next attempt; 0 unless the last attempt failed."""

    @property
    def state(self) -> RecordingState:
        """The state of recording."""
        return RecordingState(recorded=self._recorded, waiting=len(self._queue), lost=dict(self._lost))

    def ready(self, answered: AnsweredSearch) -> Recordable:
        """The record of a long answer, encoded, for ``offer`` and ``store``; a replay keeps the answer itself."""
        return encoded_record(answered)

    def offer(self, answered: Recordable) -> bool:
        """Record the search after its answer; False: there is no room."""
        return self._enqueue(answered, None)

    async def store(self, each: Sequence[Recordable]) -> list[bool]:
        """Record the searches now; returns whether each is in the database."""
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in each]
        for answered, future in zip(each, futures, strict=True):
            self._enqueue(answered, future)
        self._hurry.set()
        if futures:
            await asyncio.wait(futures, timeout=WAIT_SECONDS)
        for future in futures:
            future.cancel()  # without effect on a finished future
        return [not future.cancelled() and future.result() for future in futures]

    async def recorded(self) -> None:
        """Wait until every search offered so far is in the database, or counted as lost.

        Raises ``DatabaseUnreachableError`` or ``PoolExhaustedError``; the searches then keep waiting.
        """
        self.database.check_loop()
        if self._queue:
            future = asyncio.get_running_loop().create_future()
            self._flushes.append((self._offered, future))
            self._begin()
            self._hurry.set()
            await future

    def begin_call(self) -> None:
        """Let ``aclose`` wait until ``end_call``, because the call may record something."""
        self._running += 1

    def end_call(self) -> None:
        """End a call that ``begin_call`` began."""
        self._running -= 1
        if not self._running:
            self._idle.set()

    async def aclose(self) -> None:
        """Store the records, also of calls in progress, or count them as lost, and store the losses."""
        if self._running:
            self._idle.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT_SECONDS):
                    await self._idle.wait()
        self._is_closing = True
        self._hurry.set()
        if self._task is not None and not await ended(self._task, lambda: len(self._queue)):
            self._put_off(DatabaseBusyError("the database did not store them in time"))
        elif self._unstored_losses and not self._pause:
            try:
                await self.store_together(self.database, self.tenant_id, (), self._unstored_losses)
            except RetrievalError as error:
                _log.warning(
                    "%d lost searches were not counted in the database: %s", self._unstored_losses.total(), error
                )

    def _enqueue(self, answered: Recordable, stored: asyncio.Future[bool] | None) -> bool:
        self._offered += 1
        waiting = _Waiting(answered, self._offered, stored)
        if len(self._queue) >= self.most_waiting or self._is_closing:
            self._lose(waiting, OVERFLOW)
            return False
        self._queue.append(waiting)
        # In the next turn of the event loop: not now, because a caller that awaits the search itself gets its answer
        # first, and not later, because the garbage collector would traverse the objects of waiting answers.
        asyncio.get_running_loop().call_soon(waiting.encode)
        self._begin()
        if len(self._queue) >= BATCH and not self._pause:  # a pause spares the database
            self._hurry.set()
        return True

    def _begin(self) -> None:
        if self._task is None or self._task.done():
            self._hurry.clear()
            self._task = in_background(self._work())

    async def _work(self) -> None:
        """Store records until none waits."""
        self._pause = 0.0
        while self._queue:
            await self._linger()
            try:
                await self._store_some()
                self._pause = 0.0
            except (DatabaseUnreachableError, PoolExhaustedError) as error:
                self._pause = min(max(2 * self._pause, FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
                self._put_off(error)
            self._finish_flushes()

    async def _linger(self) -> None:
        """Wait for more records, and while searches use the database (limited), unless a caller waits for a record."""
        for _ in range(MOST_LINGERS):
            is_urgent = await self._wait(self._pause or LINGER_SECONDS)
            if is_urgent or self._pause or not self.database.is_used:
                return

    async def _wait(self, seconds: float) -> bool:
        """Wait that long, or until a caller waits for its record; returns True in the latter case."""
        if not self._is_closing:
            try:
                async with asyncio.timeout(seconds):
                    await self._hurry.wait()
            except TimeoutError:
                return False
        self._hurry.clear()
        return True

    async def _store_some(self) -> None:
        """Store the first waiting records; they stay in the queue until they are stored."""
        while batch := self._batch():
            try:
                await self._store(batch)
            except (DatabaseUnreachableError, PoolExhaustedError):
                raise
            except Exception as error:  # noqa: BLE001 - after any error the other records must be stored
                await self._store_apart(batch, error)
            self._finish_flushes()  # now: during steady searches the queue may never be empty
            if len(self._queue) < BATCH and not self._flushes and not self._is_closing:
                return

    def _batch(self) -> list[_Waiting]:
        """The first records of the queue, encoded; records that cannot be encoded are lost."""
        for entry in list(self._queue):
            if entry.stored is not None and entry.stored.cancelled():
                self._drop(entry, UNREACHABLE)
            elif entry.encode().row is None:
                self._drop(entry, UNWRITABLE)
        return list(islice(self._queue, BATCH))

    async def _store(self, batch: Sequence[_Waiting]) -> None:
        first = batch[0].answered.retrieval_id
        if self._sent_losses is None or self._sent_losses[0] != first:
            self._sent_losses = first, Counter(self._unstored_losses)
        losses = self._sent_losses[1]  # sent with the same search on each attempt, so that they count once
        rows = [row for entry in batch if (row := entry.encode().row) is not None]
        with span("retrieval.record_searches") as batch_span:
            stored = await self.store_together(self.database, self.tenant_id, rows, losses)
            if batch_span is not None:
                batch_span.set_attributes({"retrieval.tenant_id": self.tenant_id, "retrieval.searches": len(stored)})
        if self.observer is not None:
            self.observer.recorded(len(stored))
        if first in stored:
            self._unstored_losses.subtract(losses)
            self._unstored_losses = +self._unstored_losses
        for entry in batch:
            if entry.answered.retrieval_id not in stored:  # its collection was removed
                self._drop(entry, REFUSED)
                continue
            self._queue.remove(entry)
            self._recorded += 1
            if entry.stored is not None and not entry.stored.done():
                entry.stored.set_result(True)

    async def _store_apart(self, batch: Sequence[_Waiting], error: Exception) -> None:
        """Store the records one by one after an error, so that only the refused one is lost."""
        if len(batch) > 1:
            for entry in batch:
                try:
                    await self._store([entry])
                except (DatabaseUnreachableError, PoolExhaustedError):
                    raise
                except Exception as own:  # noqa: BLE001 - as above
                    await self._store_apart([entry], own)
        else:
            _log.warning("a search was not recorded: %s", error)
            self._drop(batch[0], REFUSED)

    def _put_off(self, error: RetrievalError) -> None:
        """Release waiting callers, as the database is unreachable; when closing, count all records as lost."""
        for entry in list(self._queue):
            if self._is_closing or entry.stored is not None:
                self._drop(entry, UNREACHABLE)
        if self._is_closing:
            _log.warning("%d searches were not recorded: %s", self._lost[UNREACHABLE], error)
        else:
            _log.info("%d searches wait to be recorded: %s", len(self._queue), error)
        flushes, self._flushes = self._flushes, []
        for _, future in flushes:
            if not future.done():
                future.set_exception(type(error)(str(error)))
        self._hurry.clear()  # no caller waits for the next attempt

    def _finish_flushes(self) -> None:
        settled = self._queue[0].number - 1 if self._queue else self._offered
        for number, future in self._flushes:
            if number <= settled and not future.done():
                future.set_result(None)
        self._flushes = [(number, future) for number, future in self._flushes if not future.done()]

    def _drop(self, waiting: _Waiting, reason: str) -> None:
        self._queue.remove(waiting)
        self._lose(waiting, reason)

    def _lose(self, waiting: _Waiting, reason: str) -> None:
        answered = waiting.answered
        self._lost[reason] += 1
        if self.observer is not None:
            self.observer.unrecorded(reason)
        self._unstored_losses[answered.collection_id, time_of(answered.retrieval_id).date(), reason] += 1
        if waiting.stored is not None and not waiting.stored.done():
            waiting.stored.set_result(False)


def is_sampled(recording: Recording, chance: random.Random) -> bool:
    """Whether a search is recorded, drawn at the recording's rate."""
    return recording.rate >= 1 or (recording.rate > 0 and chance.random() < recording.rate)


MOST_SAMPLES_WAITING = 8
"""The most samples that are stored at the same time; further ones are dropped."""


@dataclass(slots=True)
class Sampler:
    """Stores a share of the searches that an HNSW index answered."""

    database: Database
    tenant_id: int
    rate: float
    """The share of searches to store, 0 to 1."""
    chance: random.Random
    waiting: set[asyncio.Task[None]] = field(default_factory=set)

    def offer(self, searched: Sequence[tuple[CandidateRequest, Query, LegResults]]) -> None:
        """Store each search as a sample, with probability ``rate``, unless it compared every vector (recall 1).

        If more are drawn than may wait, each of them is as likely to be stored.
        """
        drawn = [
            (request, query.vector)
            for request, query, leg_results in searched
            if leg_results.path is Path.APPROXIMATE and query.vector is not None and self.chance.random() < self.rate
        ]
        free = max(MOST_SAMPLES_WAITING - len(self.waiting), 0)
        for request, vector in self.chance.sample(drawn, min(len(drawn), free)):
            self._keep(request, vector)

    def _keep(self, request: CandidateRequest, vector: Vector) -> None:
        try:
            condition = None if request.condition is None else as_mapping(request.condition)
            parse_where(condition)
        except (ValueError, InvalidFilterError):  # a filter on the text itself, or nested too deeply
            return
        place, space_id = CollectionPlace(self.database, self.tenant_id, request.collection_id), request.space_id
        kept = keep_sample(place, space_id, vector=vector, condition_json=condition, limit=request.depth)
        task = in_background(kept)
        self.waiting.add(task)
        task.add_done_callback(self._done)

    async def aclose(self) -> None:
        """Wait for the samples that are being stored."""
        await ended(asyncio.gather(*self.waiting, return_exceptions=True), lambda: len(self.waiting))

    def _done(self, task: asyncio.Task[None]) -> None:
        self.waiting.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, RetrievalError):
            _log.info("a sample was not stored: %s", error)
        elif error is not None:
            _log.warning("a sample was not stored", exc_info=error)
