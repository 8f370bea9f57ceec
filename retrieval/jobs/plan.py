"""When each job ran last, and when it runs next."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from croniter import croniter

from retrieval.adapters.store.records.job_runs import JobRun, last_runs_of_tenant
from retrieval.domain.schedule import schedule
from retrieval.jobs.registry import JOBS
from retrieval.jobs.workplace import Workplace


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """A job with its place in time."""

    name: str
    what: str
    schedule: str | None
    """The cron expression, in UTC; None: it runs when it is asked for."""
    last: JobRun | None
    """Its last run over any of the tenant's collections."""
    next_at: datetime | None
    """When a worker looks next whether it is needed."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values; times are ISO 8601."""
        return {
            "name": self.name,
            "what": self.what,
            "schedule": self.schedule,
            "last_at": self.last.started_at.isoformat() if self.last else None,
            "last_outcome": self.last.outcome if self.last else None,
            "next_at": self.next_at.isoformat() if self.next_at else None,
        }


async def planned_jobs(workplace: Workplace, tenant_id: int, *, now: datetime) -> list[PlannedJob]:
    """Every job; ``now`` is aware."""
    crons = schedule(workplace.settings.jobs_schedule or {})
    last = await last_runs_of_tenant(workplace.database, tenant_id)
    return [
        PlannedJob(
            name=job.name,
            what=job.what,
            schedule=crons.get(job.name),
            last=last.get(job.name),
            next_at=next_time(crons[job.name], now) if job.name in crons else None,
        )
        for job in JOBS.values()
    ]


def next_time(cron: str, now: datetime) -> datetime:
    """When the expression comes true next, in the zone of ``now``."""
    found: datetime = croniter(cron, now).get_next(datetime)
    return found
