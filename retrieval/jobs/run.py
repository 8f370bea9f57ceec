"""Runs a job over a collection, alone and recorded; lists the jobs with their last runs; and learns at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from croniter import croniter

from retrieval.adapters.embedders.cached import patiently
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.installation import queue
from retrieval.adapters.store.items.collections import StoredCollection, collection_by_id
from retrieval.adapters.tracing import span
from retrieval.domain.errors import RetrievalError
from retrieval.domain.serialization import Serializable
from retrieval.jobs.registry import JOBS, Job, job_named
from retrieval.services.workplace import JobTarget, StoppedError, Workplace
from retrieval.settings import schedule

_log = logging.getLogger(__name__)

ELSEWHERE = "running elsewhere"

NOTED_SECONDS = 2.0
"""The time between two updates of a run's progress in its record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport(Serializable):
    """The outcome of a run."""

    job: str
    collection: str | None = None
    """None: a worker could not look which collections need the job, or could not begin the run."""
    outcome: str
    """``done``, ``failed``, ``interrupted`` or ``running elsewhere``."""
    details: Mapping[str, Any] = field(default_factory=dict)
    tenant: str | None = None
    """The tenant's name; None: it is the caller's own."""


async def run_job(workplace: Workplace, job: Job, target: JobTarget) -> RunReport:
    """Run the job, unless another process runs it now. The platform's errors are recorded."""
    collection = target.collection
    async with workplace.database.only_one(f"job {job.name} {collection.collection_id}") as alone:
        if not alone:
            return RunReport(job=job.name, collection=collection.name, outcome=ELSEWHERE)
        with patiently(), span("retrieval.job") as traced:
            outcome, details = await _run_recorded(workplace, job, target)
            if traced is not None:
                traced.set_attributes({"retrieval.job": job.name, "retrieval.outcome": outcome})
                traced.set_attributes(
                    {"retrieval.tenant_id": target.tenant_id, "retrieval.collection": collection.name}
                )
    return RunReport(job=job.name, collection=collection.name, outcome=outcome, details=details)


async def _run_recorded(workplace: Workplace, job: Job, target: JobTarget) -> tuple[str, Mapping[str, Any]]:
    place = workplace.place(target)
    run_id = await _begun(place, job.name)
    try:
        async with _noting_progress(workplace, place, run_id) as noting:
            outcome, details = queue.DONE, await job.run(noting, target)
    except StoppedError:
        outcome, details = queue.INTERRUPTED, {}
    except asyncio.CancelledError:
        with contextlib.suppress(RetrievalError):
            await queue.end_run(place, run_id, outcome=queue.INTERRUPTED, details={})
        raise
    except RetrievalError as error:
        # Policies hide a removed collection: the error is about rights.
        reason = "the collection was removed" if await collection_by_id(place) is None else str(error)
        _log.warning("job %s of %s failed: %s", job.name, target.collection.name, reason)
        outcome, details = queue.FAILED, {"error": reason}
    except Exception as error:
        await queue.end_run(place, run_id, outcome=queue.FAILED, details={"error": f"{type(error).__name__}: {error}"})
        raise
    await queue.end_run(place, run_id, outcome=outcome, details=details)
    return outcome, details


async def _begun(place: CollectionPlace, job: str) -> int:
    """The number of the run that was begun; if the caller is cancelled meanwhile, the run is interrupted."""
    beginning = asyncio.create_task(queue.begin_run(place, job))
    try:
        return await asyncio.shield(beginning)
    except asyncio.CancelledError:
        with contextlib.suppress(RetrievalError):
            await queue.end_run(place, await beginning, outcome=queue.INTERRUPTED, details={})
        raise


@contextlib.asynccontextmanager
async def repeated(step: Callable[[], Awaitable[None]], *, seconds: float) -> AsyncIterator[None]:
    """Repeat the step, with that pause before each, while the block runs."""
    is_over = False

    async def repeat() -> None:
        # A connection that breaks at the moment of a cancellation raises its own error, and the cancellation is lost.
        while not is_over:
            await asyncio.sleep(seconds)
            await step()

    repeating = asyncio.create_task(repeat())
    try:
        yield
    finally:
        is_over = True
        repeating.cancel()
        await asyncio.wait([repeating])


@contextlib.asynccontextmanager
async def _noting_progress(workplace: Workplace, at: CollectionPlace, run_id: int) -> AsyncIterator[Workplace]:
    """A workplace that writes the run's progress to its record every few seconds while the block runs."""
    done = noted = 0

    def advance(so_far: int) -> None:
        nonlocal done
        done = so_far
        workplace.advance(so_far)

    async def note() -> None:
        nonlocal noted
        if done != noted:
            noted = done
            with contextlib.suppress(RetrievalError):
                await queue.note_progress(at, run_id, done)

    async with repeated(note, seconds=NOTED_SECONDS):
        yield replace(workplace, advance=advance)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob(Serializable):
    """A job with its place in time."""

    name: str
    what: str
    schedule: str | None
    """The cron expression, in UTC; None: it runs only on demand."""
    last_at: datetime | None
    """The begin of its last run over any of the tenant's collections."""
    last_outcome: str | None
    next_at: datetime | None
    """The time when a worker next checks whether it is needed."""


async def planned_jobs(workplace: Workplace, tenant_id: int, *, now: datetime) -> list[PlannedJob]:
    """Every job; ``now`` is aware."""
    crons = schedule(workplace.settings.jobs_schedule or {})
    last = await queue.last_runs_of_tenant(workplace.database, tenant_id)
    return [
        PlannedJob(
            name=job.name,
            what=job.what,
            schedule=crons.get(job.name),
            last_at=last[job.name].started_at if job.name in last else None,
            last_outcome=last[job.name].outcome if job.name in last else None,
            next_at=next_time(crons[job.name], now) if job.name in crons else None,
        )
        for job in JOBS.values()
    ]


def next_time(cron: str, now: datetime) -> datetime:
    """The next time that matches the cron expression, in the zone of ``now``."""
    next_at: datetime = croniter(cron, now).get_next(datetime)
    return next_at


async def learn_now(
    workplace: Workplace, tenant_id: int, refresh: Callable[[], Awaitable[StoredCollection]]
) -> dict[str, Any]:
    """Find the clusters, then fit and try a model; returns the outcome of ``learn`` and the number of ``clusters``.

    ``refresh`` reads the collection before each of both recorded runs. ``clusters`` is 0 while another process finds
    them. Raises ``RetrievalError`` if a run failed.
    """
    reports = []
    for name in ("clusters", "learn"):
        report = await run_job(workplace, job_named(name), JobTarget(tenant_id, await refresh()))
        if report.outcome == queue.FAILED:
            raise RetrievalError(f"job {name} of {report.collection} failed: {report.details.get('error', '')}")
        reports.append(report)
    clustering, learned = reports
    details: Mapping[str, Any] = learned.details
    if learned.outcome != queue.DONE:
        details = {"verdicts": 0, "published": False, "reason": f"not learned: {learned.outcome}"}
    return {**details, "clusters": clustering.details.get("clusters", 0)}
