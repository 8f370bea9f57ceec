"""What the queue holds: a job of one collection, and the look at all collections that puts those in."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from procrastinate import App
from procrastinate.exceptions import AlreadyEnqueued
from procrastinate.periodic import PeriodicRegistry

from retrieval.adapters.store.installation.queue import tenants_with_collections
from retrieval.adapters.store.items.collections import all_collections, collection_by_id
from retrieval.adapters.store.records.job_runs import INTERRUPTED
from retrieval.domain.schedule import schedule
from retrieval.jobs.registry import Job, job_named, lock_of
from retrieval.jobs.run import RunReport, run_job
from retrieval.jobs.workplace import Target, Workplace

_log = logging.getLogger(__name__)

RUN, DISPATCH = "retrieval.run", "retrieval.dispatch"

Report = Callable[[RunReport], None]
"""Called with what became of each run."""


async def enqueue(app: App, job: Job, target: Target) -> bool:
    """Put the job of a collection into the queue; False: it waits there already."""
    waiting = app.configure_task(
        RUN, lock=lock_of(job.name, target), queueing_lock=f"{job.name}:{target.collection.collection_id}"
    )
    try:
        await waiting.defer_async(
            job=job.name, tenant_id=target.tenant_id, collection_id=target.collection.collection_id
        )
    except AlreadyEnqueued:
        return False
    return True


async def enqueue_needed(app: App, workplace: Workplace, job: Job) -> int:
    """Put the job of every collection of every tenant that needs it into the queue; gives how many."""
    enqueued = 0
    for tenant_id in await tenants_with_collections(workplace.database):
        for collection in await all_collections(workplace.database, tenant_id):
            target = Target(tenant_id, collection)
            if await job.is_needed(workplace, target):
                enqueued += await enqueue(app, job, target)
    return enqueued


async def forget_failed(app: App, days: int) -> None:
    """Remove from the queue what failed so long ago; what succeeds leaves it at once."""
    await app.job_manager.delete_old_jobs(days * 24, include_failed=True, include_cancelled=True, include_aborted=True)


def add_tasks(app: App, workplace: Workplace, report: Report) -> None:
    """Teach the queue what its jobs mean."""

    @app.task(name=RUN)
    async def run(job: str, tenant_id: int, collection_id: int) -> None:
        collection = await collection_by_id(workplace.database, tenant_id, collection_id)
        if collection is None:
            return  # it was removed since
        target = Target(tenant_id, collection)
        done = await run_job(workplace, job_named(job), target)
        report(done)
        if done.outcome == INTERRUPTED:
            await enqueue(app, job_named(job), target)

    @app.task(name=DISPATCH, pass_context=False)
    async def dispatch(timestamp: int, job: str) -> None:
        if job == "prune":
            await forget_failed(app, workplace.settings.retention_runs_days)
        enqueued = await enqueue_needed(app, workplace, job_named(job))
        _log.info("job %s, due at %d, is needed by %d collections", job, timestamp, enqueued)


def add_schedule(registry: PeriodicRegistry, app: App, changes: Mapping[str, str]) -> None:
    """Say when the jobs are due; ``changes`` are those to their own schedules."""
    for name, cron in schedule(changes).items():
        registry.register_task(
            task=app.tasks[DISPATCH],
            cron=cron,
            periodic_id=name,
            configure_kwargs={
                "queueing_lock": f"dispatch:{name}",
                "lock": f"dispatch:{name}",
                "task_kwargs": {"job": name},
            },
        )
