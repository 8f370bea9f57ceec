"""``retrieval doctor``: what is wrong with an installation, and how to mend it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from retrieval.domain.errors import InvalidRequestError, RetrievalError, UnknownCollectionError
from retrieval.surfaces.cli.completion import complete_collection
from retrieval.surfaces.cli.errors import FAILED
from retrieval.surfaces.cli.options import Json
from retrieval.surfaces.cli.state import State, state_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from retrieval.domain.diagnosis import Diagnosis, Finding

EXAMPLES = ("retrieval doctor", "retrieval doctor tickets --json")

_MARKS = {"ok": ("✓", "green"), "advice": ("·", "cyan"), "warning": ("!", "yellow"), "error": ("✗", "bold red")}
_INDENT = "    "


def doctor(
    context: typer.Context,
    *,
    collection: Annotated[
        str | None,
        typer.Argument(
            metavar="COLLECTION",
            help="Look at this collection alone; else at all of the tenant's.",
            show_default=False,
            autocompletion=complete_collection,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Examine the database, the schema and the collections, and say how to mend what is wrong.

    It changes nothing. It looks at releases, extensions, rights, settings,
    indexes, statistics, dead rows, what waits, recall, jobs and workers, and
    asks each embedder for one vector. The exit code is 1 where something is
    an error, and 0 otherwise.
    """
    from retrieval.surfaces.cli.output import print_json

    found = diagnosis(state_of(context), collection)
    if as_json:
        print_json(found.as_dict())
    else:
        print_diagnosis(found)
    if not found.is_sound:
        raise typer.Exit(FAILED)


def diagnosis(state: State, collection: str | None) -> Diagnosis:
    """What an examination finds, or what can be said where the database does not open."""
    from datetime import UTC, datetime

    from retrieval.jobs.doctor import diagnose_closed, examine
    from retrieval.surfaces.cli.run import run_alone

    try:
        return run_alone(lambda: examine(state.settings(), collection))
    except (UnknownCollectionError, InvalidRequestError):
        raise
    except RetrievalError as error:
        return asyncio.run(diagnose_closed(state.settings(), error, datetime.now(UTC)))


def print_diagnosis(found: Diagnosis) -> None:
    """A line a finding, the worst first, and below it what to do; at the end how many there are of each."""
    from retrieval.surfaces.cli.output import console

    out = console()
    for finding in found.findings:
        for line in finding_lines(finding, encoding=out.encoding):
            out.print(line, soft_wrap=True)
    out.print()
    out.print(summary(found), soft_wrap=True)


def finding_lines(finding: Finding, *, encoding: str) -> Iterator[Text]:
    """``! pending: ...`` and, indented below it, how to mend it."""
    from rich.text import Text

    from retrieval.surfaces.cli.output import plain

    mark, style = _MARKS[finding.severity]
    shown = mark if encoding.lower().startswith("utf") else finding.severity.value
    yield Text.assemble((shown, style), " ", (f"{finding.check}:", "bold"), " ", plain(finding.found))
    if finding.mend:
        yield Text(f"{_INDENT}→ {plain(finding.mend)}" if shown == mark else f"{_INDENT}mend: {plain(finding.mend)}")


def summary(found: Diagnosis) -> str:
    """``1 error, 2 warnings, 1 piece of advice, 12 ok``."""
    from collections import Counter

    numbers = Counter(one.severity.value for one in found.findings)
    words = {"error": "errors", "warning": "warnings", "advice": "pieces of advice", "ok": "ok"}
    single = {"error": "error", "warning": "warning", "advice": "piece of advice", "ok": "ok"}
    return ", ".join(
        f"{numbers[name]} {single[name] if numbers[name] == 1 else words[name]}" for name in words if numbers[name]
    )
