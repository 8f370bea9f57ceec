"""The recorder: batches, waiting for an unavailable database, and counting losses."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import UUID

import pytest

from retrieval.adapters.store import deadline
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.records.recording_statement import encoded
from retrieval.adapters.store.records.recordings import Losses
from retrieval.domain.errors import DatabaseError, DatabaseUnreachableError
from retrieval.engine import recorder as module
from retrieval.engine.record import AnsweredSearch, EncodedRecord, encoded_record
from retrieval.engine.recorder import OVERFLOW, REFUSED, UNREACHABLE, UNWRITABLE, Recorder
from tests.support.recording import answered_search
from tests.support.rows import value_of

CHANCE = random.Random(5)


@dataclass
class Pool:
    """A stand-in for the database; the recorder itself only asks for its loop, and whether it is in use."""

    is_used: bool = False

    def check_loop(self) -> None:
        """Let every loop pass."""


NO_DATABASE = cast("Database", Pool())


def _search(**more: Any) -> AnsweredSearch:
    return answered_search(chance=CHANCE, **more)


@dataclass
class Store:
    """Takes records in place of the database; ``errors`` are raised first, one a call."""

    errors: list[Exception] = field(default_factory=list)
    refused: set[UUID] = field(default_factory=set)
    batches: list[int] = field(default_factory=list)
    kept: list[UUID] = field(default_factory=list)
    lost: dict[Any, int] = field(default_factory=dict)
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    """Whether the database answers."""
    has_kept: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.answers.set()

    async def __call__(self, _: Database, __: int, rows: Sequence[bytes], losses: Losses) -> frozenset[UUID]:
        """Keep the records, or fail."""
        await self.answers.wait()
        if self.errors:
            raise self.errors.pop(0)
        ids = [value_of(row, "retrieval_id") for row in rows]
        if self.refused & set(ids):
            raise DatabaseError("the database refused: a row")
        self.batches.append(len(ids))
        self.kept += ids
        self.has_kept.set()
        for key, number in losses.items():
            self.lost[key[2]] = self.lost.get(key[2], 0) + number
        return frozenset(ids)


def _recorder(store: Store, **more: Any) -> Recorder:
    return Recorder(NO_DATABASE, 1, store_together=store, **more)


async def test_records_wait_while_a_search_uses_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are stored when nothing uses it; and where it is always in use, after a number of times."""
    monkeypatch.setattr(module, "LINGER_SECONDS", 0.001)
    monkeypatch.setattr(module, "MOST_LINGERS", 1000)
    store, pool = Store(), Pool(is_used=True)
    recorder = Recorder(cast("Database", pool), 1, store_together=store)
    recorder.offer(_search())
    await asyncio.sleep(0.05)
    assert store.batches == []
    pool.is_used = False
    await asyncio.wait_for(store.has_kept.wait(), 5)
    pool.is_used = True
    monkeypatch.setattr(module, "MOST_LINGERS", 3)
    store.has_kept.clear()
    recorder.offer(_search())
    await asyncio.wait_for(store.has_kept.wait(), 5)


async def test_urgent_records_do_not_wait_for_searches() -> None:
    """A caller that waits for them, or the end of the platform, has them stored at once."""
    store = Store()
    recorder = Recorder(cast("Database", Pool(is_used=True)), 1, store_together=store)
    recorder.offer(_search())
    await asyncio.wait_for(recorder.recorded(), 0.9)
    assert store.batches == [1]
    recorder.offer(_search())
    await recorder.aclose()
    assert store.batches == [1, 1]


async def test_searches_are_stored_together_in_their_order() -> None:
    """Three offered at once are one statement."""
    store = Store()
    recorder = _recorder(store)
    searches = [_search() for _ in range(3)]
    assert all(recorder.offer(search) for search in searches)
    assert recorder.state.waiting == 3
    await recorder.recorded()
    assert store.kept == [search.retrieval_id for search in searches]
    assert store.batches == [3]
    assert (recorder.state.recorded, recorder.state.waiting, recorder.state.lost) == (3, 0, {})


async def test_a_record_may_be_encoded_before_it_is_offered() -> None:
    """It is stored as if the recorder had encoded it."""
    search = _search()
    record = EncodedRecord(search.retrieval_id, search.collection_id, encoded(search.record()))
    assert encoded_record(search) == record == encoded_record(record)
    store = Store()
    recorder = _recorder(store)
    recorder.offer(record)
    await recorder.recorded()
    assert store.kept == [record.retrieval_id]


async def test_closing_stores_what_waits() -> None:
    """More than one batch, none lost."""
    store = Store()
    recorder = _recorder(store)
    for _ in range(module.BATCH + 2):
        recorder.offer(_search())
    await recorder.aclose()
    assert store.batches == [module.BATCH, 2]


async def test_a_search_that_waits_knows_its_record_is_stored() -> None:
    """``store`` returns after the statement."""
    store = Store()
    search = _search()
    assert await _recorder(store).store([search]) == [True]
    assert store.kept == [search.retrieval_id]


async def test_a_search_beyond_the_room_is_counted_at_once() -> None:
    """The caller's result has no record, and the next record reports the loss to the database."""
    store = Store()
    recorder = _recorder(store, most_waiting=2)
    assert [recorder.offer(_search()) for _ in range(4)] == [True, True, False, False]
    assert recorder.state.lost == {OVERFLOW: 2}
    await recorder.recorded()
    assert store.lost == {OVERFLOW: 2}
    await recorder.aclose()
    assert store.lost == {OVERFLOW: 2}


async def test_records_wait_while_the_database_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """``recorded`` says so; the records are stored when it is back, without being asked again."""
    monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 0.001)
    store = Store(errors=[DatabaseUnreachableError("away"), DatabaseUnreachableError("away")])
    recorder = _recorder(store)
    search = _search()
    recorder.offer(search)
    with pytest.raises(DatabaseUnreachableError, match="away"):
        await recorder.recorded()
    assert recorder.state.waiting == 1
    await store.has_kept.wait()
    assert store.kept == [search.retrieval_id]
    assert recorder.state.lost == {}


async def test_searches_do_not_cut_short_the_pause_of_a_database_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a batch of them make no attempt of their own; who flushes makes one."""
    monkeypatch.setattr(module, "LONGEST_PAUSE_SECONDS", 60)
    monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 60)
    store = Store(errors=[DatabaseUnreachableError("away")] * 100)
    recorder = _recorder(store)
    for _ in range(module.BATCH):
        recorder.offer(_search())
    for _ in range(2):
        with pytest.raises(DatabaseUnreachableError, match="away"):
            await recorder.recorded()
    for _ in range(20):
        recorder.offer(_search())
        await asyncio.sleep(0)
    assert len(store.errors) == 98
    store.errors.clear()
    await recorder.aclose()
    assert len(store.kept) == module.BATCH + 20


async def test_a_search_that_waits_is_answered_when_the_database_is_away() -> None:
    """It has no record, is counted, and no later attempt brings the record back."""
    store = Store(errors=[DatabaseUnreachableError("away")])
    recorder = _recorder(store)
    assert await recorder.store([_search()]) == [False]
    assert recorder.state.lost == {UNREACHABLE: 1}
    await recorder.aclose()
    assert store.kept == []


async def test_a_search_waits_for_its_record_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the database does not answer, the search does."""
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.001)
    store = Store()
    store.answers.clear()
    recorder = _recorder(store)
    assert await recorder.store([_search()]) == [False]
    store.answers.set()
    await recorder.aclose()


async def test_closing_while_the_database_is_away_ends(caplog: pytest.LogCaptureFixture) -> None:
    """Waiting records are counted as lost, with a line in the log."""
    store = Store(errors=[DatabaseUnreachableError("away")])
    recorder = _recorder(store)
    recorder.offer(_search())
    with caplog.at_level("WARNING", logger=module.__name__):
        await recorder.aclose()
    assert recorder.state.lost == {UNREACHABLE: 1}
    assert "1 searches were not recorded" in caplog.text


async def test_closing_ends_while_the_database_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A table may be locked, or a standby away that every commit waits for."""
    monkeypatch.setattr(deadline, "CLOSING_SECONDS", 0.01)
    store = Store()
    store.answers.clear()
    recorder = _recorder(store)
    recorder.offer(_search())
    with caplog.at_level("WARNING", logger=module.__name__):
        await asyncio.wait_for(recorder.aclose(), 5)
    assert recorder.state.lost == {UNREACHABLE: 1}
    assert "1 searches were not recorded: the database did not store them in time" in caplog.text


async def test_one_that_is_refused_does_not_cost_the_others() -> None:
    """The others are stored one by one."""
    searches = [_search() for _ in range(3)]
    store = Store(refused={searches[1].retrieval_id})
    recorder = _recorder(store)
    for search in searches:
        recorder.offer(search)
    await recorder.recorded()
    assert store.kept == [searches[0].retrieval_id, searches[2].retrieval_id]
    assert recorder.state.lost == {REFUSED: 1}


async def test_one_that_cannot_be_written_down_does_not_cost_the_others() -> None:
    """It is counted under a reason of its own."""
    store = Store()
    recorder = _recorder(store)
    good = _search()
    recorder.offer(_search(scores={"dense": {"a": float("nan")}}))
    recorder.offer(good)
    await recorder.recorded()
    assert store.kept == [good.retrieval_id]
    assert recorder.state.lost == {UNWRITABLE: 1}


async def test_losses_are_stored_once_with_the_search_of_the_first_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """If an answer was lost, the repetition brings the same search first and the same losses, later ones later."""
    monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 60)
    counts = list[tuple[int, int]]()

    class Noting(Store):
        async def __call__(self, database: Database, tenant: int, rows: Sequence[bytes], losses: Losses) -> Any:
            counts.append((len(rows), sum(losses.values())))
            return await super().__call__(database, tenant, rows, losses)

    recorder = _recorder(Noting(errors=[DatabaseUnreachableError("the answer was lost")]), most_waiting=1)
    recorder.offer(_search())
    assert not recorder.offer(_search())
    with pytest.raises(DatabaseUnreachableError):
        await recorder.recorded()
    assert not recorder.offer(_search())
    recorder.most_waiting = 2
    recorder.offer(_search())
    await recorder.recorded()
    await recorder.aclose()
    assert counts == [(1, 1), (2, 1), (0, 1)]


async def test_losses_are_kept_where_the_search_they_were_sent_with_is_not_stored() -> None:
    """If its collection was removed, the next statement sends the losses."""
    store = Store()

    async def gone(*_: object) -> frozenset[UUID]:
        return frozenset()

    recorder = Recorder(NO_DATABASE, 1, store_together=gone, most_waiting=1)
    recorder.offer(_search())
    recorder.offer(_search())
    await recorder.recorded()
    recorder.store_together = store
    await recorder.aclose()
    assert store.lost == {OVERFLOW: 1, REFUSED: 1}


async def test_losses_are_stored_at_the_end_after_an_outage() -> None:
    """Only where it is still away there is no use in it."""
    store = Store(errors=[DatabaseUnreachableError("away")])
    recorder = _recorder(store)
    await recorder.store([_search()])
    recorder.offer(_search())
    await recorder.recorded()
    recorder.most_waiting = 0
    recorder.offer(_search())
    await recorder.aclose()
    assert store.lost == {UNREACHABLE: 1, OVERFLOW: 1}


async def test_recording_continues_after_any_error() -> None:
    """After any error, later searches are recorded."""
    store = Store(errors=[RuntimeError("a defect")])
    recorder = _recorder(store)
    recorder.offer(_search())
    await recorder.recorded()
    assert recorder.state.lost == {REFUSED: 1}
    search = _search()
    recorder.offer(search)
    await recorder.recorded()
    assert store.kept == [search.retrieval_id]


async def test_flushing_ends_beside_searches_that_never_cease() -> None:
    """It waits for the searches offered before it, not for later ones."""
    searches = [_search() for _ in range(20)]

    class Beside(Store):
        async def __call__(self, database: Database, tenant: int, rows: Sequence[bytes], losses: Losses) -> Any:
            if searches:
                recorder.offer(searches.pop())
            return await super().__call__(database, tenant, rows, losses)

    store = Beside()
    recorder = _recorder(store)
    recorder.offer(searches.pop())
    await recorder.recorded()
    assert 0 < len(store.kept) < 3
    await recorder.aclose()


async def test_without_searches_there_is_nothing_to_wait_for() -> None:
    """Flushing and closing an idle recorder return at once, and ask the database nothing."""
    store = Store()
    recorder = _recorder(store)
    await recorder.recorded()
    assert await recorder.store([]) == []
    await recorder.aclose()
    assert store.batches == []
