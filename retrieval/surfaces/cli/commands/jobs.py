"""``retrieval jobs``, ``worker``, ``reindex`` and ``reembed``: jobs, listed and run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from retrieval.domain.errors import RetrievalError
from retrieval.domain.wording import several
from retrieval.surfaces.cli.errors import FAILED
from retrieval.surfaces.cli.options import (
    CollectionName,
    Json,
    JsonLines,
    OneCollection,
    State,
    check_terminal,
    complete_job,
    confirm,
    examples,
    state_of,
)
from retrieval.surfaces.cli.output import (
    NO_COLLECTIONS,
    Step,
    facts_line,
    plain_name,
    print_answer,
    print_json,
    print_json_line,
    progress,
    report_pending,
    show,
    table,
    tell,
)
from retrieval.surfaces.cli.run import CONTINUES, answer, run, stop_signal

if TYPE_CHECKING:
    from rich.table import Table

    from retrieval.jobs.registry import Job
    from retrieval.jobs.run import PlannedJob, RunReport
    from retrieval.platform import Platform
    from retrieval.services.reembed import Reembedding, ReembeddingCost
    from retrieval.services.workplace import JobTarget


WORKER_EXAMPLES = ("retrieval worker", "retrieval worker --once")


def worker(
    context: typer.Context,
    *,
    once: Annotated[bool, typer.Option("--once", help="Run the due and queued jobs, then end.")] = False,
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=100, metavar="N", help="Jobs at a time; else RETRIEVAL_WORKER_CONCURRENCY.")
    ] = None,
    as_json: JsonLines = False,
) -> None:
    """Run jobs for every tenant: embed, index, measure, prune.

    It runs until ctrl-C or SIGTERM: a running job finishes its step, and
    the rest waits for the next worker. Several workers share the work;
    another worker takes over the jobs of one that was killed.
    """

    async def work(platform: Platform) -> None:
        from dataclasses import replace

        workplace = platform.workplace
        if concurrency is not None:
            workplace = replace(workplace, settings=workplace.settings.changed(worker_concurrency=concurrency))
        from retrieval.jobs.worker import work as work_on
        from retrieval.jobs.worker import work_once

        if not once and not as_json:
            number = workplace.settings.worker_concurrency
            show(f"a worker for every tenant, {several(number, 'job')} at a time; ctrl-C or SIGTERM ends it")
        await (work_once if once else work_on)(workplace, stop_signal(), report=print_run)

    def print_run(report: RunReport) -> None:
        if as_json:
            print_json_line(report.as_dict())
        else:
            show(sentence(report))

    run(state_of(context), work)


def sentence(report: RunReport) -> str:
    """``embed tickets (tenant acme): done (embedded 300, pending 0)``."""
    details = facts_line(report.details)
    tenant = "" if report.tenant is None else f" (tenant {report.tenant})"
    notes = "".join(f"; {note}" for note in report.details.get("notes", []))
    return f"{report.job} {report.collection}{tenant}: {report.outcome}{f' ({details})' if details else ''}{notes}"


REINDEX_EXAMPLES = ("retrieval reindex tickets",)


def reindex(context: typer.Context, *, collection: CollectionName, as_json: Json = False) -> None:
    """Rebuild a collection's index, term counts and weights.

    Searches continue meanwhile, with the former index. Run it again to
    complete an interrupted run. A worker does it regularly if
    RETRIEVAL_JOBS_SCHEDULE schedules it.
    """
    from retrieval.jobs.registry import job_named

    run_one_job(state_of(context), job_named("reindex"), collection, as_json=as_json)


def run_one_job(state: State, job: Job, name: str | None, *, as_json: bool) -> None:
    """Run the job over one collection, or over all of the tenant's.

    It exits with ``FAILED`` if the job failed for one, else with ``PENDING`` if items wait for their vector after it.
    """
    from retrieval.adapters.store.installation.queue import FAILED as RUN_FAILED

    async def work(platform: Platform) -> list[RunReport]:
        return [await _run(platform, job, target) for target in await _targets(platform, name)]

    reports = run(state, work, when_interrupted=CONTINUES)
    print_answer(
        [report.as_dict() for report in reports], list(map(sentence, reports)) or NO_COLLECTIONS, as_json=as_json
    )
    if any(report.outcome == RUN_FAILED for report in reports):
        raise typer.Exit(FAILED)
    report_pending(sum(report.details.get("pending", 0) for report in reports))


async def _run(platform: Platform, job: Job, target: JobTarget) -> RunReport:
    from retrieval.jobs.run import run_job

    with progress(f"{job.name} {target.collection.name}", job.noun) as update:
        return await run_job(platform.workplace, job, target, lambda done: update(Step(done, None, done)))


async def _targets(platform: Platform, name: str | None) -> list[JobTarget]:
    from retrieval.adapters.store.items.collections import all_collections
    from retrieval.services.workplace import JobTarget

    if name is not None:
        collection = await platform.collection(name, create=False)
        return [JobTarget(platform.tenant_id, await collection.refresh())]
    return [
        JobTarget(platform.tenant_id, stored) for stored in await all_collections(platform.database, platform.tenant_id)
    ]


app = typer.Typer(
    rich_markup_mode="rich", epilog=examples("retrieval jobs list", "retrieval jobs run embed --collection tickets")
)


@app.callback(invoke_without_command=True)
def jobs(context: typer.Context) -> None:
    """Show when jobs run, or run one now.

    A worker runs them by schedule; RETRIEVAL_JOBS_SCHEDULE changes it.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list", epilog=examples("retrieval jobs list --json"))
def list_jobs(context: typer.Context, *, as_json: Json = False) -> None:
    """List the jobs with their schedule, their last run and the next.

    Times are in UTC. The last run is over this tenant's collections; runs
    with nothing to do are not recorded.
    """
    answer(context, _planned_jobs, jobs_table, as_json=as_json)


@app.command("run", epilog=examples("retrieval jobs run embed", "retrieval jobs run recall --collection tickets"))
def run_now(
    context: typer.Context,
    *,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The job's name, as listed.", autocompletion=complete_job)
    ],
    collection: OneCollection = None,
    as_json: Json = False,
) -> None:
    """Run a job now, in this process.

    Running a job again is harmless. A collection that another process runs
    the same job on is skipped, and the output says so. If items still wait
    for their vector after the job embed, the exit code is 3.
    """
    from retrieval.jobs.registry import job_named

    run_one_job(state_of(context), job_named(name), collection, as_json=as_json)


def jobs_table(planned: list[PlannedJob]) -> Table:
    """A row per job."""
    return table(
        ["job", "schedule", "last run", "outcome", "next run", "what it does"],
        (
            (
                job.name,
                job.schedule or "off",
                job.last_at,
                job.last_outcome,
                job.next_at,
                job.what,
            )
            for job in planned
        ),
    )


async def _planned_jobs(platform: Platform) -> list[PlannedJob]:
    from datetime import UTC, datetime

    from retrieval.jobs.run import planned_jobs

    return await planned_jobs(platform.workplace, platform.tenant_id, now=datetime.now(UTC))


REEMBED_EXAMPLES = (
    "retrieval reembed tickets --to minilm --dry-run",
    "retrieval reembed tickets --to openai --tokens-a-day 5000000 --price 0.13",
    "retrieval reembed tickets",
    "retrieval reembed tickets switch",
)


def reembed(
    context: typer.Context,
    *,
    collection: CollectionName,
    action: Annotated[
        Literal["status", "run", "pause", "resume", "switch", "rollback", "finish", "abort"],
        typer.Argument(metavar="ACTION", help="The action on the re-embedding in progress; run does a worker's part."),
    ] = "status",
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="SPACE", help="Begin: the new space's embedder, named as in RETRIEVAL_EMBEDDER."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the cost, and begin nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask whether to begin.")] = False,
    background: Annotated[bool, typer.Option("--background", help="Leave the work to a worker.")] = False,
    switch: Annotated[
        bool, typer.Option("--switch", help="Switch once the new space is filled and compares well.")
    ] = False,
    batch: Annotated[int, typer.Option("--batch", min=1, max=128, metavar="N", help="Texts at a time.")] = 128,
    tokens_a_minute: Annotated[
        int | None, typer.Option("--tokens-a-minute", min=1, metavar="N", help="The maximum rate.")
    ] = None,
    tokens_a_day: Annotated[
        int | None, typer.Option("--tokens-a-day", min=1, metavar="N", help="The budget of a day (UTC).")
    ] = None,
    price: Annotated[
        float | None, typer.Option("--price", min=0, metavar="X", help="The price of a million tokens.")
    ] = None,
    keep_days: Annotated[
        float,
        typer.Option("--keep-days", min=0, max=3650, metavar="N", help="Keep the former space after the switch."),
    ] = 7.0,
    as_json: Json = False,
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

    async def work(platform: Platform) -> tuple[ReembeddingCost | None, Reembedding | None]:
        if to is None:
            return None, await _run_action(platform, collection, action)
        question = f"Begin to re-embed {collection:.80}?"
        check_terminal(question, yes=yes or dry_run, as_json=as_json)
        cost = await platform.reembed_cost(collection, to=to, price=price, **pace)
        if not as_json:
            show(_cost_table(cost))
        if dry_run:
            return cost, None
        confirm(question, yes=yes, as_json=as_json)
        begun = await platform.reembed(collection, to=to, switch=switch, batch_texts=batch, keep_days=keep_days, **pace)
        return cost, begun if background else await _run_action(platform, collection, "run")

    again = f"interrupted; retrieval reembed {collection} run, or a worker, continues"
    cost, reembedding = run(state_of(context), work, when_interrupted=again)
    if as_json:
        state = None if reembedding is None else reembedding.as_dict()
        print_json(state if cost is None else {"cost": cost.as_dict(), "reembedding": state})
    elif reembedding is not None:
        show(_reembedding_table(reembedding))


async def _run_action(platform: Platform, collection: str, action: str) -> Reembedding:
    if action != "run":
        return await platform.reembedding(collection, action)
    from retrieval.adapters.store.installation.queue import FAILED as RUN_FAILED
    from retrieval.jobs.registry import job_named
    from retrieval.jobs.run import ELSEWHERE

    await platform.reembedding(collection)
    (target,) = await _targets(platform, collection)
    report = await _run(platform, job_named("reembed"), target)
    if report.outcome == RUN_FAILED:
        raise RetrievalError(f"the re-embedding of {collection!r} failed: {report.details.get('error', '')}")
    if report.outcome == ELSEWHERE:
        tell(f"note: another process re-embeds {collection} already; this is the state so far")
    return await platform.reembedding(collection)


def _cost_table(cost: ReembeddingCost) -> Table:
    from retrieval.services.reembed import told_without_text

    return _facts(
        {
            "to": cost.target,
            "items without a vector there": f"{cost.items:,}",
            "texts to embed": f"{cost.texts:,}",
            "tokens, by estimate": f"{cost.tokens:,}",
            "price": None if cost.price is None else f"{cost.price:,.4f}",
            "room for vectors and index": f"{cost.vector_bytes / 1e6:,.1f} MB",
            "minutes at the rate": None if cost.minutes is None else f"{cost.minutes:,.1f}",
            "days by the budget": None if cost.days is None else f"{cost.days:,}",
            "not embedded": told_without_text(cost.without_text) or None,
            "note": cost.note or None,
        }
    )


def _reembedding_table(state: Reembedding) -> Table:
    from retrieval.services.reembed import told_without_text

    comparison = state.comparison or {}
    return _facts(
        {
            "collection": state.collection,
            "from": state.former,
            "to": state.target,
            "state": f"{state.state.value}{', paused' if state.is_paused else ''}",
            "switches": state.switching.value if state.switched_at is None else None,
            "items": f"{state.items:,}{f', of which {state.pending:,} wait' if state.pending else ''}",
            "not embedded": told_without_text(state.without_text) or None,
            "asked for": f"{several(state.paid_texts, 'text')}, {several(state.paid_tokens, 'token')}",
            "budget of today": None
            if state.tokens_a_day is None
            else f"{state.spent_today:,} of {state.tokens_a_day:,} tokens spent, former re-embeddings included",
            **{plain_name(name): value for name, value in comparison.items()},
            "note": state.note or None,
            "switched at": None if state.switched_at is None else f"{state.switched_at:%Y-%m-%d %H:%M} UTC",
            "former space removed at": None if state.removes_at is None else f"{state.removes_at:%Y-%m-%d %H:%M} UTC",
        }
    )


def _facts(rows: dict[str, Any]) -> Table:
    return table(["", ""], ((name, value) for name, value in rows.items() if value is not None))
