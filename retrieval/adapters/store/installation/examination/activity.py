"""Activity of the server that holds others up, and the queue of jobs with its workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from retrieval.adapters.store.installed_sql import Names


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
    """Since when; of a slot 0."""
    bytes: int = 0
    """The size of the log that a replication slot keeps."""


LONG_SECONDS = 900
"""A transaction that is open for longer is told of; one that only sits there after a third of it."""

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
    """How long the oldest job has been waiting that may run by now."""
    failed: int
    """Jobs that ended with an error, as far back as they are kept."""
    last_failed: str
    """The job that failed last; empty for none."""
    stalled: int
    """Jobs that were begun by a worker that gives no more sign of life."""
    workers: int
    """Workers that gave a sign of life lately."""
    silent_seconds: float | None
    """Since any worker's last sign of life; None: none is known."""
    due_seconds: float | None
    """Since a worker last looked what is due; None: none ever did."""


_STATE = """
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
    """The queue, for a login that may act as the definer role; ``stalled_seconds``: a worker's longest silence."""
    statement = sql.SQL(_STATE).format(jobs=sql.Identifier(names.jobs_schema))
    async with connection.cursor(row_factory=class_row(QueueFacts)) as cursor:
        await cursor.execute(statement, {"stalled": stalled_seconds})
        row = await cursor.fetchone()
    if row is None:
        raise psycopg.errors.NoData("the queue gave no row")
    return row


async def has_queue(connection: psycopg.AsyncConnection[Any], names: Names) -> bool:
    """Whether all tables of the queue are there that are read here; any login may ask."""
    statement = """
        SELECT count(*) = 4 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = %s AND c.relname IN ('procrastinate_jobs', 'procrastinate_events', 'procrastinate_workers',
                                               'procrastinate_periodic_defers')
    """
    row = await (await connection.execute(statement, (names.jobs_schema,))).fetchone()
    return row is not None and bool(row[0])
