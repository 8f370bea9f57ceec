"""``retrieval calibrate``: fit how sure the hits of a collection are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from retrieval.services.calibrate import CalibrationReport
from retrieval.surfaces.cli.options import (
    CollectionName,
    DropSelfOption,
    Json,
    Judgements,
    WhereFromOption,
    state_of,
)
from retrieval.surfaces.cli.output import table

if TYPE_CHECKING:
    from retrieval.platform import Platform


def print_calibration(out: Console, report: CalibrationReport) -> None:
    """Print how honest the calibration is on queries left out, and what to do with it."""
    out.print(f"fitted on {report.calibration.fitted_on}", soft_wrap=True)
    honest = report.held_out
    if honest is None:
        out.print("too few queries to hold some out: how honest it is cannot be said", soft_wrap=True)
    else:
        apart = "" if honest.told_apart is None else f", tells relevant from not in {honest.told_apart:.0%} of pairs"
        out.print(
            f"on queries left out: {honest.relevant:.1%} of {honest.hits} hits are relevant, {honest.told:.1%} was "
            f"told; off by {honest.error:.3f} on average{apart}",
            soft_wrap=True,
        )
        rows = [(one.hits, f"{one.told:.2f}", f"{one.relevant:.2f}") for one in honest.bins]
        out.print(table(["hits", "told", "relevant"], rows, right=("told", "relevant")))
    if report.profile_version is None:
        out.print("to use it, run the same command again with --apply", soft_wrap=True)
    else:
        out.print(f"applied: the collection now searches with profile v{report.profile_version}", soft_wrap=True)


EXAMPLES = (
    "retrieval calibrate tickets --queries queries.jsonl --qrels qrels.tsv --apply",
    "retrieval calibrate tickets",
)


def calibrate(
    context: typer.Context,
    *,
    collection: CollectionName,
    queries: Annotated[
        Path | None,
        typer.Option(
            "--queries",
            metavar="FILE",
            help="Judged queries as for tune; left out: the feedback to recorded searches.",
            show_default=False,
        ),
    ] = None,
    qrels: Judgements = None,
    where_from: WhereFromOption = None,
    drop_self: DropSelfOption = None,
    apply: Annotated[bool, typer.Option("--apply", help="Store it in a new version of the profile.")] = False,
    as_json: Json = False,
) -> None:
    """Fit the relevance of hits: how probably each one is relevant.

    From judged queries, or from feedback. Queries that are judged and that
    nothing answers tell what no answer looks like. Only --apply stores it.
    """
    from retrieval.collection import handle_of
    from retrieval.services import calibrate as service
    from retrieval.services.judgements import DropSelf, WhereFrom, missing_items, read_judged
    from retrieval.surfaces.cli.output import console, print_json
    from retrieval.surfaces.cli.progress import Step, progress
    from retrieval.surfaces.cli.run import run

    if queries is None and (qrels or where_from or drop_self):
        raise typer.BadParameter("give the queries that the other options are about", param_hint="--queries")
    filters = tuple(map(WhereFrom.parse, where_from or ()))
    own = None if drop_self is None else DropSelf.parse(drop_self)
    judged = None if queries is None else read_judged(queries, qrels)

    async def work(platform: Platform) -> CalibrationReport:
        found = await platform.collection(collection, create=False)
        with progress(f"calibrate {collection}", "query") as update:

            def step(done: int, total: int) -> None:
                update(Step(done, total, done, "asking"))

            if judged is None:
                return await service.calibrate_by_feedback(handle_of(found), apply=apply, progress=step)
            await missing_items(found, *judged)
            return await service.calibrate(
                handle_of(found), *judged, where_from=filters, drop_self=own, apply=apply, progress=step
            )

    report = run(state_of(context), work)
    if as_json:
        print_json(report.as_dict())
    else:
        print_calibration(console(), report)
