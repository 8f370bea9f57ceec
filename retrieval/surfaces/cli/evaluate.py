"""``retrieval evaluate``: how good a collection's searches are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from retrieval.surfaces.cli.completion import complete_legs
from retrieval.surfaces.cli.options import (
    CollectionName,
    DropSelfOption,
    Json,
    Judgements,
    Queries,
    WhereFromOption,
    legs_of,
)
from retrieval.surfaces.cli.state import state_of

if TYPE_CHECKING:
    from retrieval.jobs.evaluate_collection import CollectionReport
    from retrieval.platform import Platform

EXAMPLES = ("retrieval evaluate tickets --queries queries.jsonl --qrels qrels.tsv",)


def evaluate(
    context: typer.Context,
    *,
    collection: CollectionName,
    queries: Queries,
    qrels: Judgements,
    legs: Annotated[
        str | None,
        typer.Option(
            "--legs",
            "-l",
            metavar="LEGS",
            help="The legs to measure, such as dense,lexical; else the profile's.",
            autocompletion=complete_legs,
        ),
    ] = None,
    metrics: Annotated[
        str,
        typer.Option("--metrics", metavar="NAMES", help="What to measure; the first is the one that is compared."),
    ] = "nDCG@10,R@100,MRR@10",
    where_from: WhereFromOption = None,
    drop_self: DropSelfOption = None,
    limit_queries: Annotated[
        int | None,
        typer.Option("--limit-queries", metavar="N", min=1, help="Ask only the first N judged queries."),
    ] = None,
    per_query: Annotated[bool, typer.Option("--per-query", help="Show every query's values too.")] = False,
    as_json: Json = False,
) -> None:
    """Measure search quality and speed on judged queries.

    Each leg is measured alone, and all of them fused; the differences are
    tested for significance.

    The files are BEIR's: queries.jsonl, and qrels.tsv with a line of column
    names. TREC's judgements do as well.
    """
    from retrieval.jobs.evaluate_collection import evaluate_collection
    from retrieval.jobs.judgements import DropSelf, WhereFrom, judged, read_qrels, read_queries
    from retrieval.jobs.metrics import parse_metrics
    from retrieval.surfaces.cli.evaluation import print_report
    from retrieval.surfaces.cli.output import console, print_json
    from retrieval.surfaces.cli.progress import Step, progress
    from retrieval.surfaces.cli.run import run

    measured, chosen = parse_metrics(metrics), legs_of(legs)
    filters = tuple(map(WhereFrom.parse, where_from or ()))
    own = None if drop_self is None else DropSelf.parse(drop_self)
    asked, judgements = read_queries(queries), read_qrels(qrels)
    if limit_queries is not None:
        asked = judged(asked, judgements)[:limit_queries]

    async def work(platform: Platform) -> CollectionReport:
        found = (await platform.collection(collection, create=False)).unrecorded()
        with progress(f"evaluate {collection}", "search") as update:
            return await evaluate_collection(
                found,
                asked,
                judgements,
                metrics=measured,
                legs=chosen,
                where_from=filters,
                drop_self=own,
                progress=lambda done, total: update(Step(done, total, done)),
            )

    report = run(state_of(context), work)
    if as_json:
        print_json(report.as_dict(per_query=per_query))
    else:
        print_report(console(), report, per_query=per_query)
