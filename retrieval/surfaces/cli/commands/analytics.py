"""``retrieval analytics``: figures about searches and feedback."""

from __future__ import annotations

import csv
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval.domain.errors import InvalidRequestError
from retrieval.surfaces.cli.options import OneCollection, argument, command, flag, option, wants_json
from retrieval.surfaces.cli.output import console, plain_name, print_answer, table
from retrieval.surfaces.cli.run import opened
from retrieval.surfaces.since import age_or_time, moment_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from retrieval.domain.records.analytics import AnalyticsTable


TABLE_ROWS = 50
"""The number of rows of a table without a limit."""

app = typer.Typer()


@command(
    app,
    "retrieval analytics",
    "retrieval analytics poor_queries --collection tickets --since 7d",
    "retrieval analytics latency --since 2026-11-01 --csv > latency.csv",
)
def analytics(
    *,
    view: Annotated[str | None, argument("VIEW", "The view to show; without it, the list of views.")] = None,
    collection: OneCollection = None,
    since: Annotated[
        str | None, option("WHEN", "From that time on: 30m, 12h, 7d, 4w, or a date or time in UTC.")
    ] = None,
    until: Annotated[str | None, option("WHEN", "Before that date or time, in UTC.")] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=1, help="The maximum number of rows; else 50, or all with --json or --csv."),
    ] = None,
    as_csv: Annotated[bool, flag("Print only CSV, with a header line.", "--csv")] = False,
) -> None:
    """Show figures about searches, items, exploration and feedback.

    Analysts find the same figures in the database, as the view analytics_VIEW.
    """
    if view is None:
        if as_csv:
            raise InvalidRequestError("--csv is for the rows of a view; name one")
        with opened() as (platform, wait):
            views = wait(platform.analytics_views())
        rows = ((each.name, each.about) for each in views)
        print_answer(views, table(["view", "what it shows"], rows))
        return
    if wants_json() and as_csv:
        raise InvalidRequestError("give --json or --csv, not both")
    begin = None if since is None else age_or_time(since)
    end = moment_of("--until", until)
    most = limit if limit is not None or wants_json() or as_csv else TABLE_ROWS

    with opened() as (platform, wait):
        result = wait(platform.analytics(view, collection=collection, since=begin, until=end, limit=most))
    if as_csv:
        print_csv(result)
    else:
        print_answer(result.as_dicts(), rows_of(result))


def rows_of(result: AnalyticsTable) -> Iterator[str | Table]:
    """A table if it fits the width, else each row as a list of names and values; empty columns are left out."""
    from rich.measure import Measurement

    rows = [list(map(_cell, values)) for values in result.values]
    used = [index for index, _ in enumerate(result.columns) if any(row[index] not in (None, "") for row in rows)]
    names = [plain_name(result.columns[index]) for index in used]
    cells = [[row[index] for index in used] for row in rows]
    out, whole = console(), table(names, cells)
    if not rows:
        yield "nothing to show for that period and collection"
    elif Measurement.get(out, out.options.update(width=100_000), whole).maximum <= out.width:
        yield whole
    else:
        for number, row in enumerate(cells, start=1):
            yield table([f"row {number}", "value"], zip(names, row, strict=True))
            yield ""


def _cell(value: Any) -> object:
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False) if value else None
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def print_csv(result: AnalyticsTable) -> None:
    """A header line, then a line per row; lists and objects are JSON."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(result.columns)
    for row in result.as_dicts():
        writer.writerow(json.dumps(value) if isinstance(value, dict | list) else value for value in row.values())
