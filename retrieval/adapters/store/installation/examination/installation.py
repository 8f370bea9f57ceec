"""Read the state of the server as the login sees it: settings, blocking activity, the queue, tables and indexes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.rows import class_row, kwargs_row

from retrieval.adapters.store.installation.checks import check_date_style
from retrieval.adapters.store.installation.examination.table_state import (
    IndexState,
    TableState,
    read_functions,
    read_indexes,
    read_tables,
)
from retrieval.adapters.store.installed_sql import Names
from retrieval.adapters.store.round_trip import CONNECTION
from retrieval.adapters.store.translate import translated


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """One server, one database, one login."""

    version_number: int
    """PostgreSQL's version number: 180006 is 18.6."""
    version: str
    database: str
    login: str
    is_superuser: bool
    """Whether the login is a superuser or bypasses row-level security."""
    may_act: bool
    """Whether it may switch to the application role."""
    may_define: bool
    """Whether it may switch to the definer role, as workers and indexing need."""
    sees_activity: bool
    """Whether it sees the activity of other logins."""
    unsafe_roles: tuple[str, ...]
    """Roles of the installation that may log in or bypass row-level security."""
    pgvector: str | None
    pgvector_available: str | None
    """The release whose files the server has."""
    textsearch: str | None
    textsearch_available: str | None
    is_textsearch_loaded: bool
    has_schema: bool
    is_standby: bool
    encoding: str
    is_collation_changed: bool
    """Whether the operating system sorts text differently from when the database was made."""
    checksum_failures: int
    database_bytes: int
    connections: int
    """The connections to all databases of the server."""
    max_connections: int
    """The most connections of logins that are not superusers."""
    frozen_age: int
    """Transactions since the oldest one that is not frozen in this database."""
    freeze_max_age: int
    now: datetime


_STATE = """
    SELECT
        current_setting('server_version_num')::int AS version_number,
        current_setting('server_version') AS version,
        current_database()::text AS database,
        session_user::text AS login,
        (SELECT r.rolsuper OR r.rolbypassrls FROM pg_roles r WHERE r.rolname = session_user) AS is_superuser,
        coalesce((SELECT CASE WHEN current_setting('server_version_num')::int >= 160000
                              THEN pg_has_role(r.oid, 'SET') ELSE pg_has_role(r.oid, 'MEMBER') END
                  FROM pg_roles r WHERE r.rolname = %(app)s), false) AS may_act,
        coalesce((SELECT CASE WHEN current_setting('server_version_num')::int >= 160000
                              THEN pg_has_role(r.oid, 'SET') ELSE pg_has_role(r.oid, 'MEMBER') END
                  FROM pg_roles r WHERE r.rolname = %(definer)s), false) AS may_define,
        pg_has_role('pg_read_all_stats', 'USAGE') AS sees_activity,
        ARRAY(SELECT r.rolname::text FROM pg_roles r
              WHERE r.rolname IN (%(app)s, %(definer)s, %(analyst)s)
                  AND (r.rolsuper OR r.rolbypassrls OR r.rolcanlogin AND NOT EXISTS (
                      -- The nodes of a cluster log in at each other as the role that acts.
                      SELECT FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
                      WHERE n.nspname = %(schema)s AND p.proname = 'own_collections'
                  )) ORDER BY 1) AS unsafe_roles,
        (SELECT e.extversion FROM pg_extension e WHERE e.extname = 'vector') AS pgvector,
        (SELECT a.default_version FROM pg_available_extensions a WHERE a.name = 'vector') AS pgvector_available,
        (SELECT e.extversion FROM pg_extension e WHERE e.extname = 'pg_textsearch') AS textsearch,
        (SELECT a.default_version FROM pg_available_extensions a WHERE a.name = 'pg_textsearch')
            AS textsearch_available,
        current_setting('pg_textsearch.library_version', true) IS NOT NULL AS is_textsearch_loaded,
        EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = %(schema)s AND c.relname = 'alembic_version') AS has_schema,
        pg_is_in_recovery() AS is_standby,
        pg_encoding_to_char(d.encoding)::text AS encoding,
        d.datcollversion IS NOT NULL
            AND d.datcollversion IS DISTINCT FROM pg_database_collation_actual_version(d.oid) AS is_collation_changed,
        coalesce((SELECT s.checksum_failures FROM pg_stat_database s WHERE s.datid = d.oid), 0) AS checksum_failures,
        pg_database_size(d.oid) AS database_bytes,
        (SELECT sum(s.numbackends)::int FROM pg_stat_database s) AS connections,
        current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
            - coalesce(current_setting('reserved_connections', true), '0')::int AS max_connections,
        age(d.datfrozenxid) AS frozen_age,
        current_setting('autovacuum_freeze_max_age')::int AS freeze_max_age,
        clock_timestamp() AS now
    FROM pg_database d WHERE d.datname = current_database()
"""


async def read_server(connection: psycopg.AsyncConnection[Any], names: Names) -> ServerState:
    """The server as the connection's login sees it; it needs no schema."""
    roles = {"app": names.app_role, "definer": names.definer_role, "analyst": names.analyst_role}
    async with connection.cursor(row_factory=kwargs_row(_state)) as cursor:
        await cursor.execute(_STATE, {"schema": names.schema, **roles})
        (state,) = await cursor.fetchall()
    return state


def _state(**values: Any) -> ServerState:
    return ServerState(**{**values, "unsafe_roles": tuple(values["unsafe_roles"])})


SETTINGS = (
    *("shared_buffers", "maintenance_work_mem", "work_mem", "random_page_cost", "jit"),
    *("max_parallel_workers_per_gather", "max_parallel_maintenance_workers", "max_wal_size"),
    *("synchronous_commit", "fsync", "full_page_writes", "autovacuum", "track_counts", "default_transaction_read_only"),
    *("autovacuum_vacuum_threshold", "autovacuum_vacuum_scale_factor", "statement_timeout"),
    *("enable_indexscan", "enable_bitmapscan", "enable_seqscan", "enable_sort", "enable_hashjoin", "enable_nestloop"),
)
"""The settings that are read."""

_READ = "SELECT s.name, s.setting, coalesce(s.unit, '') FROM pg_settings s WHERE s.name = ANY(%s)"

_BYTES = {"B": 1, "kB": 1 << 10, "8kB": 8 << 10, "16kB": 16 << 10, "32kB": 32 << 10, "MB": 1 << 20, "GB": 1 << 30}
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_UNITS: Mapping[str, float] = {**_BYTES, **_SECONDS}

Settings = Mapping[str, str | float]
"""Numbers as bytes, seconds or plain numbers; other values as PostgreSQL writes them."""


async def read_settings(connection: psycopg.AsyncConnection[Any]) -> Settings:
    """The settings by name."""
    cursor = await connection.execute(_READ, (list(SETTINGS),))
    return {name: setting_value(setting, unit) for name, setting, unit in await cursor.fetchall()}


def setting_value(setting: str, unit: str) -> str | float:
    """A setting as bytes, seconds or a plain number: ``("16384", "8kB")`` is 134217728. Names stay as they are."""
    try:
        number = float(setting)
    except ValueError:
        return setting
    return number * _UNITS.get(unit, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdup:
    """Something that keeps dead rows, log files or other sessions waiting."""

    kind: str
    """``transaction``, ``idle``, ``blocked``, ``prepared`` or ``slot``."""
    who: str
    """The process number, the prepared transaction's name or the slot's name."""
    what: str
    """The owner: login and program, where they are known."""
    seconds: float
    """The duration; 0 for a slot."""
    bytes: int = 0
    """The size of the log that a replication slot keeps."""


LONG_SECONDS = 900
"""A transaction that is open for longer is reported; an idle one after a third of that time."""

_HOLDUPS = """
    SELECT CASE WHEN a.state LIKE 'idle in transaction%%' THEN 'idle' ELSE 'transaction' END AS kind,
        a.pid::text AS who, concat_ws(', ', a.usename, nullif(a.application_name, '')) AS what,
        extract(epoch FROM clock_timestamp() - a.xact_start)::float AS seconds, 0::bigint AS bytes
    FROM pg_stat_activity a
    WHERE a.backend_type = 'client backend' AND a.pid <> pg_backend_pid() AND a.datname = current_database()
        AND a.xact_start < clock_timestamp() - make_interval(secs => CASE
            WHEN a.state LIKE 'idle in transaction%%' THEN %(long)s / 3 ELSE %(long)s END)
    UNION ALL
    SELECT 'blocked', a.pid::text, concat_ws(', ', a.usename, nullif(a.application_name, ''), 'by '
            || array_to_string(pg_blocking_pids(a.pid), ' ')),
        extract(epoch FROM clock_timestamp() - l.waitstart)::float, 0
    FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE NOT l.granted AND l.waitstart < clock_timestamp() - interval '30 seconds'
        AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    UNION ALL
    SELECT 'prepared', p.gid, p.owner::text, extract(epoch FROM clock_timestamp() - p.prepared)::float, 0
    FROM pg_prepared_xacts p
    WHERE p.database = current_database() AND p.prepared < clock_timestamp() - make_interval(secs => %(long)s)
    UNION ALL
    SELECT 'slot', s.slot_name::text, s.slot_type, 0,
        pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END,
                        s.restart_lsn)::bigint
    FROM pg_replication_slots s WHERE NOT s.active AND s.restart_lsn IS NOT NULL
    ORDER BY kind, seconds DESC
"""


async def read_holdups(connection: psycopg.AsyncConnection[Any], long_seconds: float = LONG_SECONDS) -> list[Holdup]:
    """Read the hold-ups that the login may see."""
    async with connection.cursor(row_factory=class_row(Holdup)) as cursor:
        await cursor.execute(_HOLDUPS, {"long": long_seconds})
        return await cursor.fetchall()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """The queue, of every tenant."""

    waiting: int
    oldest_seconds: float
    """The waiting time of the oldest job that is due."""
    failed: int
    """The jobs in the queue that ended with an error."""
    last_failed: str
    """The job that failed last; empty for none."""
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
        coalesce((SELECT j.task_name FROM {jobs}.procrastinate_jobs j WHERE j.status = 'failed'
                  ORDER BY j.id DESC LIMIT 1), '') AS last_failed,
        (SELECT count(*) FROM {jobs}.procrastinate_jobs j
         LEFT JOIN {jobs}.procrastinate_workers w ON w.id = j.worker_id
         WHERE j.status = 'doing'
             AND (w.id IS NULL OR w.last_heartbeat < now() - make_interval(secs => %(stalled)s))) AS stalled,
        (SELECT count(*) FROM {jobs}.procrastinate_workers w
         WHERE w.last_heartbeat >= now() - make_interval(secs => %(stalled)s)) AS workers,
        (SELECT extract(epoch FROM now() - max(w.last_heartbeat))::float
         FROM {jobs}.procrastinate_workers w) AS silent_seconds,
        (SELECT extract(epoch FROM now())::float - max(p.defer_timestamp)
         FROM {jobs}.procrastinate_periodic_defers p) AS due_seconds
"""


async def read_queue(connection: psycopg.AsyncConnection[Any], names: Names, stalled_seconds: float) -> QueueFacts:
    """The queue, for a login that may act as the definer role.

    ``stalled_seconds``: the time without a heartbeat after which a worker counts as stopped.
    """
    statement = sql.SQL(_QUEUE).format(jobs=sql.Identifier(names.jobs_schema))
    async with connection.cursor(row_factory=class_row(QueueFacts)) as cursor:
        await cursor.execute(statement, {"stalled": stalled_seconds})
        (facts,) = await cursor.fetchall()
    return facts


async def has_queue(connection: psycopg.AsyncConnection[Any], names: Names) -> bool:
    """Whether all tables of the queue that are read here exist; works for any login."""
    statement = """
        SELECT count(*) = 4 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = %s AND c.relname IN ('procrastinate_jobs', 'procrastinate_events', 'procrastinate_workers',
                                               'procrastinate_periodic_defers')
    """
    row = await (await connection.execute(statement, (names.jobs_schema,))).fetchone()
    return row is not None and bool(row[0])


T = TypeVar("T")

_Connection = psycopg.AsyncConnection[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The facts about an installation; None: the login may not read it."""

    server: ServerState
    settings: Settings
    tables: tuple[TableState, ...]
    indexes: tuple[IndexState, ...]
    holdups: tuple[Holdup, ...] | None
    queue: QueueFacts | None
    functions: frozenset[str]
    """The names of the schema's functions."""
    has_queue: bool = True
    """Whether the queue's schema and tables exist."""

    @property
    def is_distributed(self) -> bool:
        """Whether it is on a cluster."""
        return _is_distributed(self.functions)


def _is_distributed(functions: frozenset[str]) -> bool:
    return "own_collections" in functions


async def read_installation(connection: _Connection, names: Names, *, stalled_seconds: float) -> Installation:
    """Read all facts, in eight statements on one connection outside any transaction.

    ``stalled_seconds``: see ``read_queue``.
    """
    holdups = await _if_permitted(read_holdups(connection))
    server = await read_server(connection, names)
    functions = await read_functions(connection, names)
    is_distributed = _is_distributed(functions)
    return Installation(
        server=server,
        settings=await read_settings(connection),
        tables=tuple(await read_tables(connection, names, is_distributed=is_distributed)),
        indexes=tuple(await read_indexes(connection, names, is_distributed=is_distributed)),
        holdups=None if holdups is None else tuple(holdups),
        queue=await _if_permitted(read_queue(connection, names, stalled_seconds)),
        functions=functions,
        has_queue=not server.has_schema or await has_queue(connection, names),
    )


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[_Connection]:
    """A connection with the login's own role, for a database that the platform may be unable to open.

    Raises ``DatabaseUnreachableError`` and ``UnsupportedDatabaseError``.
    """
    with translated(url):
        async with await psycopg.AsyncConnection.connect(url, autocommit=True, **CONNECTION) as connection:
            check_date_style(connection)
            yield connection


async def _if_permitted(reading: Awaitable[T]) -> T | None:
    try:
        return await reading
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return None
