"""An evaluation's report for people to read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table

from retrieval.jobs.evaluate import Report
from retrieval.jobs.evaluate_collection import CollectionReport
from retrieval.jobs.significance import SIGNIFICANT, Comparison
from retrieval.surfaces.cli.output import count, plain, table


def print_report(out: Console, evaluated: CollectionReport, *, per_query: bool = False) -> None:
    """Print the means by variant, the comparisons, and what to mind about them."""
    report = evaluated.report
    unjudged = f"; {report.unjudged} without judgements left out" if report.unjudged else ""
    out.print(f"{count(report.queries, 'judged query').replace('querys', 'queries')}{unjudged}", soft_wrap=True)
    out.print(means_table(report))
    if report.comparisons:
        out.print(comparisons_table(report.comparisons, report.metrics[0]))
    if per_query:
        out.print(per_query_table(report))
    print_notes(out, evaluated.notes)


def means_table(report: Report) -> Table:
    """A row a variant."""
    return table(
        ["variant", *report.metrics, "without hits", "median ms", "p95 ms"],
        (
            (
                one.variant,
                *(one.means[metric] for metric in report.metrics),
                one.without_results,
                round(one.median_ms, 1),
                round(one.p95_ms, 1),
            )
            for one in report.variants
        ),
    )


def comparisons_table(comparisons: Iterable[Comparison], metric: str) -> Table:
    """A row a comparison, with its interval and p-value."""
    return table(
        [f"{metric} of", "against", "mean", "other", "difference", "95 % interval", "p", "significant"],
        (
            (
                one.name_a,
                one.name_b,
                one.mean_a,
                one.mean_b,
                f"{one.difference:+.4f}",
                f"{one.low:+.4f} to {one.high:+.4f}",
                one.p_value,
                one.p_value < SIGNIFICANT,
            )
            for one in comparisons
        ),
    )


def per_query_table(report: Report) -> Table:
    """A row a query and metric, a column a variant."""
    rows: list[Sequence[object]] = [
        (query_id, metric, *(one.per_query[metric][query_id] for one in report.variants))
        for query_id in report.variants[0].per_query[report.metrics[0]]
        for metric in report.metrics
    ]
    return table(["query", "metric", *(one.variant for one in report.variants)], rows)


def print_notes(out: Console, notes: Mapping[str, int]) -> None:
    """Print what the searches had to say, and how many of them said it."""
    for note, times in notes.items():
        searches = count(times, "search").replace("searchs", "searches")
        out.print(plain(f"note ({searches}): {note}"), soft_wrap=True)
