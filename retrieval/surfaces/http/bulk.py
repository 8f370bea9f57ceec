"""Many items in one request: stores a stream of lines in batches, and streams the result of each line back.

A client may send its whole body before it reads any of the response, so storing must not wait until it reads.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import Any, Self, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from retrieval.adapters.readers.csv_files import CsvRecords, names_separator
from retrieval.adapters.readers.item_files import item_from_line, with_id
from retrieval.adapters.readers.lines import decoded
from retrieval.adapters.readers.records import mapped_columns, mapped_record
from retrieval.adapters.store.deadline import current_deadline, late
from retrieval.collection import Collection, handle_of
from retrieval.domain.errors import (
    ConfigurationError,
    InvalidItemError,
    InvalidRequestError,
    RetrievalError,
    UnknownCollectionError,
)
from retrieval.domain.items.item import Became, Item
from retrieval.services.add import AddReport, ItemOutcome
from retrieval.services.ingest import SeenIds, WithoutText
from retrieval.services.items import add_each, finished
from retrieval.surfaces.http import problems
from retrieval.surfaces.http.answers import report
from retrieval.surfaces.http.caller import STILL_ALLOWED
from retrieval.surfaces.http.json_bodies import received_item, sent_item
from retrieval.surfaces.http.telemetry import current_request_id

T = TypeVar("T")

MAX_LINE_BYTES = 1024 * 1024
"""The longest line without its line break; in a CSV the longest record."""

MEDIA_TYPE = "application/x-ndjson"
CSV_TYPE = "text/csv"
_JSON_TYPES = (MEDIA_TYPE, "application/ndjson", "application/jsonl", "application/x-jsonlines")


@dataclass(frozen=True, slots=True)
class StreamLine:
    """One line that is not blank, or one record of a CSV."""

    number: int
    """Counts lines from 1, including blank lines; for a record, the number of its first line."""
    data: bytes
    """The line without its line break; empty if it is too long."""
    too_long: bool = False


class LineCutter:
    """Splits a stream into lines; discards the content of lines that are too long.

    ``goes_on`` returns whether the line after this one belongs to it, as in quoted texts of a CSV; there, a first line
    that names the separator counts as blank.
    """

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES, *, goes_on: Callable[[bytes], bool] | None = None) -> None:
        self._limit = max_line_bytes
        self._goes_on = goes_on
        self._parts: list[bytes] = []
        self._size = self._breaks = self._before = 0
        self._number = 1

    def feed(self, data: bytes) -> list[StreamLine]:
        """The lines that this data completes."""
        *complete_parts, rest = data.split(b"\n")
        lines = [line for part in complete_parts if (line := self._end(part))]
        self._keep(rest)
        return lines

    def end(self) -> list[StreamLine]:
        """The last line, if the stream does not end with a line break."""
        line = self._end(b"", is_last=True)
        return [line] if line else []

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._limit:
            self._parts.clear()
        elif part:
            self._parts.append(part)

    def _end(self, part: bytes, *, is_last: bool = False) -> StreamLine | None:
        """The line that ends with this part; None if it is blank, or if the next line belongs to it."""
        if not (part or self._size or self._goes_on):  # a stream may have millions of empty lines
            self._number += 1
            return None
        self._keep(part)
        too_long, number = self._size > self._limit, self._number
        if self._goes_on and not (too_long or is_last) and self._goes_on(b"".join(self._parts[self._before :])):
            self._keep(b"\n")
            self._breaks, self._before = self._breaks + 1, len(self._parts)
            return None
        data = b"" if too_long else b"".join(self._parts)
        if number == 1:
            data = data.removeprefix(b"\xef\xbb\xbf")
            if self._goes_on and names_separator(data.decode("latin-1")):
                data = b""
        self._number += 1 + self._breaks
        self._parts, self._size, self._breaks, self._before = [], 0, 0, 0
        return StreamLine(number, data, too_long) if too_long or data.strip() else None


class LineReader:
    """Reads the lines of a stream as items, by the content type and the mapping of its request.

    ``id_from`` names the entry whose hash is the id if the JSON has none. Raises ``MediaTypeError`` for another content
    type, and ``InvalidRequestError`` for an invalid mapping or ``id_from``.
    """

    def __init__(self, content_type: str, mapping: Sequence[str], id_from: str | None = None) -> None:
        media_type = content_type.partition(";")[0].strip().lower()
        if media_type not in (*_JSON_TYPES, CSV_TYPE):
            raise problems.MediaTypeError(
                content_type, f"{MEDIA_TYPE} or {CSV_TYPE}", "JSON Lines, an item a line, or a CSV,"
            )
        columns = _configured(lambda: mapped_columns(mapping))
        if id_from is not None and (media_type == CSV_TYPE or not id_from):
            raise InvalidRequestError("id_from names an entry of JSON Lines; of a CSV, map a column: ?map=id=NAME")
        self._columns, self._id_from = columns, id_from
        self._records = CsvRecords("the CSV", columns) if media_type == CSV_TYPE else None
        self.cutter = LineCutter(goes_on=None if self._records is None else self._records.goes_on)

    def begin(self, lines: list[StreamLine]) -> list[StreamLine]:
        """The first lines of the stream without the header of a CSV.

        Raises ``InvalidRequestError`` for a header that does not describe items.
        """
        records = self._records
        if records is None or not lines:
            return lines
        header, *rest = lines
        try:
            _configured(lambda: records.begin(_text_of(header)))
        except InvalidItemError as error:
            raise InvalidRequestError(f"the CSV: the header cannot be read: {error}") from None
        return rest

    def read(self, line: StreamLine) -> Item | InvalidItemError:
        """The item of a line, or the reason why there is none."""
        try:
            text = _text_of(line)
            return (
                item_from_line(text, self._sent) if self._records is None else received_item(self._records.read(text))
            )
        except InvalidItemError as error:
            return error

    def _sent(self, record: Mapping[str, Any]) -> Item:
        return sent_item(with_id(mapped_record(record, self._columns), self._id_from))


def _text_of(line: StreamLine) -> str:
    if line.too_long:
        raise InvalidItemError(f"the line is longer than {MAX_LINE_BYTES:,} bytes; split the item into several")
    text, fault = decoded(line.data)
    if fault:
        raise InvalidItemError(fault)
    return text


def _configured(make: Callable[[], T]) -> T:
    """The result of ``make``; its ``ConfigurationError`` becomes an ``InvalidRequestError``."""
    try:
        return make()
    except ConfigurationError as error:
        refused = InvalidRequestError(error.fact)
        raise refused if error.advice is None else refused.advising(error.advice) from None


IN_MEMORY_BYTES = 1024 * 1024
MOST_BYTES = 256 * 1024 * 1024
"""The greatest number of unread bytes of the response: the results of more than a million lines."""

PART_BYTES = 64 * 1024


class Spool:
    """A queue of bytes that one task writes and another reads; a context manager. Large content is in a file.

    Its pieces are small, so a write or a read of the file takes less time than passing it to a thread.
    """

    def __init__(self, in_memory_bytes: int = IN_MEMORY_BYTES, most_bytes: int = MOST_BYTES) -> None:
        self._file = SpooledTemporaryFile(max_size=in_memory_bytes)  # noqa: SIM115 - closed at the end of the with
        self._most = most_bytes
        self._written = self._read = 0
        self._is_closed = False
        self._more = asyncio.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, data: bytes) -> None:
        """Append the bytes. Raises ``UnreadAnswerError`` if too many are unread."""
        if self._written + len(data) > self._most:
            raise problems.UnreadAnswerError(
                f"more than {self._most:,} bytes of the response are unread; read it while you send, or send fewer "
                "lines at once; send the lines without a result again"
            )
        self._append(data)

    def end(self, data: bytes = b"") -> None:
        """Append the last bytes, however many are unread."""
        self._is_closed = True
        self._append(data)

    async def parts(self) -> AsyncIterator[bytes]:
        """Yields everything that is written, part by part, as soon as it is written."""
        while True:
            while self._read < self._written:
                yield self._take()
            if self._is_closed:
                return
            self._more.clear()
            await self._more.wait()

    def _append(self, data: bytes) -> None:
        self._file.seek(self._written)
        self._written += self._file.write(data)
        self._more.set()

    def _take(self) -> bytes:
        self._file.seek(self._read)
        part = self._file.read(PART_BYTES)
        self._read += len(part)
        if self._read == self._written:
            # Everything was read: free the space.
            self._file.seek(0)
            self._file.truncate()
            self._written = self._read = 0
        return part


BATCH_LINES = 500
BATCH_BYTES = 4 * 1024 * 1024
"""A batch ends at whichever limit is reached first; the same amount is read ahead."""

PIECE_BYTES = 4096
"""The bytes that are cut into lines at once: thousands of short lines would keep other requests waiting."""


class Intake:
    """Reads the body in ``run``, and returns the lines that have arrived in ``batch``.

    If a client sends fast, many lines are stored together; if it waits for each result, it gets each at once.
    """

    def __init__(self, receive: Receive, cutter: LineCutter) -> None:
        self._receive = receive
        self._cutter = cutter
        self._lines: deque[StreamLine] = deque()
        self._bytes = 0
        self._is_over = False
        self._arrived, self._has_room = asyncio.Event(), asyncio.Event()
        self.is_cut_off = False
        """Whether the body is incomplete."""
        self.is_awaited = False
        """Whether all lines that arrived were returned, and more are expected."""

    async def run(self) -> None:
        """Read until the body ends or the client disconnects; pause while enough lines are waiting."""
        self.is_cut_off = True
        try:
            while (message := await self._receive())["type"] == "http.request":
                body = message.get("body", b"")
                for start in range(0, len(body), PIECE_BYTES):
                    if start:
                        await asyncio.sleep(0)
                        await self._room()
                    self._take(self._cutter.feed(body[start : start + PIECE_BYTES]))
                if not message.get("more_body", False):
                    self._take(self._cutter.end())
                    self.is_cut_off = False
                    return
                if self._lines:
                    self._arrived.set()
                await self._room()
        finally:
            self._is_over = True
            self._arrived.set()

    async def _room(self) -> None:
        """Wait while enough lines are waiting to be stored."""
        while self._is_full:
            self._arrived.set()
            self._has_room.clear()
            await self._has_room.wait()

    async def batch(self) -> list[StreamLine]:
        """The next lines, at least one; an empty list at the end."""
        self.is_awaited = True
        while not self._lines and not self._is_over:
            self._arrived.clear()
            await self._arrived.wait()
        self.is_awaited = False
        batch: list[StreamLine] = []
        size = 0
        while self._lines and len(batch) < BATCH_LINES and size < BATCH_BYTES:
            batch.append(self._lines.popleft())
            size += len(batch[-1].data)
        self._bytes -= size
        self._has_room.set()
        return batch

    @property
    def is_complete(self) -> bool:
        """Whether the whole body arrived, and all its lines were returned."""
        return self._is_over and not self._lines and not self.is_cut_off

    @property
    def _is_full(self) -> bool:
        return len(self._lines) >= BATCH_LINES or self._bytes >= BATCH_BYTES

    def _take(self, lines: list[StreamLine]) -> None:
        self._lines.extend(lines)
        self._bytes += sum(len(line.data) for line in lines)


_REJECTED = "rejected"
_EMPTY = "there was no item in the body"
_NO_LINE = "no line of the body is an item"

_MANY = 50
"""If this many first items of a body have no text, the body is refused."""


_Line = Mapping[str, Any]
_ReadLines = list[tuple[StreamLine, Item | InvalidItemError]]
_Check = Callable[[], Awaitable[None]]


class BulkAnswer(Response):
    """Reads the body, stores its items, and meanwhile sends a result line for each of its lines, then a summary.

    An item whose result line was sent is stored, whatever happens to the rest. The summary reports the outcome, unless
    the client disconnected. Neither the body nor the response is ever in memory as a whole, even if the client reads
    nothing until it has sent everything.

    With ``is_proxied`` the response begins after the body: nginx may stop passing a body on once a response has begun.
    """

    def __init__(
        self, collection: Collection, reader: LineReader, stopping: asyncio.Event, *, is_proxied: bool
    ) -> None:
        super().__init__(media_type=MEDIA_TYPE)
        del self.headers["content-length"]
        self._collection = collection
        self._reader = reader
        self._stopping = stopping
        self._is_proxied = is_proxied

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request."""
        intake = Intake(receive, self._reader.cutter)
        still_allowed: _Check = scope["state"][STILL_ALLOWED]
        with Spool() as spool:
            reading, stopping = asyncio.create_task(intake.run()), asyncio.create_task(self._stopping.wait())
            stopping.add_done_callback(lambda _: reading.cancel())
            tasks = [reading, stopping]
            try:
                # Reading the body sends the "100 Continue" that a client may wait for.
                first = await self._read(self._reader.begin(await intake.batch()))
                _check_some(first, is_all=intake.is_complete)
                sending = asyncio.create_task(self._send(spool, send, reading))
                tasks.append(sending)
                spool.end(_lines([await self._store(first, intake, spool, still_allowed)]))
                reading.cancel()  # an error may have ended the stream early
                await sending
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, spool: Spool, send: Send, reading: asyncio.Task[None]) -> None:
        if self._is_proxied:
            await asyncio.wait([reading])
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for part in spool.parts():
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _store(self, lines: _ReadLines, intake: Intake, spool: Spool, still_allowed: _Check) -> _Line:
        """Store batch after batch, write a result for each line, and return the summary."""
        done, counts, seen, without_text = AddReport(), Counter[str](), SeenIds(), WithoutText()
        error: RetrievalError | None = None
        handle = handle_of(self._collection)
        collection_id = handle.stored.collection_id
        try:
            # The first batch may have been only the header of a CSV.
            lines = lines or await self._read(await intake.batch())
            while lines:
                await still_allowed()
                items = [item for _, item in lines if isinstance(item, Item)]
                without_text += WithoutText.among(items)
                added = await add_each(handle, items, more=True)
                if handle.stored.collection_id != collection_id:
                    raise UnknownCollectionError(
                        f"collection {handle.name!r} was removed meanwhile, and another was made, which has the last "
                        "items of this stream; send all lines again"
                    )
                stored = iter(added.outcomes)
                outcomes = [
                    next(stored) if isinstance(item, Item) else ItemOutcome(item_id=item.item_id, error=item)
                    for _, item in lines
                ]
                done += added.report
                seen.extend(outcome.item_id for outcome in outcomes if outcome.item_id and outcome.error is None)
                counts.update(outcome.became or _REJECTED for outcome in outcomes)
                spool.write(
                    _lines(_result_line(line, outcome) for (line, _), outcome in zip(lines, outcomes, strict=True))
                )
                lines = await self._read(await intake.batch())
            if intake.is_cut_off:
                # A job updates the indexes later.
                raise problems.StoppingError if self._stopping.is_set() else problems.BrokenStreamError
            done += await finished(handle, done)
        except RetrievalError as broken:
            report(broken)
            error = broken
        except asyncio.CancelledError:
            until = current_deadline()
            if until is None or not until.is_over:
                raise  # the client ended the stream
            error = problems.BodyTimeoutError() if intake.is_awaited else late()
        notes = without_text.notes(counts.total() - counts[_REJECTED])
        if counts.total() == counts[_REJECTED] and error is None:  # after an error, the rest of the body is unknown
            notes = (_NO_LINE if counts else _EMPTY,)
        return _summary(done + seen.report() + AddReport(notes=notes), counts, error)

    async def _read(self, batch: Sequence[StreamLine]) -> _ReadLines:
        if not batch:
            return []
        return await asyncio.to_thread(lambda: [(line, self._reader.read(line)) for line in batch])


def _check_some(lines: _ReadLines, *, is_all: bool) -> None:
    """Raise ``InvalidRequestError`` if no line is an item, or if the items have no text."""
    items = [item for _, item in lines if isinstance(item, Item)]
    without_text = WithoutText.among(items)
    if without_text.number == len(items) > 0 and (is_all or len(items) >= _MANY):
        raise InvalidRequestError(*without_text.notes(len(items)))
    refused = [(line, item) for line, item in lines if isinstance(item, InvalidItemError)]
    if is_all and refused and not items:
        (line, error), *_ = refused
        raise InvalidRequestError(f"{_NO_LINE}; line {line.number}: {problems.detail_of(error)}")


def _result_line(line: StreamLine, outcome: ItemOutcome) -> _Line:
    if outcome.error is not None:
        return {"line": line.number, "error": problems.problem_of(outcome.error)}
    return {"line": line.number, "item_id": outcome.item_id, "result": outcome.became}


def _summary(done: AddReport, counts: Mapping[str, int], error: RetrievalError | None) -> _Line:
    """The number of lines with each result, and further figures about the items."""
    results = {word: counts.get(word, 0) for word in (*Became, _REJECTED)}
    others = {"embedded": done.embedded, "pending": done.pending, "repeated": done.repeated, "cut": done.cut}
    token = {} if done.token is None else {"token": done.token}
    summary = {"summary": {**results, **others, "notes": list(done.notes), **token}}
    if error is None:
        return summary
    return {**summary, "error": problems.problem_of(error) | {"request_id": current_request_id()}}


def _lines(values: Iterable[_Line]) -> bytes:
    return b"".join(problems.encoded(value) + b"\n" for value in values)
