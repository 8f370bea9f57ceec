"""``retrieval jobs``: what runs in the background, listed and run by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from retrieval.surfaces.cli.completion import complete_collection, complete_job
from retrieval.surfaces.cli.options import Json, examples
from retrieval.surfaces.cli.state import state_of

if TYPE_CHECKING:
    from datetime import datetime

    from rich.table import Table

    from retrieval.jobs.plan import PlannedJob
    from retrieval.platform import Platform

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
    from retrieval.surfaces.cli.output import console, print_json
    from retrieval.surfaces.cli.run import run

    found = run(state_of(context), _planned)
    if as_json:
        print_json([one.as_dict() for one in found])
    else:
        console().print(jobs_table(found))


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
    collection: Annotated[
        str | None,
        typer.Option(
            "--collection",
            "-c",
            metavar="NAME",
            help="This collection; else all of the tenant.",
            autocompletion=complete_collection,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a job now, in this process.

    Run twice it does no harm. Where another process is doing the same to a
    collection, this one leaves it alone and says so.
    """
    from retrieval.jobs.registry import job_named
    from retrieval.surfaces.cli.running import run_one_job

    run_one_job(state_of(context), job_named(name), collection, as_json=as_json)


def jobs_table(found: list[PlannedJob]) -> Table:
    """A row a job."""
    from retrieval.surfaces.cli.output import table

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

    from retrieval.jobs.plan import planned_jobs

    return await planned_jobs(platform.workplace, platform.tenant_id, now=datetime.now(UTC))
