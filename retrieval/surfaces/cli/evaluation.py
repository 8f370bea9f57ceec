"""An evaluation's report for people to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from retrieval.jobs.evaluate import Report
from retrieval.jobs.evaluate_collection import CollectionReport
from retrieval.jobs.significance import Comparison
from retrieval.surfaces.cli.output import count, plain, table


def print_report(out: Console, evaluated: CollectionReport, *, per_query: bool = False) -> None:
    """Print the means by variant, the comparisons, and what to mind about them."""
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
                one.variant,
                *(one.means[metric] for metric in report.metrics),
                one.without_results,
                f"{one.median_ms:.1f}",
                f"{one.p95_ms:.1f}",
            )
            for one in report.variants
        ),
        right=("median ms", "p95 ms"),
    )


def print_comparisons(out: Console, comparisons: Sequence[Comparison], metric: str) -> None:
    """Print what one variant is compared with, a row each, with interval and p-value; all on the same queries."""
    ours = comparisons[0]
    out.print()
    out.print(f"{metric} of {ours.name_a}, {ours.mean_a:.4f}, against", soft_wrap=True)
    columns = ["", "mean", "difference", "95 % interval", "p", "significant"]
    rows = (
        (
            one.name_b,
            one.mean_b,
            f"{one.difference:+.4f}",
            f"{one.low:+.4f} to {one.high:+.4f}",
            one.p_value,
            one.significant,
        )
        for one in comparisons
    )
    out.print(table(columns, rows, right=columns[2:4]))


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
        searches = count(times, "search")
        out.print(plain(f"note ({searches}): {note}"), soft_wrap=True)
