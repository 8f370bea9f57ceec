"""``retrieval doctor`` and ``status``: the faults of an installation, and its present state."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import sys
from collections import Counter
from contextvars import copy_context
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from retrieval.domain.diagnosis import Severity, diagnosis_of
from retrieval.domain.errors import InvalidRequestError, RetrievalError, UnknownCollectionError
from retrieval.domain.wording import several
from retrieval.surfaces.cli import output
from retrieval.surfaces.cli.errors import FAILED, INTERRUPTED
from retrieval.surfaces.cli.options import PROGRAM, argument, check_terminal, command, flag, program_settings
from retrieval.surfaces.cli.run import opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from retrieval.adapters.store.items.collection_facts import CollectionStatus
    from retrieval.adapters.store.search.indexes import IndexStatus
    from retrieval.domain.diagnosis import Diagnosis, Finding


_REPAIRS = (("jobs", "run"), ("reindex",), ("db", "upgrade"))
"""The commands that ``--fix`` runs, besides renewing the planner's statistics: each only rebuilds derived data."""

_MARKS = {"ok": ("✓", "green"), "advice": ("·", "cyan"), "warning": ("!", "yellow"), "error": ("✗", "bold red")}
app = typer.Typer()


@command(
    app,
    "retrieval doctor",
    "retrieval doctor tickets --json",
    "retrieval doctor --deep",
    "retrieval doctor --fix --yes",
)
def doctor(
    *,
    collection: Annotated[
        str | None, argument("COLLECTION", "Examine only this collection; else all of the tenant's.")
    ] = None,
    deep: Annotated[bool, flag("Also compare every derived row of the collections with its source.", "--deep")] = False,
    fix: Annotated[bool, flag("Run the commands that repair the findings, and ask before each.", "--fix")] = False,
    yes: Annotated[bool, flag("Do not ask; with --fix.", "--yes", "-y")] = False,
) -> None:
    """Examine the database, the schema and the collections, and say how to repair faults.

    Without --fix it changes nothing, but requests one vector from each
    embedder. The exit code is 1 if a finding is an error, else 0.
    """
    report = diagnosis(collection, deep=deep)
    if fix and _repair(report, yes=yes):
        report = diagnosis(collection, deep=deep)
    output.print_answer(report.as_dict(), diagnosis_lines(report))
    if not report.is_sound:
        raise typer.Exit(FAILED)


def _repair(report: Diagnosis, *, yes: bool) -> bool:
    """Run the commands that repair findings, and print the remedies that people must apply; return whether any ran.

    Raises ``InvalidRequestError`` without a terminal to ask at, and ``KeyboardInterrupt`` if a command was stopped.
    """
    from retrieval.services.doctor.diagnose import renew_statistics
    from retrieval.surfaces.cli.app import run_program

    commands = list(dict.fromkeys(words for each in report.findings if (words := repair_command(each.mend))))
    stale = [finding for finding in report.findings if finding.mends_statistics]
    if commands or stale:
        check_terminal("--fix asks before each command.", yes=yes)
    for mend in dict.fromkeys(each.mend for each in report.findings if each.mend and each not in stale):
        if not repair_command(mend):
            output.tell(f"not run: {mend}")

    def may_run(what: str) -> bool:
        if not yes and not typer.confirm(f"Run {what}?", default=True, err=True):
            return False
        output.tell(f"running {what}")
        return True

    for words in commands:
        if not may_run(shlex.join(("retrieval", *words))):
            continue
        tenant = PROGRAM.get().tenant
        arguments = [*words] if tenant is None else ["--tenant", tenant, *words]
        with contextlib.redirect_stdout(sys.stderr):
            code = copy_context().run(run_program, arguments)
        if code == INTERRUPTED:
            raise KeyboardInterrupt
    # Last, because the other repairs change rows.
    if stale and may_run(" ".join(finding.mend for finding in stale)):
        asyncio.run(renew_statistics(program_settings(), stale))
    return bool(commands or stale)


def repair_command(mend: str) -> tuple[str, ...] | None:
    """The words of the command that a finding names as its remedy; None if a person has to decide."""
    if not mend.startswith("retrieval ") or any(character in mend for character in ";,:"):
        return None
    words = tuple(shlex.split(mend)[1:])
    return words if any(words[: len(known)] == known for known in _REPAIRS) else None


def diagnosis(collection: str | None, *, deep: bool) -> Diagnosis:
    """The findings of an examination; of a database that does not open, the findings that need no connection."""
    from retrieval.adapters.clock import utc_now
    from retrieval.services.doctor.diagnose import diagnose_closed, examine
    from retrieval.surfaces.cli.app import unknown_variables

    settings = program_settings()
    ignored = [
        Severity.WARNING.finding(
            "environment",
            f"{name} is not a setting, and is ignored",
            f"rename it to {similar}, or unset it" if similar else "unset it, or see docs/reference/settings.md",
            about=name,
        )
        for name, similar in unknown_variables()
    ]
    try:
        with output.spinner("looking at the database"):
            report = asyncio.run(examine(settings, collection, is_deep=deep))
    except (UnknownCollectionError, InvalidRequestError):
        raise
    except RetrievalError as error:
        report = asyncio.run(diagnose_closed(settings, error, utc_now))
    return diagnosis_of([*ignored, *report.findings], report.examined_at)


def diagnosis_lines(report: Diagnosis) -> Iterator[Text | str]:
    """A line for each finding, the worst first, with the remedy below it; at the end the number of each severity."""
    encoding = output.console().encoding
    for finding in report.findings:
        yield from finding_lines(finding, encoding=encoding)
    yield ""
    numbers = Counter(finding.severity for finding in report.findings)
    yield ", ".join(f"{numbers[severity]} {severity.value}" for severity in reversed(Severity) if numbers[severity])


def finding_lines(finding: Finding, *, encoding: str) -> Iterator[Text]:
    """``! pending: ...`` and, indented below it, how to mend it."""
    mark, style = _MARKS[finding.severity]
    is_utf8 = encoding.lower().startswith("utf")
    symbol = mark if is_utf8 else finding.severity.value
    yield Text.assemble((symbol, style), " ", (f"{finding.check}:", "bold"), " ", output.plain(finding.found))
    if finding.mend:
        yield Text(f"    {'→' if is_utf8 else 'mend:'} {output.plain(finding.mend)}")


@command(app, "retrieval status", "retrieval status --json")
def status() -> None:
    """Show the collections, their indexes, pending work, the last runs of jobs, and the recall.

    Pending items wait for their vectors; searches by words find them
    already. Recall is the share of the true nearest items that the index
    found when the job last measured it.
    """
    with opened() as (platform, wait):
        statuses = wait(platform.statistics())
    output.print_answer(statuses, status_lines(statuses))


def status_lines(statuses: list[CollectionStatus]) -> Iterator[Table | str]:
    """The collections, what is to be known about some, and the last run of each job over each collection."""
    if not statuses:
        yield output.NO_COLLECTIONS
        return
    yield output.table(
        ["collection", "items", "pending", "weights", "space", "index", "recall"],
        (
            (
                status.name,
                status.items,
                status.pending or "",
                "pending" if status.weights_pending else "",
                output.short_space(status.space),
                ", ".join(map(_index_text, status.indexes)) or "none",
                "{:.3f} of {}".format(*status.mean_recall) if status.mean_recall else None,
            )
            for status in statuses
        ),
        right={"pending"},
    )
    for status in statuses:
        if status.unrecorded:
            reasons = ", ".join(f"{reason} {number:,}" for reason, number in status.unrecorded.items())
            yield f"{status.name}: {several(sum(status.unrecorded.values()), 'search')} not recorded ({reasons})"
    for status in statuses:
        if status.chosen_model is not None:
            until = f"retrieval models {status.name} --use latest"
            yield f"{status.name}: model {status.chosen_model} (0: none) was chosen, until: {until}"
    runs = [
        (
            status.name,
            run.job,
            run.started_at,
            None if run.seconds is None else f"{run.seconds:.1f}",
            run.outcome,
            output.facts_line(run.details),
        )
        for status in statuses
        for run in status.runs
    ]
    if runs:
        yield ""
        yield output.table(["collection", "job", "started (UTC)", "seconds", "outcome", "details"], runs)


def _index_text(index: IndexStatus) -> str:
    """``HNSW, valid, 12.0 MB, about 20,000 rows``: the rows as PostgreSQL last counted them."""
    rows = f", about {index.rows:,} rows" if index.rows >= 0 else ""
    return f"HNSW, {'valid' if index.valid else 'INVALID'}, {index.bytes / 1e6:,.1f} MB{rows}"
