"""Several statements in one round trip and one implicit transaction, their answers in binary.

Role, search path and tenant are set when a connection changes its tenant. Behind a pooler in transaction mode a session
serves somebody else next: there each transaction sets everything for itself, and no statement is kept.

The driver's own pipeline and cursors do the same with more ceremony, which cost more than a search in the index does:
this speaks to libpq's pipeline directly, through the parts of psycopg that turn values into parameters and back.

Spans tell where the server is, when a connection was to be had, how many statements went there, and how many rows
came back; no value and no statement's text.
"""

from __future__ import annotations

import asyncio
import re
import select
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple, TypeVar

import psycopg
from opentelemetry.trace import Span
from opentelemetry.util.types import AttributeValue
from psycopg import abc, errors, generators, pq
from psycopg.adapt import PyFormat, Transformer
from psycopg.types.json import Jsonb

from retrieval.adapters.aside import LONG, aside
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.translate import is_readable

MOST_KEPT = 200
"""Statements that one connection keeps; the one that was not used for longest makes room."""

KEPT_SECONDS = 60.0
"""The time that a plan is kept; the tables for which it was made may have grown meanwhile."""

_RESET_ALL, _DEALLOCATE_ALL = Compiled("RESET ALL"), Compiled("DEALLOCATE ALL")


@dataclass(slots=True)
class Kept:
    """A statement that the server keeps under a name."""

    name: bytes
    until: float
    """The time on the session's clock until which its plan is kept."""
    dropped: bytes = b""
    """The name of the statement that the server drops to make room for this one; empty: none, or already dropped."""
    is_new: bool = True
    """Whether the statement is new to the server."""
    reader: Reader | None = None
    """Reads the answers, which have the same columns as long as the plan is kept."""


@dataclass(slots=True, eq=False)
class Session:
    """The settings of one connection, and the statements that it keeps.

    The server takes back the settings of a failed transaction. After a failure the settings are unknown, and the next
    use sets all of them.
    """

    clock: Callable[[], float] = time.monotonic
    most: int = MOST_KEPT
    _values: Mapping[str, str] | None = None
    """Settings by name; None: not known."""
    _kept: dict[Hashable, Kept] = field(default_factory=dict)
    """Each statement; the one used last stands last."""
    _names: int = 0

    def changes(self, wanted: Mapping[str, str]) -> list[Compiled]:
        """The statements that set what is wanted and nothing else; the caller runs them first, then says ``settled``.

        Empty: the session is left as it is.
        """
        if not wanted:
            return []
        values, self._values = self._values, None
        return [] if values is wanted or values == wanted else self._from(values, wanted)

    def settled(self, wanted: Mapping[str, str]) -> None:
        """Note that the statements of ``changes`` ran, and those that were sent with them."""
        self._values = wanted or None

    def _from(self, values: Mapping[str, str] | None, wanted: Mapping[str, str]) -> list[Compiled]:
        if values is None:
            self._kept.clear()
            return [_RESET_ALL, _DEALLOCATE_ALL, set_statement(wanted)]
        changed = {name: value for name, value in wanted.items() if values.get(name) != value}
        resets = [Compiled(f"RESET {name}") for name in values if name not in wanted]
        return [*resets, set_statement(changed)] if changed else resets

    def keep(self, statement: Hashable) -> Kept:
        """The name that the server keeps a statement under; ``statement``: all that its plan depends on."""
        known = self._kept.pop(statement, None)
        if known is not None and self.clock() < known.until:
            known.is_new, known.dropped = False, b""
            self._kept[statement] = known
            return known
        if known is None and len(self._kept) >= self.most:
            known = self._kept.pop(next(iter(self._kept)))
        self._names += 1
        kept = Kept(b"kept_%d" % self._names, self.clock() + KEPT_SECONDS, b"" if known is None else known.name)
        self._kept[statement] = kept
        return kept


class SessionConnection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A connection of the pool, with its session.

    While it runs statements together, the event loop watches its socket once for all; the driver has it watched anew
    for each wait, which takes as long as to send a statement.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.session = Session()
        self._answered: asyncio.Future[None] | None = None
        self._watched: tuple[asyncio.AbstractEventLoop, int] | None = None

    @cached_property
    def writer(self) -> abc.Transformer:
        """Writes the parameters of statements; it knows how once it has written such."""
        return Transformer(self)

    @cached_property
    def poll(self) -> select.poll:
        """Whether the server has sent something."""
        poll = select.poll()
        poll.register(self.pgconn.socket, select.POLLIN)
        return poll

    async def wait(self, gen: abc.PQGen[_Value], interval: float = 0.1, timeout: float | None = None) -> _Value:  # noqa: ASYNC109 - as the driver has it
        """Run the driver's generator. The driver watches the socket itself."""
        self.unwatch()
        return await super().wait(gen, interval, timeout)

    async def close(self) -> None:
        """Close the connection."""
        self.unwatch()
        await super().close()

    def answered(self) -> asyncio.Future[None]:
        """Completed once an answer of the server is there, whole, or the connection is lost."""
        loop = asyncio.get_running_loop()
        if self._watched is None or self._watched[0] is not loop:
            self.unwatch()
            self._watched = loop, self.pgconn.socket
            loop.add_reader(self.pgconn.socket, self._read)
        self._answered = loop.create_future()
        return self._answered

    def unwatch(self) -> None:
        """Let the event loop forget the socket, before anybody else closes or watches it."""
        if self._watched is not None:
            loop, socket = self._watched
            self._watched = None
            loop.remove_reader(socket)

    def _read(self) -> None:
        """Take what the server has sent. The next use of a connection that was lost says so."""
        waiting = self._answered
        try:
            self.pgconn.consume_input()
        except psycopg.Error as error:
            self.unwatch()
            if waiting is not None and not waiting.done():
                waiting.set_exception(error)
            return
        if waiting is not None and not waiting.done() and not self.pgconn.is_busy():
            waiting.set_result(None)


_Value = TypeVar("_Value")


def set_statement(values: Mapping[str, str], *, is_local: bool = False) -> Compiled:
    """The statement that sets these values; ``is_local``: until its transaction ends."""
    parameters = {f"value_{place}": value for place, value in enumerate(values.values())}
    return Compiled(_set_text(tuple(values), is_local), parameters)


@cache
def _set_text(names: tuple[str, ...], is_local: bool) -> str:  # noqa: FBT001 - the cache tells arguments apart by position
    end = "true" if is_local else "false"
    return "SELECT " + ", ".join(f"set_config('{name}', %(value_{place})s, {end})" for place, name in enumerate(names))


Row = tuple[Any, ...]

_LISTS = (list, Jsonb)

MANY_PARAMETERS = 100
"""The number of parameters whose serialisation takes milliseconds."""

CANCEL_SECONDS = 5.0
"""Time that a cancelled statement may take to end before its connection is given up."""

SENT_AT_ONCE = 8
"""Statements that libpq may hold before it has sent them: with each, it moves all that it holds."""

_PLACEHOLDER = re.compile(r"%(?:\((\w+)\)s|%)")


class Reader:
    """Reads the answers to a statement, all of the same columns: how each is read is looked up once."""

    __slots__ = ("_is_ready", "_transformer")

    def __init__(self, context: abc.AdaptContext) -> None:
        self._transformer = Transformer(context)
        self._is_ready = False

    def rows(self, result: pq.abc.PGresult) -> list[Row]:
        """The rows as Python's values."""
        transformer = self._transformer
        transformer.set_pgresult(result, set_loaders=not self._is_ready)
        self._is_ready = True
        rows: list[Row] = transformer.load_rows(0, result.ntuples, tuple)
        return rows

    def another(self) -> Reader:
        """One for another thread: the statement's next answer may come meanwhile."""
        return Reader(self._transformer)


class Answer(NamedTuple):
    """The server's answer to a statement; its rows are still to be read."""

    reader: Reader
    result: pq.abc.PGresult

    def rows(self) -> list[Row]:
        """The rows as Python's values."""
        return self.reader.rows(self.result)


async def rows_of(answers: Sequence[Answer]) -> list[list[Row]]:
    """The rows of each answer; many are read aside."""
    if sum([answer.result.ntuples for answer in answers]) < LONG:
        return [answer.rows() for answer in answers]
    each = [(answer.reader.another(), answer.result) for answer in answers]
    return await aside(lambda: [reader.rows(result) for reader, result in each], is_long=True)


@dataclass(frozen=True, slots=True)
class WrittenValue:
    """A parameter as it goes over the wire, with the number of its type (0: the statement says it)."""

    data: abc.Buffer | None
    oid: int = 0
    format: pq.Format = pq.Format.BINARY


async def written(statements: Sequence[Compiled]) -> Sequence[Compiled]:
    """The same statements, their long lists encoded beside the event loop before they take a connection.

    Where a statement has many parameters, all its lists are written so.
    """
    return await aside(lambda: _with_lists_written(statements), is_long=True)


def has_long_list(statement: Compiled) -> bool:
    """Whether the statement has a list that takes long to encode."""
    least = _least_size(statement)
    for value in statement.parameters.values():
        if (type(value) is list and len(value) >= least) or (type(value) is Jsonb and _size(value) >= least):
            return True
    return False


def _least_size(statement: Compiled) -> int:
    return 0 if len(statement.parameters) >= MANY_PARAMETERS else LONG


def _lists_to_write(statement: Compiled) -> dict[str, object]:
    least = _least_size(statement)
    lists = [(name, value) for name, value in statement.parameters.items() if type(value) in _LISTS]
    return {name: value for name, value in lists if _size(value) >= least}


def _with_lists_written(statements: Sequence[Compiled]) -> list[Compiled]:
    known: dict[int, object] = {}  # the same list may stand in many statements
    written_ones = []
    for statement in statements:
        long = _lists_to_write(statement)
        for value in long.values():
            if id(value) not in known:
                known[id(value)] = _as_written(value)
        written_ones.append(statement.bind(**{name: known[id(value)] for name, value in long.items()}))
    return written_ones


def _size(value: Any) -> int:
    """Elements of a list; -1 for JSON that is none."""
    inner = value.obj if isinstance(value, Jsonb) else value
    return len(inner) if isinstance(inner, list) else -1


def _as_written(value: object) -> object:
    transformer = Transformer()
    try:
        [data] = transformer.dump_sequence([value], [PyFormat.AUTO])
    except psycopg.ProgrammingError:
        return value  # of an extension's type, which connections alone know
    [oid], [how] = transformer.types or (0,), transformer.formats or (pq.Format.TEXT,)
    return WrittenValue(data, oid, how)


async def run_together(
    connection: SessionConnection, statements: Sequence[Compiled], plan: Hashable | None = None
) -> list[Answer]:
    """Run the statements in one round trip and return their answers. The first error ends them all and is raised.

    ``plan``: the key of the plans beside the statements; None: no plan is kept.

    A cancelled caller cancels the statements on the server. If the server does not end them at once, the connection
    keeps its pipeline open, and whoever gets the connection next must close it.
    """
    server = connection.pgconn
    server.enter_pipeline_mode()
    try:
        sent: list[_Sent] = []
        messages = 0
        for place, statement in enumerate(statements, 1):
            sent.append(_sent(connection, statement, plan, messages))
            messages = sent[-1].place + 1
            if place % SENT_AT_ONCE == 0:
                await connection.wait(generators.send(server))
        server.pipeline_sync()
        if server.flush():
            await connection.wait(generators.send(server))
        answers = await _answers(connection)
    except asyncio.CancelledError:
        await _cancel(connection)
        raise
    except psycopg.Error:
        connection.unwatch()
        raise
    server.exit_pipeline_mode()
    for answer in answers:
        if answer.status == pq.ExecStatus.FATAL_ERROR:
            raise errors.error_from_result(answer, encoding=connection.info.encoding)
    return [Answer(each.reader, answers[each.place]) for each in sent]


class _Sent(NamedTuple):
    """A statement in the pipeline."""

    reader: Reader
    """Reads its answer."""
    place: int
    """The place of the statement's answer among those of the pipeline, from 0."""


async def _answers(connection: SessionConnection) -> list[pq.abc.PGresult]:
    """The server's answer to each message of the pipeline, and behind them the error of a commit that failed."""
    server = connection.pgconn
    answers: list[pq.abc.PGresult] = []
    is_ended = False  # as each answer is, except that to the end of the pipeline
    while True:
        while server.is_busy():
            await connection.answered()
        answer = server.get_result()
        if answer is not None:
            if answer.status == pq.ExecStatus.PIPELINE_SYNC:
                return answers
            answers.append(answer)
        elif is_ended:
            raise psycopg.OperationalError("the server's answers ended early")
        is_ended = answer is None


async def _cancel(connection: SessionConnection) -> None:
    """Have the server cancel the statements, and read what it says to that."""
    with suppress(psycopg.Error, TimeoutError):
        async with asyncio.timeout(CANCEL_SECONDS):
            await connection.cancel_safe(timeout=CANCEL_SECONDS)
            if connection.pgconn.flush():
                await connection.wait(generators.send(connection.pgconn))
            await _answers(connection)
        connection.pgconn.exit_pipeline_mode()
    connection.unwatch()


def _sent(connection: SessionConnection, statement: Compiled, plan: Hashable | None, before: int) -> _Sent:
    """Put the statement into libpq's pipeline, behind so many messages."""
    server, session, writer = connection.pgconn, connection.session, connection.writer
    text, names = _numbered(statement.text)
    given = [statement.parameters[name] for name in names]
    ready = {place: value for place, value in enumerate(given) if type(value) is WrittenValue}
    for place in ready:
        given[place] = None
    values = list(writer.dump_sequence(given, [PyFormat.AUTO] * len(names)))
    types, formats = tuple(writer.types or ()), list(writer.formats or ())
    if ready:
        types = tuple(ready[place].oid if place in ready else oid for place, oid in enumerate(types))
        for place, value in ready.items():
            values[place], formats[place] = value.data, value.format
    if plan is None or statement.keep is None:
        server.send_query_params(text, values, param_types=types, param_formats=formats, result_format=pq.Format.BINARY)
        return _Sent(Reader(connection), before)
    kept = session.keep((text, types, statement.keep, plan))
    if kept.dropped:
        server.send_query_params(b"DEALLOCATE " + kept.dropped, None)
    if kept.is_new:
        server.send_prepare(kept.name, text, param_types=types)
    server.send_query_prepared(kept.name, values, param_formats=formats, result_format=pq.Format.BINARY)
    if kept.reader is None:
        kept.reader = Reader(connection)
    return _Sent(kept.reader, before + kept.is_new + bool(kept.dropped))


@lru_cache(maxsize=1024)
def _numbered(text: str) -> tuple[bytes, tuple[str, ...]]:
    """The text with ``$1`` for ``%(name)s``, as the server reads it, and the names in order of their numbers."""
    numbers: dict[str, int] = {}

    def replaced(found: re.Match[str]) -> str:
        name = found[1]
        return "%" if name is None else f"${numbers.setdefault(name, len(numbers) + 1)}"

    numbered = _PLACEHOLDER.sub(replaced, text)
    return numbered.encode(), tuple(numbers)


Server = Mapping[str, AttributeValue]
"""The attributes that identify a database in traces."""

ROUND_TRIP, TRANSACTION = "postgresql statements", "postgresql transaction"
"""The spans' names."""

_CHANGE = re.compile(r"\b(?:INSERT|UPDATE|DELETE)\b", re.IGNORECASE)


def server_of(url: str) -> Server:
    """The database that a URL names, without user and password; of an unreadable URL only that it is PostgreSQL."""
    told: dict[str, AttributeValue] = {"db.system.name": "postgresql"}
    if not is_readable(url):
        return told
    parts = psycopg.conninfo.conninfo_to_dict(url)
    named = {"server.address": "host", "server.port": "port", "db.namespace": "dbname"}
    return told | {name: str(parts[key]) for name, key in named.items() if parts.get(key)}


def tell_connected(traced: Span | None, server: Server, statements: Sequence[Compiled] = ()) -> None:
    """A connection was to be had at this moment, for those statements."""
    if traced is not None:
        traced.add_event("connected")
        traced.set_attributes(server)
        if statements:
            names = {_operation(statement.text) for statement in statements}
            traced.set_attribute("db.operation.name", names.pop() if len(names) == 1 else "BATCH")
        if len(statements) > 1:
            traced.set_attribute("db.operation.batch.size", len(statements))


@lru_cache(maxsize=1024)
def _operation(text: str) -> str:
    """The statement's operation; a statement that changes something may read too."""
    found = _CHANGE.search(text)
    return found[0].upper() if found else "SELECT"


def tell_rows(traced: Span | None, answers: Sequence[Sequence[Row]]) -> None:
    """Write the number of returned rows into the span."""
    if traced is not None:
        traced.set_attribute("db.response.returned_rows", sum(map(len, answers)))
