"""Read and store the state of jobs: the queue of all tenants with its workers, and the last run of each job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import sql
from psycopg.types.json import Jsonb

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace, Database
from retrieval.adapters.store.installed_sql import in_template, quote_identifier
from retrieval.domain.errors import MissingPrivilegeError
from retrieval.domain.serialization import Serializable

_DENIED = """
    SELECT session_user::text WHERE NOT EXISTS (
        SELECT FROM pg_namespace n WHERE n.nspname = %s AND has_schema_privilege(session_user, n.oid, 'USAGE')
    )
"""
"""The login, if it may not read the queue."""


async def check_worker(database: Database) -> None:
    """Raise ``MissingPrivilegeError``, with the missing grant, unless the login may run the queue's jobs."""
    async with database.maintenance() as connection:
        row = await (await connection.execute(_DENIED, (database.names.jobs_schema,))).fetchone()
    if row is not None:
        # A login that inherits no rights may have been granted the role already.
        role, login = map(quote_identifier, (database.names.definer_role, row[0]))
        grant = f"GRANT {role} TO {login} WITH INHERIT TRUE;"
        raise MissingPrivilegeError(
            f"login {row[0]!r} may not run the queue's jobs; let the owner run: {grant} (see docs/how-to/jobs.md)"
        )


async def tenants_with_collections(database: Database) -> list[int]:
    """The numbers of the tenants that have a collection, ascending.

    Raises ``MissingPrivilegeError`` unless the login may act as the definer role.
    """
    statement = sql.SQL("SELECT DISTINCT tenant_id FROM {}() ORDER BY tenant_id").format(
        sql.Identifier(database.names.schema, "every_collection")
    )
    async with database.maintenance() as connection:
        return [int(row[0]) for row in await connection.rows(statement)]


_TENANT = Compiled("SELECT t.name FROM tenants AS t WHERE t.tenant_id = %(id)s")


async def tenant_name(database: Database, tenant_id: int) -> str | None:
    """The tenant's name; None: it is gone."""
    rows = await database.read(tenant_id, _TENANT.bind(id=tenant_id))
    return str(rows[0][0]) if rows else None


_COUNTS = """
    SELECT queue_name, CASE WHEN status = 'todo' AND scheduled_at > now() THEN 'failed' ELSE status::text END, count(*)
    FROM {jobs} WHERE status IN ('todo', 'doing', 'failed') GROUP BY 1, 2
"""
_WORKERS = "SELECT count(*) FROM {workers} WHERE last_heartbeat > now() - make_interval(secs => %s)"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """The queue of every tenant's jobs."""

    jobs: Mapping[tuple[str, str], int]
    """The number of jobs by queue and status: ``todo``, ``doing``, or ``failed``, even if it is to be tried again."""
    workers: int
    """Workers with a recent heartbeat."""


async def read_queue_state(database: Database, *, alive_seconds: float) -> QueueState | None:
    """The state of the queue; None if the login may not act as the definer role, and so cannot see it."""
    schema = database.names.jobs_schema
    counts = sql.SQL(_COUNTS).format(jobs=sql.Identifier(schema, "procrastinate_jobs"))
    workers = sql.SQL(_WORKERS).format(workers=sql.Identifier(in_template(schema), "procrastinate_workers"))
    async with database.maintenance({"statement_timeout": "5s"}) as connection:
        if await (await connection.execute(_DENIED, (schema,))).fetchone():
            return None
        jobs = await connection.rows(counts)
        alive = await connection.value(workers, (alive_seconds,))
    return QueueState(jobs={(str(queue), str(status)): int(number) for queue, status, number in jobs}, workers=alive)


RUNNING, DONE, FAILED, INTERRUPTED = "running", "done", "failed", "interrupted"
"""The outcomes of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun(Serializable):
    """One run of a job over one collection."""

    serialized_properties = ("seconds",)
    internal_fields = frozenset({"finished_at"})

    job: str
    started_at: datetime
    finished_at: datetime | None
    outcome: str
    details: Mapping[str, Any]

    @property
    def seconds(self) -> float | None:
        """The run's duration; None: it is running or was interrupted."""
        return None if self.finished_at is None else (self.finished_at - self.started_at).total_seconds()


_BEGIN = Compiled("""
    WITH cut_off AS (
        UPDATE job_runs SET outcome = 'interrupted'
        WHERE collection_id = %(collection_id)s AND job = %(job)s AND outcome = 'running'
    )
    INSERT INTO job_runs (collection_id, job, started_at) VALUES (%(collection_id)s, %(job)s, clock_timestamp())
    RETURNING run_id
""")
_END = Compiled("""
    UPDATE job_runs SET finished_at = now(), outcome = %(outcome)s, details = %(details)s
    WHERE collection_id = %(collection_id)s AND run_id = %(run_id)s
""")
_PROGRESS = Compiled("""
    UPDATE job_runs SET details = jsonb_build_object('so_far', %(so_far)s::bigint)
    WHERE collection_id = %(collection_id)s AND run_id = %(run_id)s AND outcome = 'running'
""")
_LAST_OF_TENANT = Compiled("""
    SELECT DISTINCT ON (r.job) r.job, r.started_at, r.finished_at, r.outcome, r.details
    FROM job_runs r JOIN collections c ON c.collection_id = r.collection_id
    WHERE c.tenant_id = %(id)s
    ORDER BY r.job, r.run_id DESC
""")


async def begin_run(at: CollectionPlace, job: str) -> int:
    """Store the start of a run, and return the run's number. An earlier run that never ended becomes interrupted."""
    return int((await at.write(_BEGIN, job=job))[0][0])


async def note_progress(at: CollectionPlace, run_id: int, so_far: int) -> None:
    """Record the progress of a running job: ``so_far`` of its details."""
    await at.write(_PROGRESS, run_id=run_id, so_far=so_far)


async def end_run(at: CollectionPlace, run_id: int, *, outcome: str, details: Mapping[str, Any]) -> None:
    """Store the end of a run; ``details`` are plain JSON values."""
    await at.write(_END, run_id=run_id, outcome=outcome, details=Jsonb(dict(details)))


async def last_runs_of_tenant(database: Database, tenant_id: int) -> dict[str, JobRun]:
    """The last run of each job over any of a tenant's collections."""
    rows = await database.read(tenant_id, _LAST_OF_TENANT.bind(id=tenant_id))
    return {row[0]: JobRun(**dict(zip(JobRun.__slots__, row, strict=True))) for row in rows}


_ACTED = Compiled("""
    SELECT EXISTS (
        SELECT FROM job_runs
        WHERE collection_id = %(collection_id)s AND job = %(job)s::text AND details ->> 'action' = %(action)s::text
    )
""")


async def has_acted(at: CollectionPlace, job: str, action: str) -> bool:
    """Whether a run of the job over the collection took that action, according to its details."""
    return bool((await at.read(_ACTED, job=job, action=action))[0][0])
