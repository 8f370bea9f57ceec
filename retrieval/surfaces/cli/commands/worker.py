"""``retrieval worker`` and ``reindex``: what runs in the background, and indexes made anew at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from retrieval.surfaces.cli.options import CollectionName, Json, JsonLines, state_of

if TYPE_CHECKING:
    from retrieval.jobs.run import RunReport
    from retrieval.platform import Platform


EXAMPLES = ("retrieval worker", "retrieval worker --once")


def worker(
    context: typer.Context,
    *,
    once: Annotated[bool, typer.Option("--once", help="Do what is due and queued, then end.")] = False,
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency", min=1, max=100, metavar="N", help="Jobs at a time; else RETRIEVAL_WORKER_CONCURRENCY."
        ),
    ] = None,
    as_json: JsonLines = False,
) -> None:
    """Run jobs for every tenant: embed, index, measure, prune.

    It runs until it is told to end, by ctrl-C or SIGTERM: what runs then
    finishes its step, and the rest waits for the next worker. Several
    workers share the work; the jobs of one that was killed are taken up
    by another.
    """
    from retrieval.surfaces.cli.run import run

    state = state_of(context)

    async def work(platform: Platform) -> None:
        from dataclasses import replace

        workplace = platform.workplace
        if concurrency is not None:
            workplace = replace(workplace, settings=workplace.settings.changed(worker_concurrency=concurrency))
        from retrieval.jobs.worker import work as work_on
        from retrieval.jobs.worker import work_once
        from retrieval.surfaces.cli.run import stop_signal

        await (work_once if once else work_on)(workplace, stop_signal(), report=show_line if as_json else show)

    run(state, work)


def show(report: RunReport) -> None:
    """Say what became of a run, as it ends."""
    from retrieval.surfaces.cli.output import console, plain

    console().print(plain(sentence(report)), soft_wrap=True)


def show_line(report: RunReport) -> None:
    """Say the same as a JSON object on a line."""
    from retrieval.surfaces.cli.output import print_json_line

    print_json_line(report.as_dict())


def sentence(report: RunReport) -> str:
    """``embed tickets: done (embedded 300, pending 0)``."""
    details = ", ".join(f"{name} {value}" for name, value in report.details.items() if not isinstance(value, list))
    notes = "".join(f"; {note}" for note in report.details.get("notes", []))
    return f"{report.job} {report.collection}: {report.outcome}{f' ({details})' if details else ''}{notes}"


REINDEX_EXAMPLES = ("retrieval reindex tickets",)


def reindex(context: typer.Context, *, collection: CollectionName, as_json: Json = False) -> None:
    """Make a collection's index, term counts and weights anew.

    Searches go on meanwhile, with what there was. A run that was
    interrupted is completed by running it again. A worker does it regularly
    where RETRIEVAL_JOBS_SCHEDULE says when.
    """
    from retrieval.jobs.registry import job_named
    from retrieval.surfaces.cli.commands.jobs import run_one_job

    run_one_job(state_of(context), job_named("reindex"), collection, as_json=as_json)
