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
from typing import Any, NamedTuple

import psycopg
from opentelemetry.trace import Span
from opentelemetry.util.types import AttributeValue
from psycopg import abc, errors, generators, pq
from psycopg.adapt import PyFormat, Transformer
from psycopg.types.json import Jsonb

from retrieval.adapters.aside import LONG, aside
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.installed_sql import quote_literal
from retrieval.adapters.store.translate import is_readable

MOST_KEPT = 200
"""Statements that one connection keeps; the one that was not used for longest makes room."""

KEPT_SECONDS = 60.0
"""How long a plan is kept. The tables that the plan was made for may have grown meanwhile, and nobody analyzed them."""

_RESET_ALL, _DEALLOCATE_ALL = Compiled("RESET ALL"), Compiled("DEALLOCATE ALL")


@dataclass(frozen=True, slots=True)
class Kept:
    """A statement that the server keeps under a name."""

    name: bytes
    is_new: bool
    """Whether the server does not know the statement yet."""
    dropped: bytes = b""
    """The statement that makes room for it; empty: none does."""


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
    _kept: dict[Hashable, tuple[bytes, float]] = field(default_factory=dict)
    """The name of each statement, and until when its plan is kept; the statement used last stands last."""
    _names: int = 0

    def changes(self, wanted: Mapping[str, str]) -> list[Compiled]:
        """The statements that set what is wanted and nothing else; the caller runs them first, then says ``settled``.

        Empty: the session is left as it is.
        """
        if not wanted:
            return []
        values, self._values = self._values, None
        return [] if values == wanted else self._from(values, wanted)

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
        now = self.clock()
        name, until = self._kept.pop(statement, (b"", 0.0))
        if now < until:
            self._kept[statement] = name, until
            return Kept(name, is_new=False)
        if not name and len(self._kept) >= self.most:
            name, _ = self._kept.pop(next(iter(self._kept)))
        self._names += 1
        kept = Kept(b"kept_%d" % self._names, is_new=True, dropped=name)
        self._kept[statement] = kept.name, now + KEPT_SECONDS
        return kept


class SessionConnection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A connection of the pool, with its session."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.session = Session()

    @cached_property
    def poll(self) -> select.poll:
        """Tells whether the server has sent something."""
        poll = select.poll()
        poll.register(self.pgconn.socket, select.POLLIN)
        return poll


def set_statement(values: Mapping[str, str], *, is_local: bool = False) -> Compiled:
    """The statement that sets these values; ``is_local``: until its transaction ends."""
    parameters = {f"value_{place}": value for place, value in enumerate(values.values())}
    return Compiled(_set_text(tuple(values), is_local), parameters)


@cache
def _set_text(names: tuple[str, ...], is_local: bool) -> str:  # noqa: FBT001 - the cache tells arguments apart by position
    end = "true" if is_local else "false"
    return "SELECT " + ", ".join(f"set_config('{name}', %(value_{place})s, {end})" for place, name in enumerate(names))


_BEGIN, _COMMIT = Compiled("BEGIN"), Compiled("COMMIT")
_HERE_ALONE = frozenset({"role"})
"""Settings that the nodes of a cluster need not be told: they are logged in at as the role that acts."""
_OF_NO_USE = frozenset({"plan_cache_mode"})
"""Settings that a cluster cannot have: a plan for all values leads to no node."""


def settings_of_nodes(settings: Mapping[str, str]) -> list[Compiled]:
    """The statements that set these values for a transaction, on every node of a cluster that it comes to.

    The nodes know what a transaction sets for itself by ``SET LOCAL``, and nothing that a session does.
    """
    statements = [Compiled("SET LOCAL citus.propagate_set_commands = 'local'")]
    if here := {name: value for name, value in settings.items() if name in _HERE_ALONE}:
        statements.append(set_statement(here, is_local=True))
    for name, value in settings.items():
        if name not in _HERE_ALONE | _OF_NO_USE:
            # A search path is a list of identifiers, which its maker has quoted.
            said = value if name == "search_path" else quote_literal(value)
            statements.append(Compiled(f"SET LOCAL {name} = {said}".replace("%", "%%")))
    return statements


async def run_on_nodes(
    connection: SessionConnection, settings: Mapping[str, str], statements: Sequence[Compiled]
) -> list[Answer]:
    """Run the statements under the settings on a cluster, in one transaction and one round trip. No plan is kept."""
    before = [_BEGIN, *settings_of_nodes(settings)]
    answers = await run_together(connection, [*before, *statements, _COMMIT])
    return answers[len(before) : -1]


Row = tuple[Any, ...]

_LISTS = (list, Jsonb)

MANY_PARAMETERS = 100
"""The number of parameters whose serialisation takes milliseconds."""

SENT_AT_ONCE = 8
"""Statements that libpq may hold before it has sent them: with each, it moves all that it holds."""

_PLACEHOLDER = re.compile(r"%(?:\((\w+)\)s|%)")


@dataclass(frozen=True, slots=True)
class Answer:
    """The server's answer to a statement; its rows are still to be read."""

    transformer: abc.Transformer
    result: pq.abc.PGresult

    def rows(self) -> list[Row]:
        """The rows as Python's values."""
        self.transformer.set_pgresult(self.result)
        rows: list[Row] = self.transformer.load_rows(0, self.result.ntuples, tuple)
        return rows


async def rows_of(answers: Sequence[Answer]) -> list[list[Row]]:
    """The rows of each answer; many are read aside."""
    if sum([answer.result.ntuples for answer in answers]) < LONG:
        return [answer.rows() for answer in answers]
    return await aside(lambda: [answer.rows() for answer in answers], is_long=True)


@dataclass(frozen=True, slots=True)
class WrittenValue:
    """A parameter as it goes over the wire, with the number of its type (0: the statement says it)."""

    data: abc.Buffer | None
    oid: int = 0
    format: pq.Format = pq.Format.BINARY


async def written(statements: Sequence[Compiled]) -> Sequence[Compiled]:
    """The same statements, their long lists written down aside, before they get a connection, which others want.

    Where a statement has many parameters, all its lists are written so.
    """
    return await aside(lambda: _with_lists_written(statements), is_long=True)


def has_long_list(statement: Compiled) -> bool:
    """Whether the statement has a list whose writing down takes long."""
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
    for one in statements:
        long = _lists_to_write(one)
        for value in long.values():
            if id(value) not in known:
                known[id(value)] = _as_written(value)
        written_ones.append(one.bind(**{name: known[id(value)] for name, value in long.items()}))
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
    async with connection.lock:
        server.enter_pipeline_mode()
        try:
            sent, answers = await connection.wait(_exchanged(connection, statements, plan))
        except asyncio.CancelledError:
            # The driver has had the statements cancelled, and read what the server said to that.
            with suppress(psycopg.Error):
                server.exit_pipeline_mode()
            raise
        server.exit_pipeline_mode()
    for answer in answers:
        if answer[-1].status == pq.ExecStatus.FATAL_ERROR:
            raise errors.error_from_result(answer[-1], encoding=connection.info.encoding)
    return [Answer(each.reader, answers[each.messages - 1][-1]) for each in sent]


def _exchanged(
    connection: SessionConnection, statements: Sequence[Compiled], plan: Hashable | None
) -> abc.PQGen[tuple[list[_Sent], list[list[pq.abc.PGresult]]]]:
    """Send the statements and give every answer."""
    server = connection.pgconn
    sent: list[_Sent] = []
    messages = 0
    for place, statement in enumerate(statements, 1):
        reader, count = _sent(connection, statement, plan)
        messages += count
        sent.append(_Sent(reader, messages))
        if place % SENT_AT_ONCE == 0:
            yield from generators.send(server)
    server.pipeline_sync()
    yield from generators.send(server)
    answers = []
    for _ in range(messages + 1):  # one a message, and one to the end of the pipeline
        answers.append((yield from generators.fetch_many(server)))  # noqa: PERF401 - no comprehension may yield
    if answers[-1][-1].status != pq.ExecStatus.PIPELINE_SYNC:
        # The transaction ends with the pipeline, and could not be committed: the end comes after the error.
        answers.append((yield from generators.fetch_many(server)))
    return sent, answers


class _Sent(NamedTuple):
    """A statement in the pipeline."""

    reader: abc.Transformer
    """Reads its answer."""
    messages: int
    """How many messages the pipeline has with it, each of which is answered; the last answer is the statement's."""


def _sent(connection: SessionConnection, statement: Compiled, plan: Hashable | None) -> tuple[abc.Transformer, int]:
    """Put the statement into libpq's pipeline. Gives the reader of its answer, and the messages that it took."""
    server = connection.pgconn
    text, names = _numbered(statement.text)
    reader = Transformer(connection)
    given = [statement.parameters[name] for name in names]
    ready = {place: value for place, value in enumerate(given) if type(value) is WrittenValue}
    for place in ready:
        given[place] = None
    values = list(reader.dump_sequence(given, [PyFormat.AUTO] * len(names)))
    types, formats = list(reader.types or ()), list(reader.formats or ())
    for place, one in ready.items():
        values[place], types[place], formats[place] = one.data, one.oid, one.format
    if plan is None or statement.keep is None:
        server.send_query_params(text, values, param_types=types, param_formats=formats, result_format=pq.Format.BINARY)
        return reader, 1
    kept = connection.session.keep((text, tuple(types), statement.keep, plan))
    if kept.dropped:
        server.send_query_params(b"DEALLOCATE " + kept.dropped, None)
    if kept.is_new:
        server.send_prepare(kept.name, text, param_types=types)
    server.send_query_prepared(kept.name, values, param_formats=formats, result_format=pq.Format.BINARY)
    return reader, 1 + kept.is_new + bool(kept.dropped)


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
