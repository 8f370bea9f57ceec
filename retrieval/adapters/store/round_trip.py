"""Run several statements in one round trip and one implicit transaction, with answers in binary format.

The overhead of the driver's own pipeline and cursors exceeds the time of an index search, so this uses libpq's pipeline
directly, with psycopg's conversion of values to parameters and back. Spans contain no values and no statements' texts.
"""

from __future__ import annotations

import asyncio
import json
import re
import select
import sys
import time
from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from typing import Any, Final, NamedTuple, TypeVar

import psycopg
from opentelemetry.trace import Span
from opentelemetry.util.types import AttributeValue
from psycopg import abc, errors, generators, pq
from psycopg.adapt import Loader, PyFormat, Transformer
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.json import Jsonb

from retrieval.adapters.aside import LONG, aside
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.translate import is_readable

MOST_KEPT = 200
"""The most statements that one connection keeps; the least recently used is dropped first."""

KEPT_SECONDS = 60.0
"""The time that a plan is kept: its tables may have grown since it was made."""

CONNECT_TIMEOUT_SECONDS = 10

CONNECTION: Final[Mapping[str, Any]] = {
    "prepare_threshold": None,
    "connect_timeout": CONNECT_TIMEOUT_SECONDS,
    # Texts are sent in UTF-8, whatever encoding the login or the environment would choose.
    "client_encoding": "utf8",
}
"""The options of every connection."""

_LASTING: Mapping[str, Any] = {"keepalives_idle": 60, "tcp_user_timeout": 10_000}
"""Options that keep idle connections from being forgotten on the way to the server, and end those that were.

Without them, the call that uses such a connection next would wait a quarter of an hour for it.
"""

CANCEL_SECONDS = 1.0
"""The time that a cancelled statement may take to end before its connection is abandoned; its caller waits for it."""

_RESET_ALL, _DEALLOCATE_ALL = Compiled("RESET ALL"), Compiled("DEALLOCATE ALL")


def lasting(url: str) -> str:
    """The URL for connections that stay open while they are idle; what it says itself holds."""
    return make_conninfo(**{**_LASTING, **conninfo_to_dict(url)})


@dataclass(slots=True)
class PreparedStatement:
    """A statement that the server keeps under a name."""

    name: bytes
    until: float
    """The time on the session's clock until which its plan is kept."""
    dropped: bytes = b""
    """The name of the statement that the server has to drop for this one; empty: none, or dropped already."""
    is_new: bool = True
    """Whether the statement is new to the server."""
    reader: Reader | None = None
    """The reader of the answers, which have the same columns as long as the plan is kept."""


@dataclass(slots=True, eq=False)
class Session:
    """The settings of one connection, unknown after a failed transaction, and the statements that it keeps."""

    clock: Callable[[], float] = time.monotonic
    most: int = MOST_KEPT
    _values: Mapping[str, str] | None = None
    """Settings by name; None: unknown."""
    _statements: dict[Hashable, PreparedStatement] = field(default_factory=dict)
    """The kept statements, the most recently used last."""
    _names: int = 0

    def changes(self, settings: Mapping[str, str]) -> list[Compiled]:
        """The statements that change the session to these settings; the caller runs them first, then calls ``settled``.

        Empty ``settings``: the session does not change.
        """
        if not settings:
            return []
        values, self._values = self._values, None
        if values is settings or values == settings:
            return []
        if values is None:
            self._statements.clear()
            return [_RESET_ALL, _DEALLOCATE_ALL, set_statement(settings)]
        either = {**values, **settings}
        changes = {name: settings.get(name) for name in either if values.get(name) != settings.get(name)}
        return [set_statement(changes)]

    def with_others(self, settings: Mapping[str, str]) -> Mapping[str, str]:
        """These settings, and the others that the session has."""
        return settings if self._values is None else {**self._values, **settings}

    def settled(self, settings: Mapping[str, str]) -> None:
        """Note that the statements of ``changes``, and those sent with them, succeeded."""
        self._values = settings or None

    def keep(self, key: Hashable) -> PreparedStatement:
        """The kept statement for ``key``, which is everything that its plan depends on."""
        former = self._statements.pop(key, None)
        if former is not None and self.clock() < former.until:
            former.is_new, former.dropped = False, b""
            self._statements[key] = former
            return former
        if former is None and len(self._statements) >= self.most:
            former = self._statements.pop(next(iter(self._statements)))
        self._names += 1
        dropped = b"" if former is None else former.name
        statement = PreparedStatement(b"kept_%d" % self._names, self.clock() + KEPT_SECONDS, dropped)
        self._statements[key] = statement
        return statement


class SessionConnection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A connection of the pool, with its session.

    The event loop keeps watching its socket: to register it for each wait would take as long as sending a statement.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.session = Session()
        self.opened_at = time.monotonic()
        """The time of the clock when it was opened."""
        self._answered: asyncio.Future[None] | None = None
        self._watched: tuple[asyncio.AbstractEventLoop, int] | None = None
        self._is_ending = False

    @cached_property
    def writer(self) -> abc.Transformer:
        """The encoder of parameters, which remembers how to encode each type."""
        return Transformer(self)

    @cached_property
    def poll(self) -> select.poll:
        """A poll object that tells whether the server has sent something."""
        poll = select.poll()
        poll.register(self.pgconn.socket, select.POLLIN)
        return poll

    async def wait(self, gen: abc.PQGen[_Value], interval: float = 0.1, timeout: float | None = None) -> _Value:  # noqa: ASYNC109 - the driver's signature
        """Run the driver's generator. The driver watches the socket itself."""
        self.unwatch()
        return await super().wait(gen, interval, timeout)

    async def rows(self, query: abc.QueryNoTemplate, values: abc.Params | None = None) -> list[tuple[Any, ...]]:
        """Execute a query, and return its rows."""
        return await (await self.execute(query, values)).fetchall()

    async def value(self, query: abc.QueryNoTemplate, values: abc.Params | None = None) -> Any:
        """Execute a query of one row, and return the row's first column."""
        ((value, *_),) = await self.rows(query, values)
        return value

    async def cancel_safe(self, *, timeout: float = CANCEL_SECONDS) -> None:  # noqa: ASYNC109 - the driver's signature
        """Have the server cancel the statement. If it does not answer in time, close the connection, and raise."""
        try:
            await super().cancel_safe(timeout=min(timeout, CANCEL_SECONDS))
        except psycopg.Error:
            # The driver would otherwise wait five seconds more for the statement's end.
            self.unwatch()
            self.pgconn.finish()
            raise

    async def close(self) -> None:
        """Close the connection."""
        self.unwatch()
        await super().close()

    def answered(self) -> asyncio.Future[None]:
        """A future that completes when a complete answer has arrived or the connection is lost."""
        loop = asyncio.get_running_loop()
        if self._watched is None or self._watched[0] is not loop:
            self.unwatch()
            self._watched = loop, self.pgconn.socket
            loop.add_reader(self.pgconn.socket, self._read)
        self._answered = answered = loop.create_future()
        if self._is_ending:
            self._read()
        return answered

    def unwatch(self) -> None:
        """Remove the socket from the event loop, before it is closed or watched otherwise."""
        if self._watched is not None:
            loop, socket = self._watched
            self._watched = None
            loop.remove_reader(socket)

    def _read(self) -> None:
        """Read what the server has sent. If the connection was lost and nobody waits, its next use raises the error."""
        future = self._answered
        is_awaited = future is not None and not future.done()
        try:
            self.pgconn.consume_input()
            # uvloop calls once for an error of the socket, and never again; libpq meets the error after the last data.
            while self._is_broken():
                if is_awaited and not self.pgconn.is_busy():
                    # The last answer may say why the server ends the connection; at the error libpq forgets it.
                    self._is_ending = True
                    break
                self.pgconn.consume_input()
        except psycopg.Error as error:
            self.unwatch()
            if future is not None and not future.done():
                future.set_exception(error)
            return
        if future is not None and not future.done() and not self.pgconn.is_busy():
            future.set_result(None)

    def _is_broken(self) -> bool:
        """Whether the socket has an error, or was closed by the server; there may be data before that."""
        return sys.platform != "win32" and any(events & ~select.POLLIN for _, events in self.poll.poll(0))


_Value = TypeVar("_Value")


def set_statement(values: Mapping[str, str | None], *, is_local: bool = False) -> Compiled:
    """The statement that sets these values, None: the default; ``is_local``: until its transaction ends."""
    parameters = {f"value_{index}": value for index, value in enumerate(values.values())}
    return Compiled(_set_text(tuple(values), is_local), parameters, keep=0)


@cache
def _set_text(names: tuple[str, ...], is_local: bool) -> str:  # noqa: FBT001 - the cache distinguishes arguments by position
    end = "true" if is_local else "false"
    return "SELECT " + ", ".join(f"set_config('{name}', %(value_{index})s, {end})" for index, name in enumerate(names))


Row = tuple[Any, ...]

_LISTS = (list, Jsonb)

MANY_PARAMETERS = 100
"""The number of parameters whose serialisation takes milliseconds."""

SENT_AT_ONCE = 8
"""The most unsent statements in libpq's buffer: with each more, it copies the whole buffer."""

_PLACEHOLDER = re.compile(r"%(?:\((\w+)\)s|%)")


_DECODE: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


class JsonbLoader(Loader):
    """Decodes the server's JSON, which is UTF-8 without leading spaces: ``json.loads`` would check for both."""

    format = pq.Format.BINARY

    def load(self, data: abc.Buffer) -> Any:
        """The value. The first byte is the version of the format."""
        return _DECODE(str(data, "utf-8"), 1)[0]


class Reader:
    """Reads the answers to a statement; looks up the decoders of the columns, which never change, once."""

    __slots__ = ("_is_ready", "_transformer")

    def __init__(self, context: abc.AdaptContext) -> None:
        self._transformer = Transformer(context)
        self._is_ready = False

    def look_up(self, result: pq.abc.PGresult) -> None:
        """Look up the decoders of the answer's columns, while the connection is held: later it may be closed."""
        if not self._is_ready:
            self._transformer.set_pgresult(result)
            self._transformer.set_pgresult(None, set_loaders=False)
            self._is_ready = True

    def rows(self, result: pq.abc.PGresult) -> list[Row]:
        """The rows as Python's values."""
        transformer = self._transformer
        transformer.set_pgresult(result, set_loaders=False)
        rows: list[Row] = transformer.load_rows(0, result.ntuples, tuple)
        # A reader lives as long as its kept statement, and would keep the memory of its last answer.
        transformer.set_pgresult(None, set_loaders=False)
        return rows

    def another(self) -> Reader:
        """A reader for another thread, because this one may read the statement's next answer meanwhile."""
        return Reader(self._transformer)


class Answer(NamedTuple):
    """The server's answer to a statement, not decoded yet."""

    reader: Reader
    result: pq.abc.PGresult
    is_long: bool
    """Whether the round trip's answers have so many rows that another thread decodes them."""

    def rows(self) -> list[Row]:
        """The rows as Python's values."""
        return self.reader.rows(self.result)


async def rows_of(answers: Sequence[Answer]) -> list[list[Row]]:
    """The rows of each answer; many rows are decoded in another thread."""
    is_long = bool(answers) and answers[0].is_long
    return await aside(lambda: [answer.rows() for answer in answers], is_long=is_long)


class WrittenValue(NamedTuple):
    """An encoded parameter, with the OID of its type (0: the statement determines it)."""

    data: abc.Buffer | None
    oid: int = 0
    format: pq.Format = pq.Format.BINARY


def long_lists(statement: Compiled) -> dict[str, object]:
    """The parameters that are slow to encode: long lists, and all lists among many parameters."""
    least = 0 if len(statement.parameters) >= MANY_PARAMETERS else LONG
    parameters = statement.parameters.items()
    return {name: value for name, value in parameters if type(value) in _LISTS and _size(value) >= least}


async def written(statements: Sequence[Compiled]) -> list[Compiled]:
    """The statements with their long lists encoded in another thread, before they take a connection."""
    encoded: dict[int, object] = {}  # by identity, because many statements may share a list

    def with_lists_encoded(statement: Compiled) -> Compiled:
        lists = long_lists(statement)
        for value in lists.values():
            if id(value) not in encoded:
                encoded[id(value)] = _encode(value)
        return statement.bind(**{name: encoded[id(value)] for name, value in lists.items()})

    return await aside(lambda: list(map(with_lists_encoded, statements)), is_long=True)


def _size(value: Any) -> int:
    """The number of elements of a list; -1 for JSON that is not a list."""
    inner = value.obj if isinstance(value, Jsonb) else value
    return len(inner) if isinstance(inner, list) else -1


def _encode(value: object) -> object:
    transformer = Transformer()
    try:
        [data] = transformer.dump_sequence([value], [PyFormat.AUTO])
    except psycopg.ProgrammingError:
        return value  # of an extension's type, which only connections know
    [oid], [format_] = transformer.types or (0,), transformer.formats or (pq.Format.TEXT,)
    return WrittenValue(data, oid, format_)


async def run_together(
    connection: SessionConnection, statements: Sequence[Compiled], plan: Hashable | None = None
) -> list[Answer]:
    """Run the statements in one round trip and return their answers. Raises the first error, which ends all of them.

    ``plan``: what the plans depend on apart from the statements; None: no plan is kept.

    Cancelling the caller cancels the statements on the server. If the server does not end them in time, the connection
    stays in pipeline mode, and the pool closes it.
    """
    server = connection.pgconn
    server.enter_pipeline_mode()
    try:
        sent: list[_PipelineEntry] = []
        messages = 0
        for number, statement in enumerate(statements, 1):
            sent.append(_send(connection, statement, plan, messages))
            messages = sent[-1].position + 1
            if number % SENT_AT_ONCE == 0:
                await _flush(connection)
        server.pipeline_sync()
        await _flush(connection)
        answers = await _answers(connection)
    except asyncio.CancelledError:
        await undisturbed(_cancel(connection))
        raise
    except psycopg.Error:
        connection.unwatch()
        raise
    server.exit_pipeline_mode()
    for answer in answers:
        if answer.status == pq.ExecStatus.FATAL_ERROR:
            raise errors.error_from_result(answer, encoding=connection.info.encoding)
    results = [answers[entry.position] for entry in sent]
    is_long = sum([result.ntuples for result in results]) >= LONG
    readers = [entry.reader.another() if is_long else entry.reader for entry in sent]
    for reader, result in zip(readers, results, strict=True):
        reader.look_up(result)
    return [Answer(reader, result, is_long) for reader, result in zip(readers, results, strict=True)]


async def run_in_session(
    connection: SessionConnection,
    stay: Mapping[str, str],
    local: Mapping[str, str],
    statements: Sequence[Compiled],
    plan: Hashable | None,
) -> list[Answer]:
    """The same as ``run_together``, under the settings ``stay``, which the session keeps, and ``local``."""
    session = connection.session
    set_up = session.changes(stay)
    if local:
        set_up.append(set_statement(local, is_local=True))
    answers = await run_together(connection, [*set_up, *statements], plan)
    session.settled(stay)
    return answers[len(set_up) :]


class _PipelineEntry(NamedTuple):
    """A statement in the pipeline."""

    reader: Reader
    position: int
    """The index of its answer among the pipeline's answers."""


async def _answers(connection: SessionConnection) -> list[pq.abc.PGresult]:
    """The server's answers to the pipeline's messages, followed by the error of a failed commit."""
    server = connection.pgconn
    answers: list[pq.abc.PGresult] = []
    is_ended = False  # whether None followed the last answer; none follows the end of the pipeline
    while True:
        while server.is_busy():
            await connection.answered()
        answer = server.get_result()
        if answer is not None:
            if answer.status == pq.ExecStatus.PIPELINE_SYNC:
                return answers
            is_error = answer.status == pq.ExecStatus.FATAL_ERROR
            if is_error and answer.error_field(pq.DiagnosticField.SEVERITY_NONLOCALIZED) == b"FATAL":
                # The reason for the end of the connection, which would be the error otherwise.
                raise errors.error_from_result(answer, encoding=connection.info.encoding)
            answers.append(answer)
        elif is_ended:
            raise psycopg.OperationalError("the server's answers ended early")
        is_ended = answer is None


async def undisturbed(work: Coroutine[Any, Any, None]) -> None:
    """Wait until the work has ended, however often the caller is cancelled meanwhile; the caller then raises.

    A cancelled scope of anyio cancels again and again, and PgBouncer 1.18 exits if a request to cancel breaks off.
    """
    task = asyncio.create_task(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait({task})


async def _flush(connection: SessionConnection) -> None:
    """Send what libpq holds. Wait only if the socket is full: if the wait is cancelled, the connection is abandoned."""
    if connection.pgconn.flush():
        await connection.wait(generators.send(connection.pgconn))


async def _cancel(connection: SessionConnection) -> None:
    """Have the server cancel the statements, and read its remaining answers."""
    with suppress(psycopg.Error, TimeoutError):
        async with asyncio.timeout(CANCEL_SECONDS):
            await connection.cancel_safe()
            await _flush(connection)
            await _answers(connection)
        connection.pgconn.exit_pipeline_mode()
    connection.unwatch()


def _send(connection: SessionConnection, statement: Compiled, plan: Hashable | None, before: int) -> _PipelineEntry:
    """Put the statement into libpq's pipeline, after ``before`` messages."""
    server, session, writer = connection.pgconn, connection.session, connection.writer
    if statement.parameters:
        text, names = _with_numbers(statement.text)
    else:  # not cached, because for a cluster the text contains the values, which may take megabytes
        text, names = statement.text.replace("%%", "%").encode(), ()
    arguments = [statement.parameters[name] for name in names]
    encoded: dict[int, WrittenValue] = {}
    if WrittenValue in map(type, arguments):
        encoded = {index: value for index, value in enumerate(arguments) if type(value) is WrittenValue}
        for index in encoded:
            arguments[index] = None
    values = list(writer.dump_sequence(arguments, [PyFormat.AUTO] * len(names)))
    types, formats = tuple(writer.types or ()), list(writer.formats or ())
    if encoded:
        types = tuple(encoded[index].oid if index in encoded else oid for index, oid in enumerate(types))
        for index, value in encoded.items():
            values[index], formats[index] = value.data, value.format
    if plan is None or statement.keep is None:
        server.send_query_params(text, values, param_types=types, param_formats=formats, result_format=pq.Format.BINARY)
        return _PipelineEntry(Reader(connection), before)
    prepared = session.keep((text, types, statement.keep, plan))
    if prepared.dropped:
        server.send_query_params(b"DEALLOCATE " + prepared.dropped, None)
    if prepared.is_new:
        server.send_prepare(prepared.name, text, param_types=types)
    server.send_query_prepared(prepared.name, values, param_formats=formats, result_format=pq.Format.BINARY)
    if prepared.reader is None:
        prepared.reader = Reader(connection)
    return _PipelineEntry(prepared.reader, before + prepared.is_new + bool(prepared.dropped))


@lru_cache(maxsize=1024)
def _with_numbers(text: str) -> tuple[bytes, tuple[str, ...]]:
    """The text with ``$1`` for ``%(name)s``, and the names in the order of their numbers."""
    numbers: dict[str, int] = {}

    def replace(match: re.Match[str]) -> str:
        name = match[1]
        return "%" if name is None else f"${numbers.setdefault(name, len(numbers) + 1)}"

    return _PLACEHOLDER.sub(replace, text).encode(), tuple(numbers)


Server = Mapping[str, AttributeValue]
"""The attributes that identify a database in traces."""

ROUND_TRIP, TRANSACTION = "postgresql statements", "postgresql transaction"

_CHANGE = re.compile(r"\b(?:INSERT|UPDATE|DELETE)\b", re.IGNORECASE)


def server_of(url: str) -> Server:
    """The attributes of a URL's database, without user and password; of an unreadable URL only the database system."""
    system: dict[str, AttributeValue] = {"db.system.name": "postgresql"}
    if not is_readable(url):
        return system
    parts = psycopg.conninfo.conninfo_to_dict(url)
    keys = {"server.address": "host", "server.port": "port", "db.namespace": "dbname"}
    return system | {name: str(parts[key]) for name, key in keys.items() if parts.get(key)}


def tell_connected(span: Span | None, server: Server, statements: Sequence[Compiled] = ()) -> None:
    """Record that a connection became available, and the statements that use it."""
    if span is not None:
        span.add_event("connected")
        span.set_attributes(server)
        if statements:
            names = {_operation(statement.text) for statement in statements}
            span.set_attribute("db.operation.name", names.pop() if len(names) == 1 else "BATCH")


@lru_cache(maxsize=1024)
def _operation(text: str) -> str:
    """The first change that the statement contains, else ``SELECT``."""
    match = _CHANGE.search(text)
    return match[0].upper() if match else "SELECT"


def tell_rows(span: Span | None, answers: Sequence[Sequence[Row]]) -> None:
    """Record the number of returned rows in the span."""
    if span is not None:
        span.set_attribute("db.response.returned_rows", sum(map(len, answers)))
