"""Read the state of the server as the login sees it: settings, the queue, tables and indexes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from retrieval.adapters.store.installation.checks import (
    SchemaStatus,
    ServerFacts,
    check_session,
    server_facts,
    status_of,
    stored_revision,
)
from retrieval.adapters.store.installation.examination.table_state import (
    IndexState,
    TableState,
    read_indexes,
    read_tables,
)
from retrieval.adapters.store.installed_sql import Names
from retrieval.adapters.store.round_trip import CONNECTION
from retrieval.adapters.store.translate import translated

_Connection = psycopg.AsyncConnection[Any]
Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """One server, one database, one login, beside what the start-up checks read."""

    version: str
    is_superuser: bool
    """Whether the login is a superuser or bypasses row-level security."""
    may_define: bool
    """Whether it may switch to the definer role, as workers and indexing need."""
    unsafe_roles: Sequence[str]
    """Roles of the installation that may log in or bypass row-level security."""
    textsearch: str | None
    is_textsearch_loaded: bool
    is_standby: bool
    is_collation_changed: bool
    """Whether the operating system sorts text differently from when the database was made."""
    connections: int
    """The connections to all databases of the server."""
    max_connections: int
    """The most connections of logins that are not superusers."""
    database_bytes: int
    functions: Sequence[str]
    """The names of the schema's functions."""
    now: datetime


_STATE = """
    SELECT
        current_setting('server_version') AS version,
        (SELECT r.rolsuper OR r.rolbypassrls FROM pg_roles r WHERE r.rolname = session_user) AS is_superuser,
        coalesce((SELECT pg_has_role(r.oid, 'SET') FROM pg_roles r WHERE r.rolname = %(definer)s), false) AS may_define,
        ARRAY(SELECT r.rolname::text FROM pg_roles r
              WHERE r.rolname IN (%(app)s, %(definer)s, %(analyst)s)
                  -- The nodes of a cluster log in at each other as the role that acts.
                  AND (r.rolsuper OR r.rolbypassrls OR r.rolcanlogin AND NOT %(is_distributed)s)
              ORDER BY 1) AS unsafe_roles,
        (SELECT e.extversion FROM pg_extension e WHERE e.extname = 'pg_textsearch') AS textsearch,
        current_setting('pg_textsearch.library_version', true) IS NOT NULL AS is_textsearch_loaded,
        pg_is_in_recovery() AS is_standby,
        (SELECT d.datcollversion IS NOT NULL
             AND d.datcollversion IS DISTINCT FROM pg_database_collation_actual_version(d.oid)
         FROM pg_database d WHERE d.datname = current_database()) AS is_collation_changed,
        (SELECT sum(s.numbackends)::int FROM pg_stat_database s) AS connections,
        current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
            - current_setting('reserved_connections')::int AS max_connections,
        pg_database_size(current_database()) AS database_bytes,
        ARRAY(SELECT p.proname::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
              WHERE n.nspname = %(schema)s) AS functions,
        clock_timestamp() AS now
"""


class SettingValue(NamedTuple):
    """A setting of the server."""

    number: float | None
    """Bytes, seconds or a plain number; None: the value is a word."""
    text: str
    """The value as PostgreSQL shows it, such as ``64MB``."""


Settings = Mapping[str, SettingValue]

_SETTINGS = """
    SELECT s.name, CASE
        WHEN s.unit LIKE '%%B' THEN pg_size_bytes(current_setting(s.name))
        WHEN s.unit IN ('us', 'ms', 's', 'min', 'h', 'd')
            THEN extract(epoch FROM current_setting(s.name)::interval)
        WHEN s.vartype IN ('integer', 'real') THEN s.setting::numeric
    END::float, current_setting(s.name)
    FROM pg_settings s WHERE s.name = ANY(%s)
"""


async def read_settings(connection: _Connection, names: Sequence[str]) -> Settings:
    """These settings by name."""
    cursor = await connection.execute(_SETTINGS, (list(names),))
    return {name: SettingValue(number, text) for name, number, text in await cursor.fetchall()}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """The queue, of every tenant."""

    waiting: int
    oldest_seconds: float
    """The waiting time of the oldest job that is due."""
    failed: int
    """The jobs in the queue that ended with an error."""
    stalled: int
    """Jobs under way whose worker sends no more heartbeats."""
    workers: int
    """Workers with a recent heartbeat."""
    silent_seconds: float | None
    """The time since any worker's last heartbeat; None: there was none."""
    due_seconds: float | None
    """The time since a worker last looked for due jobs; None: no worker ever did."""


_QUEUE = """
    SELECT
        (SELECT count(*) FROM {jobs}.procrastinate_jobs j
         WHERE j.status = 'todo' AND coalesce(j.scheduled_at, now()) <= now()) AS waiting,
        coalesce((SELECT extract(epoch FROM now() - min(greatest(e.at, j.scheduled_at)))::float
                  FROM {jobs}.procrastinate_jobs j JOIN {jobs}.procrastinate_events e ON e.job_id = j.id
                  WHERE j.status = 'todo' AND coalesce(j.scheduled_at, now()) <= now()
                      AND e.type = 'deferred'), 0) AS oldest_seconds,
        (SELECT count(*) FROM {jobs}.procrastinate_jobs j WHERE j.status = 'failed') AS failed,
        (SELECT count(*) FROM {jobs}.procrastinate_jobs j WHERE j.status = 'doing' AND NOT EXISTS (
            SELECT FROM {jobs}.procrastinate_workers w
            WHERE w.id = j.worker_id AND w.last_heartbeat >= now() - make_interval(secs => %(stalled)s))) AS stalled,
        (SELECT count(*) FROM {jobs}.procrastinate_workers w
         WHERE w.last_heartbeat >= now() - make_interval(secs => %(stalled)s)) AS workers,
        (SELECT extract(epoch FROM now() - max(w.last_heartbeat))::float
         FROM {jobs}.procrastinate_workers w) AS silent_seconds,
        (SELECT extract(epoch FROM now())::float - max(p.defer_timestamp)
         FROM {jobs}.procrastinate_periodic_defers p) AS due_seconds
"""


async def read_queue(connection: _Connection, names: Names, stalled_seconds: float) -> QueueFacts:
    """The queue, for a login that may act as the definer role.

    ``stalled_seconds``: the time without a heartbeat after which a worker counts as stopped.
    """
    statement = sql.SQL(_QUEUE).format(jobs=sql.Identifier(names.jobs_schema))
    async with connection.cursor(row_factory=class_row(QueueFacts)) as cursor:
        await cursor.execute(statement, {"stalled": stalled_seconds})
        (facts,) = await cursor.fetchall()
    return facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The facts about an installation; None: the login may not read it."""

    facts: ServerFacts
    server: ServerState
    asked_at: datetime
    read_at: datetime
    """This machine's times, in UTC, before and after the server's state was read."""
    status: SchemaStatus | None
    settings: Settings
    tables: Sequence[TableState]
    indexes: Sequence[IndexState]
    queue: QueueFacts | None
    has_queue: bool = True
    """Whether the queue's schema and tables exist."""


async def read_installation(
    connection: _Connection, names: Names, settings: Sequence[str], stalled_seconds: float, clock: Clock
) -> Installation:
    """Read all facts, in seven statements on one connection outside any transaction.

    ``settings``: the names of the settings to read; ``stalled_seconds``: see ``read_queue``; ``clock``: the time of
    day, in UTC.
    """
    facts, asked_at = await server_facts(connection, names), clock()
    roles = {"app": names.app_role, "definer": names.definer_role, "analyst": names.analyst_role}
    async with connection.cursor(row_factory=class_row(ServerState)) as cursor:
        await cursor.execute(_STATE, {"schema": names.schema, "is_distributed": facts.is_distributed, **roles})
        (server,) = await cursor.fetchall()
    read_at = clock()
    status: SchemaStatus | None = status_of(names.schema, None)
    queue, has_queue = None, True
    if facts.has_schema:
        status = None
        with suppress(psycopg.errors.InsufficientPrivilege):
            status = status_of(names.schema, await stored_revision(connection, names))
        try:
            with suppress(psycopg.errors.InsufficientPrivilege):
                queue = await read_queue(connection, names, stalled_seconds)
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            has_queue = False
    return Installation(
        facts=facts,
        server=server,
        asked_at=asked_at,
        read_at=read_at,
        status=status,
        settings=await read_settings(connection, settings),
        tables=await read_tables(connection, names, is_distributed=facts.is_distributed),
        indexes=await read_indexes(connection, names, is_distributed=facts.is_distributed),
        queue=queue,
        has_queue=has_queue,
    )


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[_Connection]:
    """A connection with the login's own role, for a database that the platform may be unable to open.

    Raises ``DatabaseUnreachableError`` and ``UnsupportedDatabaseError``.
    """
    with translated(url):
        async with await psycopg.AsyncConnection.connect(url, autocommit=True, **CONNECTION) as connection:
            check_session(connection)
            yield connection
