"""``retrieval jobs``, ``worker``, ``reindex`` and ``reembed``: jobs, listed and run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from retrieval.domain.errors import RetrievalError
from retrieval.domain.wording import several
from retrieval.surfaces.cli import options, output
from retrieval.surfaces.cli.errors import FAILED
from retrieval.surfaces.cli.run import CONTINUES, opened, stop_signal

if TYPE_CHECKING:
    from retrieval.jobs.registry import Job
    from retrieval.jobs.run import RunReport
    from retrieval.platform import Platform
    from retrieval.services.reembed import Reembedding
    from retrieval.services.workplace import JobTarget, Workplace


app = typer.Typer()
jobs = options.group(
    app,
    "jobs",
    "Show when jobs run, or run one now.\n\nA worker runs them by schedule; RETRIEVAL_JOBS_SCHEDULE changes it.",
    "retrieval jobs list",
    "retrieval jobs run embed --collection tickets",
)


@options.command(app, "retrieval worker", "retrieval worker --once")
def worker(
    *,
    once: Annotated[bool, options.flag("Run the due and queued jobs, then end.", "--once")] = False,
) -> None:
    """Run jobs for every tenant: embed, index, measure, prune.

    It runs until ctrl-C or SIGTERM: a running job finishes its step, and
    the rest waits for the next worker. Several workers share the work;
    another worker takes over the jobs of one that was killed. With --once
    the exit code is 1 if a job failed.
    """
    from retrieval.adapters.store.installation.queue import FAILED as RUN_FAILED
    from retrieval.jobs.worker import work as work_on
    from retrieval.jobs.worker import work_once

    outcomes = set()

    def print_run(report: RunReport) -> None:
        outcomes.add(report.outcome)
        if options.wants_json():
            output.print_json_line(report.as_dict())
        else:
            output.show(sentence(report))

    async def work(workplace: Workplace) -> None:
        await (work_once if once else work_on)(workplace, stop_signal(), report=print_run)

    with opened() as (platform, wait):
        workplace = platform.workplace
        if not once and not options.wants_json():
            number = workplace.settings.worker_concurrency
            output.show(f"a worker for every tenant, {several(number, 'job')} at a time; ctrl-C or SIGTERM ends it")
        wait(work(workplace))
    if once and RUN_FAILED in outcomes:
        raise typer.Exit(FAILED)


def sentence(report: RunReport) -> str:
    """``embed tickets (tenant acme): done (embedded 300, pending 0)``."""
    details = output.facts_line(report.details)
    tenant = "" if report.tenant is None else f" (tenant {report.tenant})"
    notes = "".join(f"; {note}" for note in report.details.get("notes", []))
    collection = "" if report.collection is None else f" {report.collection}"
    return f"{report.job}{collection}{tenant}: {report.outcome}{f' ({details})' if details else ''}{notes}"


@options.command(app, "retrieval reindex tickets")
def reindex(*, collection: options.CollectionName) -> None:
    """Rebuild a collection's index, term counts and weights.

    Searches continue meanwhile. Run it again to complete an interrupted run.
    """
    from retrieval.jobs.registry import job_named

    run_one_job(job_named("reindex"), collection)


def run_one_job(job: Job, name: str | None) -> None:
    """Run the job over one collection, or over all of the tenant's.

    It exits with ``FAILED`` if the job failed for one, else with ``PENDING`` if items wait for their vector after it.
    """
    from retrieval.adapters.store.installation.queue import FAILED as RUN_FAILED

    with opened(when_interrupted=CONTINUES) as (platform, wait):
        reports = [wait(run_over(platform, job, target)) for target in wait(targets_named(platform, name))]
    output.print_answer(reports, list(map(sentence, reports)) or output.NO_COLLECTIONS)
    if any(report.outcome == RUN_FAILED for report in reports):
        raise typer.Exit(FAILED)
    output.report_pending(sum(report.details.get("pending", 0) for report in reports))


async def run_over(platform: Platform, job: Job, target: JobTarget) -> RunReport:
    """Run the job over one collection, and show its progress."""
    from retrieval.jobs.run import run_job

    with output.progress(f"{job.name} {target.collection.name}", job.noun) as update:
        workplace = replace(platform.workplace, advance=lambda done: update(output.Step(done, None, done)))
        return await run_job(workplace, job, target)


async def targets_named(platform: Platform, name: str | None) -> list[JobTarget]:
    """The collection of that name; None: all of the tenant's."""
    from retrieval.adapters.store.items.collections import all_collections
    from retrieval.services.workplace import JobTarget

    if name is None:
        collections = await all_collections(platform.database, platform.tenant_id)
    else:
        collections = [await (await platform.collection(name, create=False)).refresh()]
    return [JobTarget(platform.tenant_id, stored) for stored in collections]


@options.command(jobs, "retrieval jobs list --json", name="list")
def list_jobs() -> None:
    """List the jobs with their schedule, their last run and the next.

    Times are in UTC. The last run is over this tenant's collections; runs
    with nothing to do are not recorded.
    """
    from retrieval.jobs.run import planned_jobs

    with opened() as (platform, wait):
        planned = wait(planned_jobs(platform.workplace, platform.tenant_id, now=platform.now))
    rows = output.table(
        ["job", "schedule", "last run", "outcome", "next run", "what it does"],
        ((job.name, job.schedule or "off", job.last_at, job.last_outcome, job.next_at, job.what) for job in planned),
    )
    output.print_answer(planned, rows)


@options.command(jobs, "retrieval jobs run embed", "retrieval jobs run recall --collection tickets", name="run")
def run_now(
    *,
    name: Annotated[str, options.argument("NAME", "The job's name, as listed.")],
    collection: options.OneCollection = None,
) -> None:
    """Run a job now, in this process.

    Running a job again is harmless. If items still wait for their vector
    after the job embed, the exit code is 3.
    """
    from retrieval.jobs.registry import job_named

    run_one_job(job_named(name), collection)


@options.command(
    app,
    "retrieval reembed tickets --to minilm --dry-run",
    "retrieval reembed tickets --to openai --tokens-a-day 5000000 --price 0.13",
    "retrieval reembed tickets",
    "retrieval reembed tickets switch",
)
def reembed(
    *,
    collection: options.CollectionName,
    action: Annotated[
        Literal["status", "run", "pause", "resume", "switch", "rollback", "finish", "abort"],
        options.argument("ACTION", "The action on the re-embedding in progress; run does a worker's part."),
    ] = "status",
    to: Annotated[
        str | None, options.option("SPACE", "Begin: the new space's embedder, named as in RETRIEVAL_EMBEDDER.")
    ] = None,
    dry_run: Annotated[bool, options.flag("Show the cost, and begin nothing.", "--dry-run")] = False,
    yes: Annotated[bool, options.flag("Do not ask whether to begin.", "--yes", "-y")] = False,
    background: Annotated[bool, options.flag("Leave the work to a worker.", "--background")] = False,
    switch: Annotated[bool, options.flag("Switch once the new space is filled and compares well.", "--switch")] = False,
    batch: Annotated[int, options.option("N", "Texts at a time.", min=1, max=128)] = 128,
    tokens_a_minute: Annotated[int | None, options.option("N", "The maximum rate.", min=1)] = None,
    tokens_a_day: Annotated[int | None, options.option("N", "The budget of a day (UTC).", min=1)] = None,
    price: Annotated[float | None, options.option("X", "The price of a million tokens.", min=0)] = None,
    keep_days: Annotated[float, options.option("N", "Keep the former space after the switch.", min=0, max=3650)] = 7.0,
) -> None:
    """Move a collection to another embedding space, while searches and writes continue.

    With --to it shows the cost, asks, and begins: it embeds every text,
    builds the index, and compares both spaces on recorded questions. Then
    it waits for 'switch'. 'rollback' returns at once, as long as the former
    space exists. After an interruption, 'run' or a worker continues.
    """
    pace = {"tokens_a_minute": tokens_a_minute, "tokens_a_day": tokens_a_day}
    if dry_run and to is None:
        raise typer.BadParameter("it shows the cost of a space: give --to", param_hint="--dry-run")
    if to is not None and action != "status":
        raise typer.BadParameter(f"it begins a re-embedding: leave {action!r} or --to out", param_hint="--to")

    again = f"interrupted; retrieval reembed {collection} run, or a worker, continues"
    question = f"Begin to re-embed {collection:.80}?"
    if to is not None:
        from retrieval.adapters.embedders.chosen import embedder_name

        embedder_name(to)  # a wrong name is refused before anybody is asked
        options.check_terminal(question, yes=yes or dry_run)
    cost = state = None
    with opened(when_interrupted=again) as (platform, wait):
        if to is not None:
            cost = wait(platform.reembed_cost(collection, to=to, price=price, **pace))
            if not options.wants_json():
                output.show(output.table(["", ""], output.field_rows(cost.as_dict())))
            if not dry_run:
                options.confirm(question, yes=yes)
                begin = platform.reembed(
                    collection, to=to, switch=switch, batch_texts=batch, keep_days=keep_days, **pace
                )
                state = wait(begin)
                action = "status" if background else "run"
        if not dry_run:
            state = wait(_run_action(platform, collection, action))
    facts = state.as_dict() if state else None
    if options.wants_json():
        output.print_json(facts if cost is None else {"cost": cost.as_dict(), "reembedding": facts})
    elif facts is not None:
        output.show(output.table(["", ""], output.field_rows({**facts, **(facts.pop("comparison") or {})})))


async def _run_action(platform: Platform, collection: str, action: str) -> Reembedding:
    if action != "run":
        return await platform.reembedding(collection, action)
    from retrieval.adapters.store.installation.queue import FAILED as RUN_FAILED
    from retrieval.jobs.registry import job_named
    from retrieval.jobs.run import ELSEWHERE

    await platform.reembedding(collection)
    (target,) = await targets_named(platform, collection)
    report = await run_over(platform, job_named("reembed"), target)
    if report.outcome == RUN_FAILED:
        raise RetrievalError(f"the re-embedding of {collection!r} failed: {report.details.get('error', '')}")
    if report.outcome == ELSEWHERE:
        output.tell(f"note: another process re-embeds {collection} already; this is the state so far")
    return await platform.reembedding(collection)
