"""``retrieval evaluate``, ``tune`` and ``calibrate``: search quality on judged queries, and better settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from retrieval.domain.wording import several
from retrieval.surfaces.cli import options
from retrieval.surfaces.cli.output import Step, print_answer, progress, table
from retrieval.surfaces.cli.run import opened_collection

if TYPE_CHECKING:
    from retrieval.services.calibrate import CalibrationReport
    from retrieval.services.evaluate import Report
    from retrieval.services.significance import Comparison
    from retrieval.services.tune import TuningReport


def report_lines(report: Report, *, per_query: bool = False) -> Iterator[str | Table]:
    """The means by variant, the comparisons, and the notes of the searches, each with the number of searches."""
    unjudged = f"; {report.unjudged} without a relevant item left out" if report.unjudged else ""
    yield f"{several(report.queries, 'judged query')}{unjudged}"
    yield table(
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
    if report.comparisons:
        yield from comparison_lines(report.comparisons, report.metrics[0])
    if per_query:
        rows: list[Sequence[object]] = [
            (query_id, metric, *(variant.per_query[metric][query_id] for variant in report.variants))
            for query_id in report.variants[0].per_query[report.metrics[0]]
            for metric in report.metrics
        ]
        yield ""
        yield table(["query", "metric", *(variant.variant for variant in report.variants)], rows)
    yield from (f"note ({several(times, 'search')}): {note}" for note, times in report.notes.items())


def comparison_lines(comparisons: Sequence[Comparison], metric: str) -> Iterator[str | Table]:
    """A row for each comparison of the first variant with another on the same queries."""
    first = comparisons[0]
    yield ""
    yield f"{metric} of {first.name_a}, {first.mean_a:.4f}, against"
    yield table(
        ["", "mean", "difference", "95 % interval", "p", "significant"],
        (
            (
                each.name_b,
                each.mean_b,
                f"{each.difference:+.4f}",
                f"{each.low:+.4f} to {each.high:+.4f}",
                each.p_value,
                each.significant,
            )
            for each in comparisons
        ),
        right=("difference", "95 % interval"),
    )


app = typer.Typer()


@options.command(app, "retrieval evaluate tickets --queries queries.jsonl --qrels qrels.tsv")
def evaluate(
    *,
    collection: options.CollectionName,
    queries: options.Queries,
    qrels: options.Judgements = None,
    legs: Annotated[
        str | None,
        options.option("LEGS", "The legs to measure, such as dense,lexical; else the profile's.", "--legs", "-l"),
    ] = None,
    metrics: Annotated[
        str, options.option("NAMES", "The metrics; variants are compared by the first.")
    ] = "nDCG@10,R@100,MRR@10",
    profile: options.ProfileName = None,
    where_from: options.WhereFromOption = None,
    drop_self: options.DropSelfOption = None,
    limit_queries: options.LimitQueries = None,
    per_query: Annotated[bool, options.flag("Show every query's values too.", "--per-query")] = False,
) -> None:
    """Measure search quality and speed on judged queries.

    Each leg is measured alone, and all of them fused. The files are BEIR's;
    TREC's judgements are read too. Without --qrels the queries are a CSV
    with the columns query and expected_id.
    """
    from retrieval.collection import handle_of
    from retrieval.services.evaluate import evaluate_collection, parse_metrics
    from retrieval.services.judgements import read_judged

    parsed_metrics, chosen_legs = parse_metrics(metrics), options.legs_of(legs)
    test_queries, judgements = read_judged(
        queries, qrels, where_from=where_from or (), drop_self=drop_self, limit=limit_queries
    )

    with opened_collection(collection) as (target, wait), progress(f"evaluate {collection}", "search") as update:
        evaluated = wait(
            evaluate_collection(
                handle_of(target),
                test_queries,
                judgements,
                metrics=parsed_metrics,
                legs=chosen_legs,
                profile=None if profile is None else wait(options.profile_named(target, profile)),
                progress=lambda done, total: update(Step(done, total, done)),
            )
        )
    parts = report_lines(evaluated, per_query=per_query)
    print_answer(evaluated.as_dict(per_query=per_query), parts)


def tuning_lines(report: TuningReport, applied_version: int | None) -> Iterator[str | Table]:
    """The current setting, the proposal, its gain, and the next step."""
    yield (
        f"{report.metric} on {report.queries} judged queries, chosen and measured in "
        f"{len(report.chosen)} folds, seed {report.seed}"
    )
    yield f"current:  {report.current.describe()}"
    yield f"proposed: {report.proposal.describe() if report.improves else 'no change'}"
    yield from comparison_lines(report.comparisons, f"held-out {report.metric}")
    yield ""
    # The figures are optimistic, because they are the best of many.
    best = ((setting.describe(), mean) for setting, mean in report.means[:5])
    yield table(["best on all queries (optimistic)", report.metric], best)
    yield ""
    yield report.reason
    if applied_version is not None:
        yield f"applied: the collection now searches with profile v{applied_version}"
    elif report.improves:
        yield "to use it, run the same command again with --apply"


@options.command(app, "retrieval tune tickets --queries queries.jsonl --qrels qrels.tsv --apply")
def tune(
    *,
    collection: options.CollectionName,
    queries: options.Queries,
    qrels: options.Judgements = None,
    where_from: options.WhereFromOption = None,
    drop_self: options.DropSelfOption = None,
    limit_queries: options.LimitQueries = None,
    cutoff: Annotated[int, options.option("N", "Tune nDCG at this many hits.")] = 10,
    seed: Annotated[int, options.option("N", "The seed of the random folds.", min=0)] = 0,
    apply: Annotated[bool, options.flag("Store the proposal as a new version of the profile.", "--apply")] = False,
) -> None:
    """Find better legs, fusion and weights from judged queries.

    Settings are chosen on some queries and measured on others; a change is
    proposed if the gain is significant. Only --apply stores it.
    """
    from retrieval.collection import handle_of
    from retrieval.services.judgements import read_judged
    from retrieval.services.tune import apply_tuning, tune_collection

    test_queries, judgements = read_judged(
        queries, qrels, where_from=where_from or (), drop_self=drop_self, limit=limit_queries
    )
    with opened_collection(collection) as (stored, wait), progress(f"tune {collection}", "step") as update:
        target = handle_of(stored)
        tuning = wait(
            tune_collection(
                target,
                test_queries,
                judgements,
                cutoff=cutoff,
                seed=seed,
                progress=lambda stage, done, total: update(Step(done, total, done, stage)),
            )
        )
        version = wait(apply_tuning(target, tuning)) if apply else None
    value = {**tuning.as_dict(), "applied_version": version}
    print_answer(value, tuning_lines(tuning, version))


def calibration_lines(report: CalibrationReport) -> Iterator[str | Table]:
    """The calibration's error on held-out queries, and the next step."""
    yield f"fitted on {report.calibration.fitted_on}"
    held_out = report.held_out
    if held_out is None:
        yield "too few queries to hold some out: its error is unknown"
    else:
        apart = held_out.told_apart
        separation = "" if apart is None else f", separates relevant from not relevant in {apart:.0%} of pairs"
        yield (
            f"on held-out queries: {held_out.relevant:.1%} of {held_out.hits} hits are relevant, "
            f"{held_out.told:.1%} was predicted; off by {held_out.error:.3f} on average{separation}"
        )
        rows = [(interval.hits, f"{interval.told:.2f}", f"{interval.relevant:.2f}") for interval in held_out.bins]
        yield table(["hits", "predicted", "relevant"], rows, right=("predicted", "relevant"))
    if report.profile_version is None:
        yield "to use it, run the same command again with --apply"
    else:
        yield f"applied: the collection now searches with profile v{report.profile_version}"


@options.command(
    app, "retrieval calibrate tickets --queries queries.jsonl --qrels qrels.tsv --apply", "retrieval calibrate tickets"
)
def calibrate(
    *,
    collection: options.CollectionName,
    queries: Annotated[
        Path | None,
        options.option("FILE", "Judged queries as for tune; without it, the feedback on recorded searches."),
    ] = None,
    qrels: options.Judgements = None,
    where_from: options.WhereFromOption = None,
    drop_self: options.DropSelfOption = None,
    apply: Annotated[bool, options.flag("Store it in a new version of the profile.", "--apply")] = False,
) -> None:
    """Fit the relevance of hits, which is the probability that a hit is relevant.

    It is fitted to judged queries, or to feedback. Include queries that no item
    answers, so that their hits get a low relevance. Only --apply stores it.
    """
    from retrieval.collection import handle_of
    from retrieval.services import calibrate as service
    from retrieval.services.judgements import missing_items, read_judged

    if queries is None and (qrels or where_from or drop_self):
        raise typer.BadParameter("--qrels, --where-from and --drop-self need it", param_hint="--queries")
    judged = None
    if queries is not None:
        judged = read_judged(queries, qrels, where_from=where_from or (), drop_self=drop_self)

    with opened_collection(collection) as (target, wait), progress(f"calibrate {collection}", "query") as update:

        def step(done: int, total: int) -> None:
            update(Step(done, total, done, "searching"))

        if judged is None:
            report = wait(service.calibrate_by_feedback(handle_of(target), apply=apply, progress=step))
        else:
            wait(missing_items(target.get, *judged))
            report = wait(service.calibrate(handle_of(target), *judged, apply=apply, progress=step))
    print_answer(report, calibration_lines(report))
