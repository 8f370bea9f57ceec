"""``retrieval jobs``: what runs in the background, listed and run by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from retrieval.adapters.store.items.collections import all_collections
from retrieval.jobs.registry import Job
from retrieval.jobs.run import FAILED as RUN_FAILED
from retrieval.jobs.run import RunReport, run_job
from retrieval.platform import Platform
from retrieval.services.workplace import JobTarget
from retrieval.surfaces.cli.commands.worker import show
from retrieval.surfaces.cli.completion import complete_job
from retrieval.surfaces.cli.errors import FAILED
from retrieval.surfaces.cli.options import Json, OneCollection, State, examples, state_of
from retrieval.surfaces.cli.output import NO_COLLECTIONS, console, print_json, table
from retrieval.surfaces.cli.progress import Step, progress
from retrieval.surfaces.cli.run import answer, run

if TYPE_CHECKING:
    from datetime import datetime

    from rich.table import Table

    from retrieval.jobs.run import PlannedJob


INTERRUPTED = "interrupted; run the same command again to continue"


def run_one_job(state: State, job: Job, name: str | None, *, as_json: bool) -> None:
    """Run the job over one collection, or over all of the tenant's; exits with 1 if it failed for one."""

    async def work(platform: Platform) -> list[RunReport]:
        return [await _run(platform, job, target) for target in await _targets(platform, name)]

    reports = run(state, work, when_interrupted=INTERRUPTED)
    if as_json:
        print_json([report.as_dict() for report in reports])
    else:
        for report in reports:
            show(report)
        if not reports:
            console().print(NO_COLLECTIONS, soft_wrap=True)
    if any(report.outcome == RUN_FAILED for report in reports):
        raise typer.Exit(FAILED)


async def _run(platform: Platform, job: Job, target: JobTarget) -> RunReport:
    with progress(f"{job.name} {target.collection.name}", job.noun) as update:
        return await run_job(platform.workplace, job, target, lambda done: update(Step(done, None, done)))


async def _targets(platform: Platform, name: str | None) -> list[JobTarget]:
    if name is not None:
        collection = await platform.collection(name, create=False)
        return [JobTarget(platform.tenant_id, await collection.refresh())]
    return [JobTarget(platform.tenant_id, one) for one in await all_collections(platform.database, platform.tenant_id)]


app = typer.Typer(
    rich_markup_mode="rich", epilog=examples("retrieval jobs list", "retrieval jobs run embed --collection tickets")
)


@app.callback(invoke_without_command=True)
def jobs(context: typer.Context) -> None:
    """See when jobs run, or run one now.

    A worker runs them by schedule; RETRIEVAL_JOBS_SCHEDULE changes it.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list", epilog=examples("retrieval jobs list --json"))
def list_jobs(context: typer.Context, *, as_json: Json = False) -> None:
    """List the jobs with their schedule, their last run and the next.

    Times are in UTC. The last run is over this tenant's collections; a job
    that finds nothing to do leaves none.
    """
    answer(context, _planned, jobs_table, as_json=as_json)


@app.command("run", epilog=examples("retrieval jobs run embed", "retrieval jobs run recall --collection tickets"))
def run_now(
    context: typer.Context,
    *,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="The job's name, as listed.",
            show_default=False,
            autocompletion=complete_job,
        ),
    ],
    collection: OneCollection = None,
    as_json: Json = False,
) -> None:
    """Run a job now, in this process.

    Run twice it does no harm. Where another process is doing the same to a
    collection, this one leaves it alone and says so.
    """
    from retrieval.jobs.registry import job_named

    run_one_job(state_of(context), job_named(name), collection, as_json=as_json)


def jobs_table(found: list[PlannedJob]) -> Table:
    """A row a job."""
    return table(
        ["job", "schedule", "last run", "outcome", "next run", "what it does"],
        (
            (
                one.name,
                one.schedule or "off",
                _minute(one.last.started_at) if one.last else None,
                one.last.outcome if one.last else None,
                _minute(one.next_at) if one.next_at else None,
                one.what,
            )
            for one in found
        ),
    )


def _minute(time: datetime) -> str:
    from datetime import UTC

    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M}"


async def _planned(platform: Platform) -> list[PlannedJob]:
    from datetime import UTC, datetime

    from retrieval.jobs.run import planned_jobs

    return await planned_jobs(platform.workplace, platform.tenant_id, now=datetime.now(UTC))
