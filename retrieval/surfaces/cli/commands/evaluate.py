"""``retrieval evaluate``: the quality of a collection's searches on judged queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from retrieval.services.evaluate import CollectionReport, Report
from retrieval.services.significance import Comparison
from retrieval.surfaces.cli.completion import complete_legs
from retrieval.surfaces.cli.options import (
    CollectionName,
    DropSelfOption,
    Json,
    Judgements,
    Queries,
    WhereFromOption,
    legs_of,
    state_of,
)
from retrieval.surfaces.cli.output import count, plain, table

if TYPE_CHECKING:
    from retrieval.platform import Platform


def print_report(out: Console, evaluated: CollectionReport, *, per_query: bool = False) -> None:
    """Print the means by variant, the comparisons, and their notes."""
    report = evaluated.report
    unjudged = f"; {report.unjudged} without judgements left out" if report.unjudged else ""
    out.print(f"{count(report.queries, 'judged query')}{unjudged}", soft_wrap=True)
    out.print(means_table(report))
    if report.comparisons:
        print_comparisons(out, report.comparisons, report.metrics[0])
    if per_query:
        out.print()
        out.print(per_query_table(report))
    print_notes(out, evaluated.notes)


def means_table(report: Report) -> Table:
    """A row a variant."""
    return table(
        ["variant", *report.metrics, "without hits", "median ms", "p95 ms"],
        (
            (
                variant.variant,
                *(variant.means[metric] for metric in report.metrics),
                variant.without_results,
                f"{variant.median_ms:.1f}",
                f"{variant.p95_ms:.1f}",
            )
            for variant in report.variants
        ),
        right=("median ms", "p95 ms"),
    )


def print_comparisons(out: Console, comparisons: Sequence[Comparison], metric: str) -> None:
    """Print a row for each variant that one is compared with, with interval and p-value; all on the same queries."""
    ours = comparisons[0]
    out.print()
    out.print(f"{metric} of {ours.name_a}, {ours.mean_a:.4f}, against", soft_wrap=True)
    columns = ["", "mean", "difference", "95 % interval", "p", "significant"]
    rows = (
        (
            comparison.name_b,
            comparison.mean_b,
            f"{comparison.difference:+.4f}",
            f"{comparison.low:+.4f} to {comparison.high:+.4f}",
            comparison.p_value,
            comparison.significant,
        )
        for comparison in comparisons
    )
    out.print(table(columns, rows, right=columns[2:4]))


def per_query_table(report: Report) -> Table:
    """A row for each query and metric, a column for each variant."""
    rows: list[Sequence[object]] = [
        (query_id, metric, *(variant.per_query[metric][query_id] for variant in report.variants))
        for query_id in report.variants[0].per_query[report.metrics[0]]
        for metric in report.metrics
    ]
    return table(["query", "metric", *(variant.variant for variant in report.variants)], rows)


def print_notes(out: Console, notes: Mapping[str, int]) -> None:
    """Print the notes of the searches, each with the number of searches."""
    for note, times in notes.items():
        searches = count(times, "search")
        out.print(plain(f"note ({searches}): {note}"), soft_wrap=True)


EXAMPLES = ("retrieval evaluate tickets --queries queries.jsonl --qrels qrels.tsv",)


def evaluate(
    context: typer.Context,
    *,
    collection: CollectionName,
    queries: Queries,
    qrels: Judgements = None,
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
    names. TREC's judgements do as well. Without --qrels the queries are a CSV
    with the columns query and expected_id.
    """
    from retrieval.services.evaluate import evaluate_collection, parse_metrics
    from retrieval.services.judgements import DropSelf, WhereFrom, judged, read_judged
    from retrieval.surfaces.cli.output import Step, console, print_json, progress
    from retrieval.surfaces.cli.run import run

    measured, chosen = parse_metrics(metrics), legs_of(legs)
    filters = tuple(map(WhereFrom.parse, where_from or ()))
    own = None if drop_self is None else DropSelf.parse(drop_self)
    asked, judgements = read_judged(queries, qrels)
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
