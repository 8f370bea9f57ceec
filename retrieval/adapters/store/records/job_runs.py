"""The records of what jobs did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.domain.told import Told

RUNNING, INTERRUPTED = "running", "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun(Told):
    """One run of a job over one collection."""

    told_also = ("seconds",)
    untold = frozenset({"finished_at"})

    job: str
    started_at: datetime
    finished_at: datetime | None
    outcome: str
    details: Mapping[str, Any]

    @property
    def seconds(self) -> float | None:
        """The run's duration; None while it runs, or when it was interrupted."""
        return None if self.finished_at is None else (self.finished_at - self.started_at).total_seconds()


_BEGIN = """
    WITH cut_off AS (
        UPDATE job_runs SET outcome = 'interrupted'
        WHERE collection_id = %(id)s AND job = %(job)s AND outcome = 'running'
    )
    INSERT INTO job_runs (collection_id, job, started_at) VALUES (%(id)s, %(job)s, clock_timestamp()) RETURNING run_id
"""
_END = """
    UPDATE job_runs SET finished_at = now(), outcome = %(outcome)s, details = %(details)s
    WHERE collection_id = %(id)s AND run_id = %(run_id)s
"""
_PROGRESS = """
    UPDATE job_runs SET details = jsonb_build_object('so_far', %(so_far)s::bigint)
    WHERE collection_id = %(id)s AND run_id = %(run_id)s AND outcome = 'running'
"""
_LAST = Compiled("""
    SELECT DISTINCT ON (r.job) r.job, r.started_at, r.finished_at, r.outcome, r.details
    FROM job_runs r
    WHERE r.collection_id = %(id)s
    ORDER BY r.job, r.run_id DESC
""")
_LAST_OF_TENANT = Compiled("""
    SELECT DISTINCT ON (r.job) r.job, r.started_at, r.finished_at, r.outcome, r.details
    FROM job_runs r JOIN collections c ON c.collection_id = r.collection_id
    WHERE c.tenant_id = %(id)s
    ORDER BY r.job, r.started_at DESC
""")


async def begin_run(database: Database, tenant_id: int, collection_id: int, job: str) -> int:
    """Note that the job has begun; returns the run's number. A run still noted as running was interrupted."""
    async with database.transaction(tenant_id) as connection:
        row = await (await connection.execute(_BEGIN, {"id": collection_id, "job": job})).fetchone()
    return 0 if row is None else int(row[0])


async def note_progress(database: Database, tenant_id: int, collection_id: int, run_id: int, so_far: int) -> None:
    """Note how much a run has done that goes on: ``so_far`` of its details."""
    values = {"id": collection_id, "run_id": run_id, "so_far": so_far}
    async with database.transaction(tenant_id) as connection:
        await connection.execute(_PROGRESS, values)


async def end_run(
    database: Database, tenant_id: int, collection_id: int, run_id: int, *, outcome: str, details: Mapping[str, Any]
) -> None:
    """Note how the run ended; ``details`` are plain JSON values."""
    values = {"id": collection_id, "run_id": run_id, "outcome": outcome, "details": Jsonb(dict(details))}
    async with database.transaction(tenant_id) as connection:
        await connection.execute(_END, values)


async def last_runs(database: Database, tenant_id: int, collection_id: int) -> list[JobRun]:
    """The last run of each job over a collection, by job."""
    return [_run(row) for row in await database.read(tenant_id, _LAST.bind(id=collection_id))]


async def last_runs_of_tenant(database: Database, tenant_id: int) -> dict[str, JobRun]:
    """The last run of each job over any of a tenant's collections."""
    found = [_run(row) for row in await database.read(tenant_id, _LAST_OF_TENANT.bind(id=tenant_id))]
    return {run.job: run for run in found}


def _run(row: tuple[Any, ...]) -> JobRun:
    return JobRun(job=row[0], started_at=row[1], finished_at=row[2], outcome=row[3], details=row[4])
