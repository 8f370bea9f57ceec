"""Connections: a bounded pool, and transactions that act as one tenant.

A connection is set up when it begins to serve another tenant, and keeps the plans of searches (``Session``). Behind a
pooler in transaction mode, each transaction sets everything itself.
"""

from __future__ import annotations

import asyncio
import logging
import select
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import psycopg
from opentelemetry.trace import SpanKind
from pgvector.psycopg.halfvec import register_halfvec_info
from pgvector.psycopg.sparsevec import register_sparsevec_info
from psycopg import sql
from psycopg.pq import TransactionStatus
from psycopg.types import TypeInfo
from psycopg_pool import AsyncConnectionPool, PoolTimeout, TooManyRequests

from retrieval.adapters.store.arrays import register_arrays
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.deadline import WITHOUT_LIMITS, current_deadline, in_background
from retrieval.adapters.store.installation.checks import ServerFacts, check_server
from retrieval.adapters.store.installation.nodes import register_literals, run_on_nodes, settings_of_nodes
from retrieval.adapters.store.installed_sql import Names, quote_identifier
from retrieval.adapters.store.round_trip import (
    CONNECTION,
    ROUND_TRIP,
    TRANSACTION,
    Answer,
    Row,
    SessionConnection,
    has_long_list,
    rows_of,
    run_together,
    server_of,
    set_statement,
    tell_connected,
    tell_rows,
    written,
)
from retrieval.adapters.store.translate import URL_SETTING, ConciseLog, half_a_character, translated, translation
from retrieval.adapters.tracing import span
from retrieval.domain.errors import PLATFORM_CLOSED, DatabaseBusyError, DatabaseUnreachableError, InvalidRequestError

if TYPE_CHECKING:
    from retrieval.adapters.store.replicas import Replicas

_Pool = AsyncConnectionPool[SessionConnection]
_Result = TypeVar("_Result")

_MOST_ATTEMPTS = 5


async def despite_deadlocks(write: Callable[[], Awaitable[_Result]]) -> _Result:
    """The result of ``write``, a whole transaction, which is done again if the server ended it because of a deadlock.

    Writers lock stored items in one order, but an item that is not stored yet cannot be locked: one writer may create
    it after it has locked a later item, for which another writer waits that has created the same item.
    """
    for _ in range(_MOST_ATTEMPTS - 1):
        try:
            return await write()
        except DatabaseBusyError as error:
            if not isinstance(error.__cause__, psycopg.errors.DeadlockDetected):
                raise
            _log.info("two writers waited for each other; writing again")
    return await write()


async def wait_for_connection(
    pool: _Pool, check_reachable: Callable[[], Awaitable[None]], every: float
) -> SessionConnection:
    """A connection of the pool, first come, first served; return it with ``putconn``.

    A pool that cannot connect gives up without telling its waiting callers. So this looks for it before and every
    ``every`` seconds: then ``check_reachable`` raises, or the server is back and the pool is asked again. The time that
    this takes, as to start an embedded server, is not part of the pool's timeout. Raises ``PoolTimeout`` and
    ``TooManyRequests`` like the pool.
    """
    if pool._pool:  # noqa: SLF001 - ``get_stats`` would compute all counts
        try:
            return await pool.getconn(min(every, pool.timeout))
        except PoolTimeout:
            pass  # other callers took the idle connections
    until = time.monotonic() + pool.timeout
    while True:
        if _gave_up(pool):
            began = time.monotonic()
            await check_reachable()
            until += time.monotonic() - began
        request = asyncio.create_task(pool.getconn(until - time.monotonic()))
        if await _is_answered(pool, request, every):
            return request.result()


async def put_back(pool: _Pool, connection: SessionConnection) -> None:
    """Return a connection to the pool, even if the caller is cancelled: otherwise the pool would lose it for good."""
    try:
        await pool.putconn(connection)
    except asyncio.CancelledError:
        # Cancelled while it waited for its lock, the pool has forgotten the connection already. A task for every return
        # would be simpler, but takes a third of the time of a small read.
        connection._pool = pool  # noqa: SLF001
        _put_back_aside(pool, connection)
        raise


def _put_back_aside(pool: _Pool, connection: SessionConnection) -> None:
    task = asyncio.create_task(pool.putconn(connection))
    _RETURNS.add(task)
    task.add_done_callback(_RETURNS.discard)


_RETURNS: set[asyncio.Task[None]] = set()
"""Tasks that return connections; the event loop itself keeps only weak references to tasks."""


async def _is_answered(pool: _Pool, request: asyncio.Task[SessionConnection], every: float) -> bool:
    """Whether the pool gave a connection, or raised. False: the pool gave up, and ``request`` is cancelled."""
    is_done = False
    try:
        while not is_done:
            is_done = bool((await asyncio.wait({request}, timeout=every))[0])
            if not is_done and _gave_up(pool):
                break
    finally:
        if not is_done:
            _cancel(pool, request)
    return is_done


def _gave_up(pool: _Pool) -> bool:
    return pool.get_stats().get("pool_size") == 0


def _cancel(pool: _Pool, request: asyncio.Task[SessionConnection]) -> None:
    """Cancel a request for a connection; a connection that arrives nevertheless is returned to the pool.

    It waits for nothing, because in a cancelled scope of anyio each wait is cancelled.
    """

    def ended(request: asyncio.Task[SessionConnection]) -> None:
        if not request.cancelled() and request.exception() is None:
            _put_back_aside(pool, request.result())

    request.cancel()
    request.add_done_callback(ended)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """The pool's present state, and its counts since it was opened."""

    most: int
    """The most connections that it opens."""
    open: int
    """The open connections."""
    idle: int
    """The idle connections."""
    waiting: int
    """The calls that wait for a connection."""
    wait_seconds: float
    """The time that all calls together waited."""
    timeouts: int = 0
    """Calls that waited in vain, or were turned away because too many waited."""

    @property
    def is_exhausted(self) -> bool:
        """Whether all connections that the pool may have are in use."""
        return self.open >= self.most and not self.idle

    @classmethod
    def of(cls, counts: Mapping[str, int], *, spare: int = 0, waiting: int = 0, timeouts: int = 0) -> PoolState:
        """Make the state from the counts of the driver's pool, which leaves out zeros, and from our own.

        ``spare``: the idle connections outside the pool. The pool would count calls that gave up as waiting, and as
        errors.
        """
        return cls(
            most=counts.get("pool_max", 0),
            open=counts.get("pool_size", 0),
            idle=counts.get("pool_available", 0) + spare,
            waiting=waiting,
            wait_seconds=counts.get("requests_wait_ms", 0) / 1e3,
            timeouts=timeouts,
        )


_log = logging.getLogger(__name__)

_DRIVER_LOG = ConciseLog()

Connection = SessionConnection

RECONNECT_SECONDS = 1.0
"""The time for which the pool tries to replace a lost connection. After that the next call tries, and fails at once."""

_LEAST_REQUESTS, _REQUESTS_EACH = 100, 20
"""The most calls that may wait for a connection: so many for each connection of the pool, or the least number."""

_NO_LIMIT = 2**31 - 1
"""The longest timeout that PostgreSQL accepts, in milliseconds."""

_Values = Mapping[str, str]

_NO_SETTINGS: _Values = {}
_MOST_SETTINGS = 1000

_OF_SESSION = ("enable_", "hnsw.", "jit", "plan_cache_mode")
"""The beginnings of the settings of a search that stay set until a search needs other values."""


class Database:
    """One installation: a schema of a database, through a pool of connections."""

    def __init__(
        self,
        url: str,
        names: Names,
        facts: ServerFacts,
        pool: AsyncConnectionPool[Connection],
        revive: Callable[[], Awaitable[None]] | None = None,
        *,
        is_pooled: bool = False,
        setting: str = URL_SETTING,
    ) -> None:
        self._revive = revive or _nothing
        self._setting = setting
        self.is_pooled = is_pooled
        """Whether a pooler in transaction mode is in front of the server."""
        self.url = url
        self.names = names
        self.facts = facts
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop that opened it, the only one that can use it; None: unknown."""
        self.replicas: Replicas | None = None
        """The replicas that searches read from; None: there are none."""
        self._pool = pool
        # Not by the pool, which counts calls that have given up until a connection is returned: after an outage never.
        self._most_requests = max(_LEAST_REQUESTS, _REQUESTS_EACH * pool.max_size)
        self._spare: Connection | None = None
        """The connection that was used last, kept outside the pool so that the next call finds its caches warm."""
        self._requests = 0
        """The calls that ask the pool for a connection, including those that are not in its queue yet."""
        self._timeouts = 0
        self._known_settings: dict[tuple[int | None, tuple[tuple[str, str], ...]], tuple[_Values, _Values]] = {}
        """Results of ``_settings_of``, kept because the same tenants and searches recur."""
        self._in_use = 0
        self._check: asyncio.Task[None] | None = None
        self._checked_at = 0.0
        # The login's own limit is never raised.
        self._longest = int(facts.statement_seconds * 1000) or _NO_LIMIT
        self._server = server_of(url)
        vector_schema = facts.vector_schema or "public"
        schemas = dict.fromkeys([names.schema, vector_schema])
        self.search_path = ", ".join([*map(quote_identifier, schemas), "pg_temp"])

    @classmethod
    async def open(
        cls,
        url: str,
        schema: str,
        *,
        pool_size: int,
        pool_timeout_seconds: float,
        is_pooled: bool | None = None,
        revive: Callable[[], Awaitable[None]] | None = None,
        setting: str = URL_SETTING,
    ) -> Database:
        """Check the server and open the pool. ``revive`` is awaited to restart a server that does not answer.

        ``is_pooled``: whether a pooler in transaction mode is in front of the server; None: detect it. ``setting`` is
        what messages call the URL.

        Raises ``DatabaseUnreachableError``, ``UnsupportedDatabaseError``, ``SchemaRevisionError`` or
        ``MissingPrivilegeError``, each with the remedy.
        """
        names = Names(schema)
        with translated(url, setting):
            async with await _connect(url) as connection:
                facts = await check_server(connection, names)
                types = await _vector_types(connection, facts.vector_schema or "public")
                if is_pooled is None:
                    is_pooled = not await _is_direct(connection)

        async def configure(connection: Connection) -> None:
            if facts.is_distributed:
                # A cluster loses some parameters on the way to a node.
                register_literals(connection.adapters, types[0])
                connection.cursor_factory = psycopg.AsyncClientCursor
            _register(connection, types)

        for name in ("psycopg", "psycopg.pool"):
            logging.getLogger(name).addFilter(_DRIVER_LOG)
        pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            url,
            connection_class=SessionConnection,
            kwargs={**CONNECTION, "autocommit": True},
            min_size=1,
            max_size=pool_size,
            timeout=pool_timeout_seconds,
            reconnect_timeout=RECONNECT_SECONDS,
            configure=configure,
            open=False,
            name="retrieval",
        )
        await pool.open()
        database = cls(url, names, facts, pool, revive, is_pooled=is_pooled, setting=setting)
        database.loop = asyncio.get_running_loop()
        return database

    @property
    def pool(self) -> PoolState:
        """The state of the pool of connections."""
        spare = int(self._spare is not None)
        return PoolState.of(self._pool.get_stats(), spare=spare, waiting=self._requests, timeouts=self._timeouts)

    @property
    def is_used(self) -> bool:
        """Whether a connection is in use."""
        return self._in_use > 0

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.close()  # from here on, no connection becomes the spare one
        if (spare := self._spare) is not None:
            self._spare = None
            await put_back(self._pool, spare)

    async def read(
        self, tenant_id: int | None, statement: Compiled, settings: Mapping[str, str] = _NO_SETTINGS
    ) -> list[Row]:
        """Run one statement as a tenant, in one round trip and one snapshot.

        ``settings`` hold for this statement alone. If the connection is lost, the statement is run once more.
        """
        return (await self.read_each(tenant_id, [statement], settings))[0]

    async def read_each(
        self, tenant_id: int | None, statements: Sequence[Compiled], settings: Mapping[str, str] = _NO_SETTINGS
    ) -> list[list[Row]]:
        """Run several statements as a tenant, in one round trip; each has a snapshot of its own."""
        try:
            return await self._read(tenant_id, statements, settings)
        except DatabaseUnreachableError:
            _log.info("the connection was lost; reading again on a new one")
            with translated(self.url, self._setting):
                await self._check_reachable()
            return await self._read(tenant_id, statements, settings)

    async def write(
        self, tenant_id: int | None, statement: Compiled, settings: Mapping[str, str] | None = _NO_SETTINGS
    ) -> list[Row]:
        """Run one statement that changes something as a tenant, in one round trip and one transaction of its own.

        ``settings`` hold for this statement alone. None: its plan depends on none of a search's settings, so those of
        the last search stay, and the next search need not set them again.
        """
        return (await despite_deadlocks(lambda: self._read(tenant_id, [statement], settings)))[0]

    async def write_each(self, tenant_id: int | None, statements: Sequence[Compiled]) -> list[list[Row]]:
        """Run several statements as a tenant, in one round trip and one transaction of their own."""
        return await despite_deadlocks(lambda: self._read(tenant_id, statements, _NO_SETTINGS))

    async def _read(
        self, tenant_id: int | None, statements: Sequence[Compiled], settings: Mapping[str, str] | None
    ) -> list[list[Row]]:
        try:
            with span(ROUND_TRIP, SpanKind.CLIENT) as span_:
                if not self.facts.is_distributed and any(map(has_long_list, statements)):
                    statements = await written(statements)
                connection = await self.take()
                try:
                    if span_ is not None:
                        tell_connected(span_, self._server, statements)
                    answers = await self._run(connection, tenant_id, settings, statements)
                finally:
                    await self.give_back(connection)
                rows = await rows_of(answers)
                if span_ is not None:
                    tell_rows(span_, rows)
                return rows
        except psycopg.Error as error:
            # Not ``translated``, which costs three calls: every search runs through here.
            raise translation(error, self.url, self._setting) from error
        except UnicodeEncodeError as error:
            raise half_a_character() from error

    @asynccontextmanager
    async def transaction(self, tenant_id: int | None) -> AsyncIterator[Connection]:
        """A transaction that acts as a tenant: committed at the end, rolled back on an error."""
        async with self._lease() as connection, self._begin(connection, tenant_id):
            yield connection

    @asynccontextmanager
    async def snapshot(self, tenant_id: int) -> AsyncIterator[Connection]:
        """A transaction as a tenant whose statements all see the same state of the database."""
        async with self._lease() as connection:
            await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
            try:
                async with self._begin(connection, tenant_id):
                    yield connection
            finally:
                if not connection.closed:
                    await connection.set_isolation_level(None)

    @asynccontextmanager
    async def maintenance(self, settings: Mapping[str, str] | None = None) -> AsyncIterator[Connection]:
        """A connection with the login's own role, outside any transaction: for building indexes concurrently.

        It is not of the pool, because a build takes long. It has the ``settings`` and no time limit, and the server
        ends its statement soon after this process dies. Behind a pooler it has none of these settings, because other
        clients would inherit them.
        """
        with translated(self.url, self._setting):
            async with await _connect(self.url) as connection:
                if await _is_direct(connection):
                    await connection.execute(WITHOUT_LIMITS.format(is_local="false").encode())
                    for name, value in (settings or {}).items():
                        await connection.execute("SELECT set_config(%s, %s, false)", (name, value))
                    with suppress(psycopg.errors.InvalidParameterValue):  # not supported by a server on Windows
                        await connection.execute("SET client_connection_check_interval = '1s'")
                yield connection

    @asynccontextmanager
    async def only_one(self, work: str) -> AsyncIterator[bool]:
        """True if this caller may do the work, while other callers may not; False if another caller is doing it.

        The lock belongs to a transaction on a separate connection, so that it works through a pooler too.
        """
        with translated(self.url, self._setting):
            async with await _connect(self.url) as holder, holder.transaction():
                take = "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0))"
                is_alone = await holder.value(take, (f"retrieval {self.names.schema} {work}",))
                # The holder sits idle, so it must not time out. The empty statement releases the query's snapshot, for
                # which a concurrent index build would wait forever.
                await holder.execute(WITHOUT_LIMITS.format(is_local="true").encode())
                await holder.execute("SELECT")
                yield is_alone

    @asynccontextmanager
    async def _lease(self) -> AsyncIterator[Connection]:
        """A working connection for one transaction."""
        with translated(self.url, self._setting), span(TRANSACTION, SpanKind.CLIENT) as span_:
            connection = await self.take()
            try:
                tell_connected(span_, self._server)
                yield connection
            finally:
                await self.give_back(connection)

    async def take(self) -> Connection:
        """A working connection; return it with ``give_back``."""
        if (spare := self._spare) is not None:
            self._spare = None
            if not _was_closed(spare):
                self._in_use += 1
                return spare
            await put_back(self._pool, spare)
        if self._pool.closed:
            raise InvalidRequestError(PLATFORM_CLOSED)
        self._requests += 1
        try:
            connection = await self._requested()
        except (PoolTimeout, TooManyRequests):
            self._timeouts += 1
            await self._check_reachable(RECONNECT_SECONDS)
            raise
        finally:
            self._requests -= 1
        self._in_use += 1
        return connection

    async def _requested(self) -> Connection:
        """A working connection of the pool. Raises ``PoolTimeout`` and ``TooManyRequests``."""
        if self._requests > self._most_requests:
            raise TooManyRequests
        while True:
            connection = await wait_for_connection(self._pool, self._check_reachable, RECONNECT_SECONDS)
            if not _was_closed(connection):
                return connection
            await connection.close()
            await put_back(self._pool, connection)
            await self._check_reachable()

    async def give_back(self, connection: Connection) -> None:
        """Keep a connection as the spare one, or return it to the pool if there is a spare one or callers wait."""
        self._in_use -= 1
        if self._spare is None and self._may_be_spare(connection):
            self._spare = connection
            return
        try:
            if connection.pgconn.pipeline_status:
                # Interrupted in the middle of a pipeline: the next caller's statements would continue that pipeline.
                await connection.close()
        finally:
            await put_back(self._pool, connection)

    def _may_be_spare(self, connection: Connection) -> bool:
        """Whether no call waits for a connection, and this one has no open transaction and stays open."""
        pool = self._pool
        if self._requests or pool.closed or connection._expire_at <= time.monotonic():  # noqa: SLF001 - only the pool knows when it closes the connection
            return False
        return connection.pgconn.transaction_status == TransactionStatus.IDLE and not connection.pgconn.pipeline_status

    async def _check_reachable(self, recent_seconds: float = 0.0) -> None:
        """Raise the driver's error if the server does not answer: the pool's timeout does not tell that apart.

        It connects once for all callers at a time, and for callers to whom an attempt is recent enough: many wait or
        time out at once. It does so in a separate task, because the driver can lose a cancellation while it connects.
        """
        if self._check is None or (self._check.done() and time.monotonic() - self._checked_at >= recent_seconds):
            self._check, self._checked_at = in_background(self._connect_or_revive()), time.monotonic()
            self._check.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._check)

    async def _connect_or_revive(self) -> None:
        try:
            await _connect_once(self.url)
        except psycopg.OperationalError:
            await self._revive()
            await _connect_once(self.url)

    async def _run(
        self,
        connection: Connection,
        tenant_id: int | None,
        settings: Mapping[str, str] | None,
        statements: Sequence[Compiled],
    ) -> list[Answer]:
        """Run the statements as the tenant, under the settings, in one round trip."""
        pairs = () if settings is None else tuple(settings.items())
        stay, local = self._settings(tenant_id, pairs)
        if settings is None:
            stay = connection.session.with_others(stay)
        if self.facts.is_distributed:
            return await run_on_nodes(connection, local, statements)
        set_up = connection.session.changes(stay)
        if local:
            set_up.append(set_statement(local, is_local=True))
        plan = None if self.is_pooled else pairs
        answers = await run_together(connection, [*set_up, *statements], plan)
        connection.session.settled(stay)
        return answers[len(set_up) :]

    @asynccontextmanager
    async def _begin(self, connection: Connection, tenant_id: int | None) -> AsyncIterator[None]:
        """A transaction of the tenant."""
        stay, local = self._settings(tenant_id, ())
        set_up = connection.session.changes(stay)
        if set_up:
            await run_together(connection, set_up)
        async with connection.transaction():
            if local:
                await self.set_locally(connection, local)
            yield
        connection.session.settled(stay)

    async def set_locally(self, connection: Connection, values: Mapping[str, str]) -> None:
        """Set these values until the transaction ends, on the nodes of a cluster too."""
        if self.facts.is_distributed:
            await run_together(connection, settings_of_nodes(values))
        else:
            statement = set_statement(values, is_local=True)
            await connection.execute(statement.text, statement.parameters)

    def _settings(
        self, tenant_id: int | None, pairs: tuple[tuple[str, str], ...]
    ) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """The settings of the session, and those of a single transaction."""
        values = self._known_settings.get((tenant_id, pairs))
        if values is None:
            if len(self._known_settings) >= _MOST_SETTINGS:
                self._known_settings.clear()
            values = self._known_settings[tenant_id, pairs] = self._settings_of(tenant_id, pairs)
        until = current_deadline()
        if until is None:
            return values
        stay, local = values
        return stay, {**local, "statement_timeout": str(min(until.milliseconds(), self._longest))}

    def _settings_of(self, tenant_id: int | None, pairs: tuple[tuple[str, str], ...]) -> tuple[_Values, _Values]:
        own = {
            "role": self.names.app_role,
            "search_path": self.search_path,
            "retrieval.tenant": "" if tenant_id is None else str(tenant_id),
        }
        if self.is_pooled or self.facts.is_distributed:
            return {}, {**own, **dict(pairs)}
        stay = {name: value for name, value in pairs if name.startswith(_OF_SESSION)}
        return {**own, **stay}, {name: value for name, value in pairs if name not in stay}


class CollectionPlace(NamedTuple):
    """A collection of a tenant, for statements about it."""

    database: Database
    tenant_id: int
    collection_id: int

    async def read(
        self, statement: Compiled, settings: Mapping[str, str] = _NO_SETTINGS, /, **values: Any
    ) -> list[Row]:
        """Run a statement with these values and a parameter ``collection_id``, as ``Database.read`` does."""
        bound = statement.bind(collection_id=self.collection_id, **values)
        return await self.database.read(self.tenant_id, bound, settings)

    async def write(self, statement: Compiled, /, **values: Any) -> list[Row]:
        """Run a statement with these values and a parameter ``collection_id``, as ``Database.write`` does."""
        return await self.database.write(self.tenant_id, statement.bind(collection_id=self.collection_id, **values))


async def _is_direct(connection: Connection) -> bool:
    """Whether the connection is to the server itself: a pooler reports an invented process id."""
    return int(await connection.value("SELECT pg_backend_pid()")) == connection.info.backend_pid


async def _connect_once(url: str) -> None:
    await (await _connect(url)).close()


async def _nothing() -> None:
    """Do nothing: only the embedded server can be restarted."""


async def _connect(url: str) -> Connection:
    return await SessionConnection.connect(url, autocommit=True, **CONNECTION)


def _was_closed(connection: Connection) -> bool:
    """Whether the server sent data on an idle connection, as it does to close it; needs no round trip."""
    if connection.closed:
        return True  # the number of its socket may be that of another connection by now
    if sys.platform == "win32":
        return bool(select.select([connection.pgconn.socket], [], [], 0)[0])
    return bool(connection.poll.poll(0))


async def _vector_types(connection: Connection, schema: str) -> tuple[TypeInfo, TypeInfo]:
    halfvec = await TypeInfo.fetch(connection, sql.Identifier(schema, "halfvec"))
    sparsevec = await TypeInfo.fetch(connection, sql.Identifier(schema, "sparsevec"))
    if halfvec is None or sparsevec is None:
        raise DatabaseUnreachableError("pgvector's types were not found; run: retrieval db status")
    return halfvec, sparsevec


def _register(connection: Connection, types: tuple[TypeInfo, TypeInfo]) -> None:
    """Let a connection send vectors in binary format; the types' OIDs were looked up once for all connections."""
    halfvec, sparsevec = types
    register_halfvec_info(connection, halfvec)
    register_sparsevec_info(connection, sparsevec)
    register_arrays(connection.adapters, halfvec)
