"""The worker's view across tenants: the queue with its state, and all collections with their tenants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from psycopg import sql

from retrieval.adapters.store.database import Database
from retrieval.adapters.store.installed_sql import quote_identifier
from retrieval.domain.errors import MissingPrivilegeError

_MAY_WORK = """
    SELECT session_user::text, EXISTS (
        SELECT FROM pg_namespace n WHERE n.nspname = %s AND has_schema_privilege(session_user, n.oid, 'USAGE')
    )
"""


async def check_worker(database: Database) -> None:
    """Raise ``MissingPrivilegeError``, with the grant that mends it, unless the login may work through the queue."""
    async with database.maintenance() as connection:
        row = await (await connection.execute(_MAY_WORK, (database.names.jobs_schema,))).fetchone()
    if row is not None and not row[1]:
        grant = f"GRANT {quote_identifier(database.names.definer_role)} TO {quote_identifier(row[0])}"
        raise MissingPrivilegeError(
            f"login {row[0]!r} may not work through the queue of jobs; let the owner run: {grant} "
            "(see docs/how-to/jobs.md)"
        )


async def tenants_with_collections(database: Database) -> list[int]:
    """The numbers of the tenants that have a collection, ascending.

    Raises ``MissingPrivilegeError`` unless the login may act as the definer role.
    """
    statement = sql.SQL("SELECT DISTINCT tenant_id FROM {}() ORDER BY tenant_id").format(
        sql.Identifier(database.names.schema, "every_collection")
    )
    async with database.maintenance() as connection:
        return [int(row[0]) for row in await (await connection.execute(statement)).fetchall()]


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
