"""``retrieval jobs``, ``worker`` and ``reindex``: jobs, listed and run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from retrieval.domain.wording import several
from retrieval.surfaces.cli.errors import FAILED
from retrieval.surfaces.cli.options import CollectionName, Json, OneCollection, argument, examples, flag, group, option
from retrieval.surfaces.cli.output import (
    NO_COLLECTIONS,
    Step,
    facts_line,
    print_answer,
    print_json_line,
    progress,
    report_pending,
    show,
    table_of,
)
from retrieval.surfaces.cli.run import CONTINUES, opened, stop_signal

if TYPE_CHECKING:
    from retrieval.jobs.registry import Job
    from retrieval.jobs.run import RunReport
    from retrieval.platform import Platform
    from retrieval.services.workplace import JobTarget, Workplace


app = typer.Typer()
jobs = group(
    app,
    "jobs",
    "Show when jobs run, or run one now.\n\nA worker runs them by schedule; RETRIEVAL_JOBS_SCHEDULE changes it.",
    "retrieval jobs list",
    "retrieval jobs run embed --collection tickets",
)


@app.command(epilog=examples("retrieval worker", "retrieval worker --once"))
def worker(
    *,
    once: Annotated[bool, flag("Run the due and queued jobs, then end.", "--once")] = False,
    concurrency: Annotated[
        int | None, option("N", "Jobs at a time; else RETRIEVAL_WORKER_CONCURRENCY.", min=1, max=100)
    ] = None,
    as_json: Annotated[bool, flag("Print only JSON on standard output, one object per line.", "--json")] = False,
) -> None:
    """Run jobs for every tenant: embed, index, measure, prune.

    It runs until ctrl-C or SIGTERM: a running job finishes its step, and
    the rest waits for the next worker. Several workers share the work;
    another worker takes over the jobs of one that was killed.
    """
    from retrieval.jobs.worker import work as work_on
    from retrieval.jobs.worker import work_once

    def print_run(report: RunReport) -> None:
        if as_json:
            print_json_line(report.as_dict())
        else:
            show(sentence(report))

    async def work(workplace: Workplace) -> None:
        await (work_once if once else work_on)(workplace, stop_signal(), report=print_run)

    with opened() as (platform, wait):
        workplace = platform.workplace
        if concurrency is not None:
            workplace = replace(workplace, settings=workplace.settings.changed(worker_concurrency=concurrency))
        if not once and not as_json:
            number = workplace.settings.worker_concurrency
            show(f"a worker for every tenant, {several(number, 'job')} at a time; ctrl-C or SIGTERM ends it")
        wait(work(workplace))


def sentence(report: RunReport) -> str:
    """``embed tickets (tenant acme): done (embedded 300, pending 0)``."""
    details = facts_line(report.details)
    tenant = "" if report.tenant is None else f" (tenant {report.tenant})"
    notes = "".join(f"; {note}" for note in report.details.get("notes", []))
    return f"{report.job} {report.collection}{tenant}: {report.outcome}{f' ({details})' if details else ''}{notes}"


@app.command(epilog=examples("retrieval reindex tickets"))
def reindex(*, collection: CollectionName, as_json: Json = False) -> None:
    """Rebuild a collection's index, term counts and weights.

    Searches continue meanwhile, with the former index. Run it again to
    complete an interrupted run. A worker does it regularly if
    RETRIEVAL_JOBS_SCHEDULE schedules it.
    """
    from retrieval.jobs.registry import job_named

    run_one_job(job_named("reindex"), collection, as_json=as_json)


def run_one_job(job: Job, name: str | None, *, as_json: bool) -> None:
    """Run the job over one collection, or over all of the tenant's.

    It exits with ``FAILED`` if the job failed for one, else with ``PENDING`` if items wait for their vector after it.
    """
    from retrieval.adapters.store.installation.queue import FAILED as RUN_FAILED

    with opened(when_interrupted=CONTINUES) as (platform, wait):
        reports = [wait(run_over(platform, job, target)) for target in wait(targets_named(platform, name))]
    print_answer(reports, list(map(sentence, reports)) or NO_COLLECTIONS, as_json=as_json)
    if any(report.outcome == RUN_FAILED for report in reports):
        raise typer.Exit(FAILED)
    report_pending(sum(report.details.get("pending", 0) for report in reports))


async def run_over(platform: Platform, job: Job, target: JobTarget) -> RunReport:
    """Run the job over one collection, and show its progress."""
    from retrieval.jobs.run import run_job

    with progress(f"{job.name} {target.collection.name}", job.noun) as update:
        return await run_job(platform.workplace, job, target, lambda done: update(Step(done, None, done)))


async def targets_named(platform: Platform, name: str | None) -> list[JobTarget]:
    """The collection of that name; None: all of the tenant's."""
    from retrieval.adapters.store.items.collections import all_collections
    from retrieval.services.workplace import JobTarget

    if name is None:
        collections = await all_collections(platform.database, platform.tenant_id)
    else:
        collections = [await (await platform.collection(name, create=False)).refresh()]
    return [JobTarget(platform.tenant_id, stored) for stored in collections]


@jobs.command("list", epilog=examples("retrieval jobs list --json"))
def list_jobs(*, as_json: Json = False) -> None:
    """List the jobs with their schedule, their last run and the next.

    Times are in UTC. The last run is over this tenant's collections; runs
    with nothing to do are not recorded.
    """
    from retrieval.jobs.run import planned_jobs

    with opened() as (platform, wait):
        planned = wait(planned_jobs(platform.workplace, platform.tenant_id, now=platform.now))
    rows = table_of(
        planned,
        {
            "job": lambda job: job.name,
            "schedule": lambda job: job.schedule or "off",
            "last run": lambda job: job.last.started_at if job.last else None,
            "outcome": lambda job: job.last.outcome if job.last else None,
            "next run": lambda job: job.next_at,
            "what it does": lambda job: job.what,
        },
    )
    print_answer(planned, rows, as_json=as_json)


@jobs.command("run", epilog=examples("retrieval jobs run embed", "retrieval jobs run recall --collection tickets"))
def run_now(
    *,
    name: Annotated[str, argument("NAME", "The job's name, as listed.")],
    collection: OneCollection = None,
    as_json: Json = False,
) -> None:
    """Run a job now, in this process.

    Running a job again is harmless. A collection that another process runs
    the same job on is skipped, and the output says so. If items still wait
    for their vector after the job embed, the exit code is 3.
    """
    from retrieval.jobs.registry import job_named

    run_one_job(job_named(name), collection, as_json=as_json)
