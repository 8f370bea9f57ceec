"""``retrieval doctor`` and ``status``: the faults of an installation, and its present state."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import sys
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from retrieval.domain.diagnosis import Severity
from retrieval.domain.errors import InvalidRequestError, RetrievalError, UnknownCollectionError
from retrieval.domain.wording import several
from retrieval.surfaces.cli.errors import FAILED, INTERRUPTED
from retrieval.surfaces.cli.options import Json, State, check_terminal, complete_collection, state_of
from retrieval.surfaces.cli.output import (
    NO_COLLECTIONS,
    console,
    facts_line,
    plain,
    print_answer,
    short_space,
    table,
    tell,
)
from retrieval.surfaces.cli.run import answer, run_alone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from retrieval.adapters.store.installation.queue import JobRun
    from retrieval.adapters.store.search.indexes import IndexStatus
    from retrieval.domain.diagnosis import Diagnosis, Finding
    from retrieval.services.collections import CollectionStatus


EXAMPLES = (
    "retrieval doctor",
    "retrieval doctor tickets --json",
    "retrieval doctor --deep",
    "retrieval doctor --fix --yes",
)

_REPAIRS = (("jobs", "run"), ("reindex",), ("db", "upgrade"))
"""The commands that ``--fix`` runs, besides renewing the planner's statistics: each only rebuilds derived data."""

_MARKS = {"ok": ("✓", "green"), "advice": ("·", "cyan"), "warning": ("!", "yellow"), "error": ("✗", "bold red")}
_INDENT = "    "


def doctor(
    context: typer.Context,
    *,
    collection: Annotated[
        str | None,
        typer.Argument(
            metavar="COLLECTION",
            help="Examine only this collection; else all of the tenant's.",
            autocompletion=complete_collection,
        ),
    ] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also compare every derived row of the collections with its source.")
    ] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="Run the commands that repair the findings, and ask before each.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; with --fix.")] = False,
    as_json: Json = False,
) -> None:
    """Examine the database, the schema and the collections, and say how to repair faults.

    Without --fix it changes nothing. It checks versions, extensions, rights,
    settings, indexes, statistics, dead rows, pending work, recall, jobs and
    workers, and requests one vector from each embedder. The exit code is 1
    if a finding is an error, else 0.
    """
    report = diagnosis(state_of(context), collection, deep=deep)
    if fix and _repair(state_of(context), report, yes=yes):
        report = diagnosis(state_of(context), collection, deep=deep)
    print_answer(report.as_dict(), diagnosis_lines(report), as_json=as_json)
    if not report.is_sound:
        raise typer.Exit(FAILED)


def _repair(state: State, report: Diagnosis, *, yes: bool) -> bool:
    """Run the commands that repair findings, and print the remedies that people must apply; return whether any ran.

    Raises ``InvalidRequestError`` without a terminal to ask at, and ``KeyboardInterrupt`` if a command was stopped.
    """
    from retrieval.services.doctor.diagnose import renew_statistics
    from retrieval.surfaces.cli.app import run_program

    commands = list(dict.fromkeys(filter(None, map(repair_command, report.findings))))
    stale = [finding for finding in report.findings if finding.mends_statistics]
    if commands or stale:
        check_terminal("--fix asks before each command.", yes=yes)
    for line in dict.fromkeys(
        finding.mend
        for finding in report.findings
        if finding.mend and finding not in stale and not repair_command(finding)
    ):
        tell(f"not run: {line}")
    statements = " ".join(finding.mend for finding in stale)
    if stale and (yes or typer.confirm(f"Run {statements}?", default=True, err=True)):
        tell(f"running {statements}")
        run_alone(lambda: renew_statistics(state.settings(), stale))
    for words in commands:
        line = shlex.join(("retrieval", *words))
        if not yes and not typer.confirm(f"Run {line}?", default=True, err=True):
            continue
        tell(f"running {line}")
        tenant = () if state.tenant is None else ("--tenant", state.tenant)
        with contextlib.redirect_stdout(sys.stderr):
            code = run_program([*tenant, *words])
        if code == INTERRUPTED:
            raise KeyboardInterrupt
    return bool(commands or stale)


def repair_command(finding: Finding) -> tuple[str, ...] | None:
    """The words of the command that repairs the finding; None if a person has to decide."""
    if not finding.mend.startswith("retrieval ") or any(character in finding.mend for character in ";,:"):
        return None
    words = tuple(shlex.split(finding.mend)[1:])
    return words if any(words[: len(known)] == known for known in _REPAIRS) else None


def diagnosis(state: State, collection: str | None, *, deep: bool = False) -> Diagnosis:
    """The findings of an examination; of a database that does not open, the findings that need no connection."""
    from retrieval.engine.stages import utc_now
    from retrieval.services.doctor.diagnose import diagnose_closed, examine

    try:
        return run_alone(lambda: examine(state.settings(), collection, is_deep=deep))
    except (UnknownCollectionError, InvalidRequestError):
        raise
    except RetrievalError as error:
        return asyncio.run(diagnose_closed(state.settings(), error, utc_now))


def diagnosis_lines(report: Diagnosis) -> Iterator[Text | str]:
    """A line for each finding, the worst first, with the remedy below it; at the end the number of each severity."""
    encoding = console().encoding
    for finding in report.findings:
        yield from finding_lines(finding, encoding=encoding)
    yield ""
    yield summary(report)


def finding_lines(finding: Finding, *, encoding: str) -> Iterator[Text]:
    """``! pending: ...`` and, indented below it, how to mend it."""
    mark, style = _MARKS[finding.severity]
    symbol = mark if encoding.lower().startswith("utf") else finding.severity.value
    yield Text.assemble((symbol, style), " ", (f"{finding.check}:", "bold"), " ", plain(finding.found))
    if finding.mend:
        yield Text(f"{_INDENT}→ {plain(finding.mend)}" if symbol == mark else f"{_INDENT}mend: {plain(finding.mend)}")


def summary(report: Diagnosis) -> str:
    """``1 error, 2 warnings, 1 piece of advice, 12 ok``."""
    numbers = Counter(finding.severity for finding in report.findings)
    texts = {
        Severity.ERROR: several(numbers[Severity.ERROR], "error"),
        Severity.WARNING: several(numbers[Severity.WARNING], "warning"),
        Severity.ADVICE: f"{several(numbers[Severity.ADVICE], 'piece')} of advice",
        Severity.OK: f"{numbers[Severity.OK]} ok",
    }
    return ", ".join(text for severity, text in texts.items() if numbers[severity])


STATUS_EXAMPLES = ("retrieval status", "retrieval status --json")


def status(context: typer.Context, *, as_json: Json = False) -> None:
    """Show the collections, their indexes, pending work, the last runs of jobs, and the recall.

    Pending items wait for their vectors; searches by words find them
    already. Recall is the share of the true nearest items that the index
    found when the job last measured it.
    """

    def present(statuses: list[CollectionStatus]) -> Iterator[Table | str]:
        if not statuses:
            yield NO_COLLECTIONS
            return
        yield collections_table(statuses)
        yield from unrecorded_lines(statuses)
        yield from chosen_lines(statuses)
        if any(collection.runs for collection in statuses):
            yield ""
            yield runs_table(statuses)

    answer(context, lambda platform: platform.statistics(), present, as_json=as_json)


def collections_table(statuses: list[CollectionStatus]) -> Table:
    """A row for each collection; a column of pending work appears if there is any."""
    return table(
        ["collection", "items", "pending", "weights", "space", "index", "recall"],
        (
            (
                collection.name,
                collection.items,
                collection.pending or "",
                "pending" if collection.weights_pending else "",
                short_space(collection.space),
                ", ".join(map(index_text, collection.indexes)) or "none",
                recall_text(collection),
            )
            for collection in statuses
        ),
        right={"pending"},
    )


def unrecorded_lines(statuses: list[CollectionStatus]) -> list[str]:
    """A line for each collection with unrecorded searches, and why they were not recorded."""
    return [
        f"{plain(collection.name)}: {several(sum(collection.unrecorded.values()), 'search')} not recorded ("
        + ", ".join(f"{reason} {number:,}" for reason, number in collection.unrecorded.items())
        + ")"
        for collection in statuses
        if collection.unrecorded
    ]


def chosen_lines(statuses: list[CollectionStatus]) -> list[str]:
    """A line for each collection for which somebody chose the model."""
    chosen = {plain(status.name): status.chosen_model for status in statuses if status.chosen_model is not None}
    return [
        f"{name}: model {version} (0: none) was chosen, until: retrieval models {name} --use latest"
        for name, version in chosen.items()
    ]


def runs_table(statuses: list[CollectionStatus]) -> Table:
    """A row for the last run of each job over each collection."""
    return table(
        ["collection", "job", "started (UTC)", "seconds", "outcome", "details"],
        ((collection.name, *_run_cells(run)) for collection in statuses for run in collection.runs),
    )


def index_text(index: IndexStatus) -> str:
    """``HNSW, valid, 12.0 MB, about 20,000 rows``: the rows as PostgreSQL last counted them."""
    rows = f", about {index.rows:,} rows" if index.rows >= 0 else ""
    return f"HNSW, {'valid' if index.valid else 'INVALID'}, {index.bytes / 1e6:,.1f} MB{rows}"


def recall_text(status: CollectionStatus) -> str | None:
    """The measured recall, with its number of samples; None without any."""
    samples = sum(each.samples for each in status.recall)
    if not samples:
        return None
    mean = sum(each.recall * each.samples for each in status.recall) / samples
    return f"{mean:.3f} of {samples}"


def _run_cells(run: JobRun) -> tuple[object, ...]:
    seconds = None if run.seconds is None else f"{run.seconds:.1f}"
    return run.job, run.started_at, seconds, run.outcome, facts_line(run.details)
