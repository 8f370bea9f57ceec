"""Many items in one request: lines stream in, are stored in batches, and each is told what became of it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from retrieval.adapters.readers.jsonl import item_from_line
from retrieval.adapters.store.deadline import current_deadline, late
from retrieval.collection import Collection
from retrieval.domain.errors import InvalidItemError, RetrievalError
from retrieval.domain.item import Item
from retrieval.domain.stored_item import Became
from retrieval.jobs.add import AddReport
from retrieval.jobs.add_each import ItemOutcome
from retrieval.surfaces.http.caller import STILL_ALLOWED
from retrieval.surfaces.http.intake import Intake
from retrieval.surfaces.http.ndjson import MAX_LINE_BYTES, StreamLine
from retrieval.surfaces.http.problems import problem_of
from retrieval.surfaces.http.request_refusals import BodyTimeoutError, BrokenStreamError
from retrieval.surfaces.http.sent_items import sent_item
from retrieval.surfaces.http.spool import Spool

MEDIA_TYPE = "application/x-ndjson"

_REJECTED = "rejected"

_Line = Mapping[str, Any]
_Check = Callable[[], Awaitable[None]]


class BulkAnswer(Response):
    """Reads the body, stores its items, and answers meanwhile: a line for each of its lines, and at last a summary.

    What has its line is stored, and stays stored whatever happens to the rest; the summary says what happened, unless
    the client is gone. Neither the body nor the answer is ever whole in memory, also where the client reads nothing
    before it has sent everything.
    """

    def __init__(self, collection: Collection) -> None:
        super().__init__(media_type=MEDIA_TYPE)
        del self.headers["content-length"]
        self._collection = collection

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request."""
        intake = Intake(receive)
        still_allowed: _Check = scope.get("state", {}).get(STILL_ALLOWED, _nothing)
        with Spool() as spool:
            tasks = [asyncio.create_task(intake.run())]
            try:
                # A client may wait to be told to go on before it sends anything: asking for the body tells it.
                first = await intake.batch()
                tasks.append(asyncio.create_task(self._send(spool, send)))
                await spool.end(_lines([await self._store(first, intake, spool, still_allowed)]))
                await tasks[-1]
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, spool: Spool, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for part in spool.parts():
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _store(self, batch: list[StreamLine], intake: Intake, spool: Spool, still_allowed: _Check) -> _Line:
        """Store batch after batch, and tell of each of its lines; gives the summary."""
        done, told = AddReport(), Counter[str]()
        error: RetrievalError | None = None
        try:
            while batch:
                await still_allowed()
                outcomes, report = await self._added(batch)
                done += report
                told.update(one.became or _REJECTED for one in outcomes)
                await spool.write(_lines(_told(line, one) for line, one in zip(batch, outcomes, strict=True)))
                batch = await intake.batch()
            if intake.is_cut_off:
                # What is left to do for the indexes is left to jobs.
                raise BrokenStreamError
            done += (await self._collection.add_each([])).report
        except RetrievalError as broken:
            error = broken
        except asyncio.CancelledError:
            if not _is_late():
                raise
            error = BodyTimeoutError() if intake.is_awaited else late()
        return _summary(done, told, error)

    async def _added(self, batch: Sequence[StreamLine]) -> tuple[list[ItemOutcome], AddReport]:
        read = await asyncio.to_thread(lambda: [_read(line) for line in batch])
        added = await self._collection.add_each([one for one in read if isinstance(one, Item)], more=True)
        stored = iter(added.outcomes)
        outcomes = [next(stored) if isinstance(one, Item) else _refused(one) for one in read]
        return outcomes, added.report


async def _nothing() -> None:
    """Nobody checks."""


def _is_late() -> bool:
    """Whether the stream's time is over; else it was its client that ended it."""
    until = current_deadline()
    return until is not None and until.is_over


def _read(line: StreamLine) -> Item | InvalidItemError:
    if line.too_long:
        return InvalidItemError(f"the line is longer than {MAX_LINE_BYTES:,} bytes; split the item into several")
    try:
        return item_from_line(line.data, sent_item)
    except InvalidItemError as error:
        return error


def _refused(error: InvalidItemError) -> ItemOutcome:
    return ItemOutcome(item_id=error.item_id, error=error)


def _told(line: StreamLine, outcome: ItemOutcome) -> _Line:
    if outcome.error is not None:
        return {"line": line.number, "error": problem_of(outcome.error)}
    return {"line": line.number, "item_id": outcome.item_id, "result": outcome.became}


def _summary(done: AddReport, told: Mapping[str, int], error: RetrievalError | None) -> _Line:
    """The lines that were told each word, and what became of the items besides."""
    counts = {word: told.get(word, 0) for word in (*Became, _REJECTED)}
    summary = {"summary": {**counts, "embedded": done.embedded, "pending": done.pending, "notes": list(done.notes)}}
    return summary if error is None else {**summary, "error": problem_of(error)}


def _lines(told: Any) -> bytes:
    texts = (json.dumps(one, ensure_ascii=False, allow_nan=False, separators=(",", ":")) for one in told)
    return "".join(f"{text}\n" for text in texts).encode("utf-8", "replace")
