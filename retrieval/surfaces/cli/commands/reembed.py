"""``retrieval reembed``: moves a collection to another embedding space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from retrieval.domain.errors import RetrievalError
from retrieval.surfaces.cli.commands.jobs import run_over, targets_named
from retrieval.surfaces.cli.options import (
    CollectionName,
    Json,
    argument,
    check_terminal,
    confirm,
    examples,
    flag,
    option,
)
from retrieval.surfaces.cli.output import field_rows, print_json, show, table, tell
from retrieval.surfaces.cli.run import opened

if TYPE_CHECKING:
    from retrieval.platform import Platform
    from retrieval.services.reembed import Reembedding


app = typer.Typer()


@app.command(
    epilog=examples(
        "retrieval reembed tickets --to minilm --dry-run",
        "retrieval reembed tickets --to openai --tokens-a-day 5000000 --price 0.13",
        "retrieval reembed tickets",
        "retrieval reembed tickets switch",
    )
)
def reembed(
    *,
    collection: CollectionName,
    action: Annotated[
        Literal["status", "run", "pause", "resume", "switch", "rollback", "finish", "abort"],
        argument("ACTION", "The action on the re-embedding in progress; run does a worker's part."),
    ] = "status",
    to: Annotated[
        str | None,
        option("SPACE", "Begin: the new space's embedder, named as in RETRIEVAL_EMBEDDER."),
    ] = None,
    dry_run: Annotated[bool, flag("Show the cost, and begin nothing.", "--dry-run")] = False,
    yes: Annotated[bool, flag("Do not ask whether to begin.", "--yes", "-y")] = False,
    background: Annotated[bool, flag("Leave the work to a worker.", "--background")] = False,
    switch: Annotated[bool, flag("Switch once the new space is filled and compares well.", "--switch")] = False,
    batch: Annotated[int, option("N", "Texts at a time.", min=1, max=128)] = 128,
    tokens_a_minute: Annotated[int | None, option("N", "The maximum rate.", min=1)] = None,
    tokens_a_day: Annotated[int | None, option("N", "The budget of a day (UTC).", min=1)] = None,
    price: Annotated[float | None, option("X", "The price of a million tokens.", min=0)] = None,
    keep_days: Annotated[
        float,
        option("N", "Keep the former space after the switch.", min=0, max=3650),
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

    again = f"interrupted; retrieval reembed {collection} run, or a worker, continues"
    question = f"Begin to re-embed {collection:.80}?"
    if to is not None:
        check_terminal(question, yes=yes or dry_run, as_json=as_json)
    cost = state = None
    with opened(when_interrupted=again) as (platform, wait):
        if to is not None:
            cost = wait(platform.reembed_cost(collection, to=to, price=price, **pace))
            if not as_json:
                show(table(["", ""], field_rows(cost.as_dict())))
            if not dry_run:
                confirm(question, yes=yes, as_json=as_json)
                begin = platform.reembed(
                    collection, to=to, switch=switch, batch_texts=batch, keep_days=keep_days, **pace
                )
                state = wait(begin)
                action = "status" if background else "run"
        if not dry_run:
            state = wait(_run_action(platform, collection, action))
    facts = state.as_dict() if state else None
    if as_json:
        print_json(facts if cost is None else {"cost": cost.as_dict(), "reembedding": facts})
    elif facts is not None:
        show(table(["", ""], field_rows({**facts, **(facts.pop("comparison") or {})})))


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
        tell(f"note: another process re-embeds {collection} already; this is the state so far")
    return await platform.reembedding(collection)
