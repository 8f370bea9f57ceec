"""How the queue of jobs stands: what waits, what runs, what failed, and whether a worker lives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from psycopg import sql

from retrieval.adapters.store.database import Database

_COUNTS = """
    SELECT queue_name, status::text, count(*) FROM {jobs}
    WHERE status IN ('todo', 'doing', 'failed') GROUP BY 1, 2
"""
_WORKERS = "SELECT count(*) FROM {workers} WHERE last_heartbeat > now() - make_interval(secs => %s)"
_MAY_READ = """
    SELECT EXISTS (
        SELECT FROM pg_namespace n WHERE n.nspname = %s AND has_schema_privilege(session_user, n.oid, 'USAGE')
    )
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """The queue of every tenant's jobs."""

    jobs: Mapping[tuple[str, str], int]
    """How many jobs, by queue and status: ``todo``, ``doing``, ``failed``."""
    workers: int
    """Workers that gave a sign of life lately."""


async def read_queue_state(database: Database, *, alive_seconds: float) -> QueueState | None:
    """The queue as it stands; None where the login may not act as the definer role, and so not see it."""
    schema = database.names.jobs_schema
    counts = sql.SQL(_COUNTS).format(jobs=sql.Identifier(schema, "procrastinate_jobs"))
    workers = sql.SQL(_WORKERS).format(workers=sql.Identifier(schema, "procrastinate_workers"))
    async with database.maintenance({"statement_timeout": "5s"}) as connection:
        row = await (await connection.execute(_MAY_READ, (schema,))).fetchone()
        if row is None or not row[0]:
            return None
        jobs = await (await connection.execute(counts)).fetchall()
        alive = await (await connection.execute(workers, (alive_seconds,))).fetchone()
    return QueueState(
        jobs={(str(queue), str(status)): int(number) for queue, status, number in jobs},
        workers=int(alive[0]) if alive else 0,
    )
