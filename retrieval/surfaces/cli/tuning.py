"""A tuning's report for people to read."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from retrieval.jobs.tune import TuningReport
from retrieval.jobs.tune_collection import CollectionTuning
from retrieval.surfaces.cli.evaluation import print_comparisons
from retrieval.surfaces.cli.output import table

BEST = 5
"""How many settings are shown."""


def print_tuning(out: Console, tuning: CollectionTuning, *, applied_version: int | None = None) -> None:
    """Print the current setting, the proposal, what it gains, and what to do with it."""
    report = tuning.report
    out.print(
        f"{report.metric} on {report.queries} judged queries, chosen and measured in "
        f"{len(report.chosen)} folds, seed {report.seed}",
        soft_wrap=True,
    )
    proposal = report.proposal.describe() if report.improves else "no change"
    out.print(f"current:  {report.current.describe()}", soft_wrap=True)
    out.print(f"proposed: {proposal}", soft_wrap=True)
    print_comparisons(out, report.comparisons, f"held-out {report.metric}")
    out.print()
    out.print(best_table(report))
    out.print()
    out.print(report.reason, soft_wrap=True)
    if applied_version is not None:
        out.print(f"applied: the collection now searches with profile v{applied_version}", soft_wrap=True)
    elif report.improves:
        out.print("to use it, run the same command again with --apply", soft_wrap=True)


def best_table(report: TuningReport) -> Table:
    """The best settings on all queries: a flattering figure, as the best of many is."""
    return table(
        ["best on all queries (flattering)", report.metric],
        ((setting.describe(), mean) for setting, mean in report.means[:BEST]),
    )
