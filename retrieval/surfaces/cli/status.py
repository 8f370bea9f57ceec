"""``retrieval status``: how everything stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from retrieval.surfaces.cli.options import Json
from retrieval.surfaces.cli.state import state_of

if TYPE_CHECKING:
    from rich.table import Table

    from retrieval.adapters.store.records.job_runs import JobRun
    from retrieval.adapters.store.search.indexes import IndexStatus
    from retrieval.jobs.status import CollectionStatus
    from retrieval.platform import Platform

EXAMPLES = ("retrieval status", "retrieval status --json")


def status(context: typer.Context, *, as_json: Json = False) -> None:
    """Show the collections, their indexes, what waits, what ran, and the recall.

    Pending items wait for their vector: words find them already. Recall is
    the share of the true nearest items that the index found when the job
    last measured it.
    """
    from retrieval.surfaces.cli.output import console, print_json
    from retrieval.surfaces.cli.run import run

    found = run(state_of(context), _statuses)
    if as_json:
        print_json([one.as_dict() for one in found])
    elif not found:
        console().print("no collections yet; make one with: retrieval ingest NAME FILE", soft_wrap=True)
    else:
        console().print(collections_table(found))
        for line in lost_lines(found):
            console().print(line, soft_wrap=True)
        if any(one.runs for one in found):
            console().print()
            console().print(runs_table(found))


def collections_table(found: list[CollectionStatus]) -> Table:
    """A row a collection; what waits has a column where something waits."""
    from retrieval.surfaces.cli.output import short_space, table

    return table(
        ["collection", "documents", "pending", "weights", "space", "index", "recall"],
        (
            (
                one.name,
                one.documents,
                one.pending or "",
                "pending" if one.weights_pending else "",
                short_space(one.space),
                ", ".join(map(index_text, one.indexes)) or "none",
                recall_text(one),
            )
            for one in found
        ),
        right={"pending"},
    )


def lost_lines(found: list[CollectionStatus]) -> list[str]:
    """A line a collection of which searches were not recorded, and why."""
    from retrieval.surfaces.cli.output import count, plain

    return [
        f"{plain(one.name)}: {count(sum(one.unrecorded.values()), 'search')} not recorded ("
        + ", ".join(f"{reason} {number:,}" for reason, number in one.unrecorded.items())
        + ")"
        for one in found
        if one.unrecorded
    ]


def runs_table(found: list[CollectionStatus]) -> Table:
    """A row for the last run of each job over each collection."""
    from retrieval.surfaces.cli.output import table

    return table(
        ["collection", "job", "started (UTC)", "seconds", "outcome", "details"],
        ((one.name, *_run_cells(run)) for one in found for run in one.runs),
    )


def index_text(index: IndexStatus) -> str:
    """``HNSW, valid, 12.0 MB, 20,000 rows``."""
    rows = f", {index.rows:,} rows" if index.rows >= 0 else ""
    return f"HNSW, {'valid' if index.valid else 'INVALID'}, {index.bytes / 1e6:,.1f} MB{rows}"


def recall_text(one: CollectionStatus) -> str | None:
    """The measured recall, with how many samples it rests on; None where there is none."""
    samples = sum(each.samples for each in one.recall)
    if not samples:
        return None
    mean = sum(each.recall * each.samples for each in one.recall) / samples
    return f"{mean:.3f} of {samples}"


def _run_cells(run: JobRun) -> tuple[object, ...]:
    from datetime import UTC

    seconds = None if run.seconds is None else f"{run.seconds:.1f}"
    details = ", ".join(f"{name} {value}" for name, value in run.details.items() if not isinstance(value, list))
    return run.job, f"{run.started_at.astimezone(UTC):%Y-%m-%d %H:%M}", seconds, run.outcome, details


async def _statuses(platform: Platform) -> list[CollectionStatus]:
    from retrieval.jobs.status import collection_statuses

    return await collection_statuses(platform.workplace, platform.tenant_id)
