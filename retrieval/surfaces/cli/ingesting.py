"""One ingest run: files in, progress while it goes, a summary at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote as quoted
from typing import NoReturn

from retrieval.apps.tickets.ticket_item import TICKET_FILTERABLE
from retrieval.collection import Collection
from retrieval.domain.errors import BadLineError, InvalidItemError, InvalidRequestError
from retrieval.jobs.ingest import IngestReport
from retrieval.platform import Platform
from retrieval.surfaces.cli.input_files import InputFiles
from retrieval.surfaces.cli.output import console, count, plain, print_json, table
from retrieval.surfaces.cli.progress import Step, progress
from retrieval.surfaces.cli.rejects import RejectedLines
from retrieval.surfaces.cli.run import run
from retrieval.surfaces.cli.state import State

INTERRUPTED = "interrupted; run the same command again to continue"


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """What was asked for."""

    collection: str
    files: tuple[str, ...]
    columns: Mapping[str, str]
    file_format: str | None
    skip: bool
    rejects: Path | None
    prune: bool
    language: str | None
    filterable: Mapping[str, str]
    as_json: bool
    quiet: bool
    clean: bool


def ingest_files(state: State, options: IngestOptions) -> None:
    """Do the run that the options describe, and print its summary. Raises ``RetrievalError``."""
    if options.rejects is not None and not options.skip:
        raise InvalidRequestError("--rejects is where --on-error skip puts bad lines; give both, or neither")
    source = InputFiles(options.files, columns=options.columns, file_format=options.file_format, clean=options.clean)
    with RejectedLines(
        options.rejects, inputs=source.names, headers=source.headers, say=console(stderr=True)
    ) as rejected:

        async def work(platform: Platform) -> IngestReport:
            return await _ingest(platform, options, source, rejected)

        report = run(state, work, when_interrupted=INTERRUPTED, reads_standard_input=source.reads_standard_input)
    _present(options, source, report, rejected)


async def _ingest(
    platform: Platform, options: IngestOptions, source: InputFiles, rejected: RejectedLines
) -> IngestReport:
    filterable = {**(TICKET_FILTERABLE if source.holds_tickets else {}), **options.filterable}
    collection = await platform.collection(
        options.collection, language=options.language or "english", filterable=filterable
    )
    if options.language is not None:
        await _check_language(collection, options.language)
    stored = IngestReport()
    with progress(f"ingest {options.collection}", "item", quiet=options.quiet) as update:

        def follow(report: IngestReport, offset: int) -> None:
            nonlocal stored
            stored = report
            update(Step(offset, source.total_bytes, report.read))

        try:
            return await collection.ingest(
                source.lines(),
                rejected=rejected.add if options.skip else None,
                prune=options.prune,
                progress=follow,
            )
        except BadLineError as error:
            _explain_stop(error, stored)


async def _check_language(collection: Collection, language: str) -> None:
    made_with = (await collection.info()).text_search_config
    if made_with != language:
        raise InvalidRequestError(
            f"collection {collection.name!r} was made with the language {made_with!r}, which cannot be "
            "changed; leave --language out, or ingest into another collection"
        )


def _explain_stop(error: BadLineError, stored: IngestReport) -> NoReturn:
    reason = (
        f"{error.reason}; stored before it: {count(stored.read, 'item')}; mend the line and run the same "
        "command again to continue, or put bad lines aside with --on-error skip"
    )
    raise BadLineError(error.file, error.line, reason) from error


def _present(options: IngestOptions, source: InputFiles, report: IngestReport, rejected: RejectedLines) -> None:
    err = console(stderr=True)
    for file, names in source.repeated_columns.items():
        err.print(
            plain(f"note: {file}: the header has more than once: {', '.join(names)}; an attribute is then a list"),
            soft_wrap=True,
        )
    if options.as_json:
        files = [str(path) for path in rejected.paths]
        print_json({"collection": options.collection, **report.as_dict(), "rejects": files})
    elif not options.quiet:
        out = console()
        out.print(summary_table(report))
        for note in report.items.notes:
            out.print(f"note: {note}", soft_wrap=True)
    if report.rejected:
        where = ", ".join(str(path) for path in rejected.paths)
        err.print(
            f"{count(report.rejected, 'bad line')} put aside in {where}; mend and ingest that file",
            soft_wrap=True,
        )
    if report.without_text.number:
        _tell_without_text(report)
    if report.items.pending:
        err.print(
            f"{count(report.items.pending, 'item')} without a vector, found by words only; "
            "run the same command again to embed what is missing",
            soft_wrap=True,
        )


def _tell_without_text(report: IngestReport) -> None:
    """Say where the text may stand. Raises ``InvalidItemError`` where no item has any, which nobody means."""
    found = report.without_text
    likely = found.likely_text
    advice = f"did you mean --map text={quoted(likely)}?" if likely else "name what is: --map text=NAME"
    told = f"{found.told(report.read)}; {advice}"
    if found.number == report.read:
        raise InvalidItemError(told)
    console(stderr=True).print(plain(f"note: {told}"), soft_wrap=True)


def summary_table(report: IngestReport) -> object:
    """The counts of a run, one a row."""
    counts = {name: value for name, value in report.as_dict().items() if isinstance(value, int)}
    return table(["items", "count"], counts.items())
