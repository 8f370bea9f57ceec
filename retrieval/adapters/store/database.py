"""Connections: a bounded pool, and transactions that act as one tenant.

A connection is set up when it begins to serve another tenant, and keeps the plans of searches. Behind a pooler in
transaction mode another client uses the session next, so each transaction sets everything itself and keeps no plan.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import psycopg
from opentelemetry.trace import SpanKind
from pgvector.psycopg.halfvec import register_halfvec_info
from pgvector.psycopg.sparsevec import register_sparsevec_info
from psycopg import sql
from psycopg.types import TypeInfo

from retrieval.adapters.store import round_trip
from retrieval.adapters.store.arrays import register_arrays
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.deadline import WITHOUT_LIMITS, current_deadline
from retrieval.adapters.store.installation.checks import ServerFacts, check_server
from retrieval.adapters.store.installation.nodes import register_literals, run_on_nodes, settings_of_nodes
from retrieval.adapters.store.installed_sql import Names, quote_identifier
from retrieval.adapters.store.pool import ConnectionPool, PoolState
from retrieval.adapters.store.round_trip import Answer, Row, SessionConnection
from retrieval.adapters.store.translate import URL_SETTING, half_a_character, is_full, translated
from retrieval.adapters.tracing import span
from retrieval.domain.errors import DatabaseBusyError, DatabaseError, DatabaseUnreachableError

if TYPE_CHECKING:
    from retrieval.adapters.store.replicas import Replicas

_Result = TypeVar("_Result")

_MOST_ATTEMPTS = 5


async def despite_deadlocks(write: Callable[[], Awaitable[_Result]]) -> _Result:
    """The result of ``write``, a whole transaction, which is done again if the server ended it because of a deadlock.

    Writers lock stored items in one order, but an item that two of them create cannot be locked before.
    """
    for _ in range(_MOST_ATTEMPTS - 1):
        try:
            return await write()
        except DatabaseBusyError as error:
            if not isinstance(error.__cause__, psycopg.errors.DeadlockDetected):
                raise
            _log.info("two writers waited for each other; writing again")
    return await write()


_log = logging.getLogger(__name__)

Connection = SessionConnection

_NO_LIMIT = 2**31 - 1
"""The longest timeout that PostgreSQL accepts, in milliseconds."""

_Settings = Mapping[str, str]
"""The values of settings by name."""

_NO_SETTINGS: _Settings = {}

_Pairs = tuple[tuple[str, str], ...]
"""The settings as a key of caches."""

_OF_SESSION = ("enable_", "hnsw.", "jit", "plan_cache_mode")
"""The prefixes of those settings of a search that stay set until another search needs other values."""


class Database:
    """One installation: a schema of a database, through a pool of connections."""

    def __init__(
        self,
        url: str,
        names: Names,
        facts: ServerFacts,
        pool: ConnectionPool,
        connect: Callable[[], Awaitable[Connection]],
        *,
        is_pooled: bool,
        setting: str,
    ) -> None:
        self._translated = translated(url, setting, lambda: pool.is_closed)
        self.is_pooled = is_pooled
        """Whether a pooler in transaction mode is in front of the server."""
        self.url = url
        self.names = names
        self.facts = facts
        self.loop, self.check_loop = pool.loop, pool.check_loop
        self.replicas: Replicas | None = None
        """The replicas that searches read from; None: there are none."""
        self._pool, self._connect = pool, connect
        self._known_settings = lru_cache(maxsize=1000)(self._settings_of)
        # The login's own limit is never raised.
        self._longest = int(facts.statement_seconds * 1000) or _NO_LIMIT
        self._server = round_trip.server_of(url)
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
                vector_schema = facts.vector_schema or "public"
                async with connection.transaction():  # the login itself may not be allowed to use pgvector's schema
                    await connection.execute("SELECT set_config('role', %s, true)", (names.app_role,))
                    halfvec = await TypeInfo.fetch(connection, sql.Identifier(vector_schema, "halfvec"))
                    sparsevec = await TypeInfo.fetch(connection, sql.Identifier(vector_schema, "sparsevec"))
                if is_pooled is None:
                    is_pooled = not await _is_direct(connection)
        if halfvec is None or sparsevec is None:
            raise DatabaseUnreachableError("pgvector's types were not found; run: retrieval db status")
        reviving = asyncio.Lock()

        async def connected() -> Connection:
            try:
                return await _connect(url)
            except psycopg.OperationalError as error:
                if revive is None or is_full(error) or pool.is_closed:
                    raise
                async with reviving:
                    await revive()
                return await _connect(url)

        async def set_up() -> Connection:
            connection = await connected()
            if facts.is_distributed:
                # A cluster loses some parameters on the way to a node.
                register_literals(connection.adapters, halfvec)
                connection.cursor_factory = psycopg.AsyncClientCursor
            # In binary format; the types' numbers were looked up once for all connections.
            register_halfvec_info(connection, halfvec)
            register_sparsevec_info(connection, sparsevec)
            register_arrays(connection.adapters, halfvec)
            connection.adapters.register_loader("jsonb", round_trip.JsonbLoader)
            return connection

        pool = ConnectionPool(set_up, most=pool_size, timeout=pool_timeout_seconds)
        return cls(url, names, facts, pool, connected, is_pooled=is_pooled, setting=setting)

    @property
    def pool(self) -> PoolState:
        """The state of the pool of connections."""
        return self._pool.state

    @property
    def is_used(self) -> bool:
        """Whether a connection is in use."""
        return self.pool.open > self.pool.idle

    async def close(self) -> None:
        """Close every connection."""
        self._pool.close()

    async def read(self, tenant_id: int | None, statement: Compiled, settings: _Settings = _NO_SETTINGS) -> list[Row]:
        """Run one statement as a tenant, in one round trip and one snapshot.

        ``settings`` hold for this statement alone. If the connection is lost, the statement is run once more.
        """
        return (await self.read_each(tenant_id, [statement], settings))[0]

    async def read_each(
        self, tenant_id: int | None, statements: Sequence[Compiled], settings: _Settings = _NO_SETTINGS
    ) -> list[list[Row]]:
        """Run several statements as a tenant, in one round trip; each has a snapshot of its own."""
        try:
            return await self._read(tenant_id, statements, settings)
        except DatabaseUnreachableError:
            _log.info("the connection was lost; reading again on a new one")
            self._pool.close_idle()  # a server that restarts ends all of them, one after the other
            return await self._read(tenant_id, statements, settings)

    async def write(
        self, tenant_id: int | None, statement: Compiled, settings: _Settings | None = _NO_SETTINGS
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
        self, tenant_id: int | None, statements: Sequence[Compiled], settings: _Settings | None
    ) -> list[list[Row]]:
        try:
            with span(round_trip.ROUND_TRIP, SpanKind.CLIENT) as span_:
                if not self.facts.is_distributed and any(map(round_trip.long_lists, statements)):
                    statements = await round_trip.written(statements)
                connection = await self._pool.take()
                try:
                    if span_ is not None:
                        round_trip.tell_connected(span_, self._server, statements)
                    answers = await self._run(connection, tenant_id, settings, statements)
                finally:
                    is_awaited = self._pool.put(connection)
                if is_awaited:  # the waiting call sends its statement first, or PostgreSQL would be idle meanwhile
                    await asyncio.sleep(0)
                rows = await round_trip.rows_of(answers)
                if span_ is not None:
                    round_trip.tell_rows(span_, rows)
                return rows
        except psycopg.Error as error:
            # Not ``translated``, which costs three calls: every search runs through here.
            raise self._translated.of(error) from error
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
    async def maintenance(self, settings: _Settings | None = None) -> AsyncIterator[Connection]:
        """A connection with the login's own role, outside the pool and any transaction: for building indexes.

        It has the ``settings`` and no time limit, and the server ends its statement soon after this process dies; not
        behind a pooler, because other clients would inherit that. Raises ``DatabaseError`` for a statement that the
        login's limit ended there.
        """
        with self._translated:
            async with await self._connect() as connection:
                is_direct = await _is_direct(connection)
                if is_direct:
                    await connection.execute(WITHOUT_LIMITS.format(is_local="false").encode())
                    for name, value in (settings or {}).items():
                        await connection.execute("SELECT set_config(%s, %s, false)", (name, value))
                    with suppress(psycopg.errors.InvalidParameterValue):  # not supported by a server on Windows
                        await connection.execute("SET client_connection_check_interval = '1s'")
                try:
                    yield connection
                except psycopg.errors.QueryCanceled as error:
                    if is_direct or not self.facts.statement_seconds:
                        raise
                    raise DatabaseError(
                        f"the statement_timeout of login {self.facts.login!r} ended the upkeep of indexes and tables, "
                        "and cannot be lifted behind a pooler; what was written before is stored; run: "
                        f"ALTER ROLE {quote_identifier(self.facts.login)} SET statement_timeout = 0; and RECONNECT in "
                        f"the pooler, or name the server itself in {URL_SETTING}; then: retrieval jobs run indexes"
                    ) from error

    @asynccontextmanager
    async def only_one(self, work: str) -> AsyncIterator[bool]:
        """True if this caller may do the work, while other callers may not; False if another caller is doing it."""
        with self._translated:
            async with await self._connect() as holder, holder.transaction():
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
        with self._translated, span(round_trip.TRANSACTION, SpanKind.CLIENT) as span_:
            connection = await self._pool.take()
            try:
                round_trip.tell_connected(span_, self._server)
                yield connection
            finally:
                self._pool.put(connection)

    async def _run(
        self, connection: Connection, tenant_id: int | None, settings: _Settings | None, statements: Sequence[Compiled]
    ) -> list[Answer]:
        """Run the statements as the tenant, under the settings, in one round trip."""
        pairs = () if settings is None else tuple(settings.items())
        stay, local = self._settings(tenant_id, pairs)
        if settings is None:
            stay = connection.session.with_others(stay)
        if self.facts.is_distributed:
            return await run_on_nodes(connection, local, statements)
        return await round_trip.run_in_session(connection, stay, local, statements, None if self.is_pooled else pairs)

    @asynccontextmanager
    async def _begin(self, connection: Connection, tenant_id: int | None) -> AsyncIterator[None]:
        """A transaction of the tenant."""
        stay, local = self._settings(tenant_id, ())
        set_up = connection.session.changes(stay)
        if set_up:
            await round_trip.run_together(connection, set_up)
        async with connection.transaction():
            if local:
                await self.set_locally(connection, local)
            yield
        connection.session.settled(stay)

    async def set_locally(self, connection: Connection, values: _Settings) -> None:
        """Set these values until the transaction ends, on the nodes of a cluster too."""
        if self.facts.is_distributed:
            await round_trip.run_together(connection, settings_of_nodes(values))
        else:
            statement = round_trip.set_statement(values, is_local=True)
            await connection.execute(statement.text, statement.parameters)

    def _settings(self, tenant_id: int | None, pairs: _Pairs) -> tuple[_Settings, _Settings]:
        """The settings of the session, and those of a single transaction."""
        stay, local = self._known_settings(tenant_id, pairs)
        if (until := current_deadline()) is not None:
            local = {**local, "statement_timeout": str(min(until.milliseconds(), self._longest))}
        return stay, local

    def _settings_of(self, tenant_id: int | None, pairs: _Pairs) -> tuple[_Settings, _Settings]:
        own = {
            "role": self.names.app_role,
            "timezone": "UTC",
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
    connection: Connection | None = None
    """The connection of the transaction that statements are a part of; None: each has a transaction of its own."""

    async def read(self, statement: Compiled, settings: _Settings = _NO_SETTINGS, /, **values: Any) -> list[Row]:
        """Run a statement with these values and a parameter ``collection_id``, as ``Database.read`` does."""
        bound = statement.bind(collection_id=self.collection_id, **values)
        if self.connection is not None:
            cursor = await self.connection.execute(bound.text.encode(), bound.parameters)
            return await cursor.fetchall() if cursor.description else []
        return await self.database.read(self.tenant_id, bound, settings)

    async def write(self, statement: Compiled, /, **values: Any) -> list[Row]:
        """Run a statement with these values and a parameter ``collection_id``, as ``Database.write`` does."""
        if self.connection is not None:
            return await self.read(statement, **values)
        return await self.database.write(self.tenant_id, statement.bind(collection_id=self.collection_id, **values))


async def _is_direct(connection: Connection) -> bool:
    """Whether the connection is to the server itself: a pooler reports an invented process id."""
    return int(await connection.value("SELECT pg_backend_pid()")) == connection.info.backend_pid


async def _connect(url: str) -> Connection:
    return await SessionConnection.connect(round_trip.lasting(url), autocommit=True, **round_trip.CONNECTION)
