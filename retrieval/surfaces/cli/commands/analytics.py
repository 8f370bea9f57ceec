"""``retrieval analytics``: figures about searches and feedback."""

from __future__ import annotations

import csv
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval.domain.errors import InvalidRequestError
from retrieval.surfaces.cli.options import Json, OneCollection, complete_view, state_of
from retrieval.surfaces.cli.output import console, plain_name, table
from retrieval.surfaces.cli.run import answer, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from retrieval.domain.records.analytics import AnalyticsTable, AnalyticsView
    from retrieval.platform import Platform


EXAMPLES = (
    "retrieval analytics",
    "retrieval analytics poor_queries --collection tickets --since 7d",
    "retrieval analytics latency --since 2026-11-01 --csv > latency.csv",
)

TABLE_ROWS = 50
"""The number of rows of a table without a limit."""

_ANY_WIDTH = 100_000


def analytics(
    context: typer.Context,
    *,
    view: Annotated[
        str | None,
        typer.Argument(
            metavar="VIEW", help="The view to show; without it, the list of views.", autocompletion=complete_view
        ),
    ] = None,
    collection: OneCollection = None,
    since: Annotated[
        str | None, typer.Option(metavar="WHEN", help="From that time on: 30m, 12h, 7d, 4w, or a date or time in UTC.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="WHEN", help="Before that date or time, in UTC.")] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=1, help="The maximum number of rows; else 50, or all with --json or --csv."),
    ] = None,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print only CSV, with a header line.")] = False,
) -> None:
    """Show figures about searches, items, exploration and feedback.

    Analysts find the same figures in the database, as the view analytics_VIEW.
    """
    from retrieval.surfaces.since import age_or_time, time_of

    if as_json and as_csv:
        raise InvalidRequestError("give --json or --csv, not both")
    begin = None if since is None else age_or_time(since)
    end = None if until is None else time_of("--until", until)
    most = row_limit(limit, is_whole=as_json or as_csv)

    async def read_rows(platform: Platform) -> AnalyticsTable | list[AnalyticsView]:
        if view is None:
            return await platform.analytics_views()
        return await platform.analytics(view, collection=collection, since=begin, until=end, limit=most)

    if as_csv:
        print_csv(run(state_of(context), read_rows))
    else:
        answer(context, read_rows, present, as_json=as_json, to_json=to_json)


def to_json(result: AnalyticsTable | list[AnalyticsView]) -> list[dict[str, Any]]:
    """JSON values: an object per row, or per view."""
    return [view.as_dict() for view in result] if isinstance(result, list) else result.as_dicts()


def present(result: AnalyticsTable | list[AnalyticsView]) -> str | Table | Iterator[str | Table]:
    """The views, or the rows of one."""
    if isinstance(result, list):
        return table(["view", "what it shows"], ((view.name, view.about) for view in result))
    return rows_of(result) if len(result) else "nothing to show for that period and collection"


def row_limit(limit: int | None, *, is_whole: bool) -> int | None:
    """The maximum number of rows: the limit, else ``TABLE_ROWS`` for a table, and None for output of all rows."""
    return limit if limit is not None or is_whole else TABLE_ROWS


def rows_of(result: AnalyticsTable) -> Iterator[str | Table]:
    """A table if it fits the width, else each row as a list of names and values; empty columns are left out."""
    from rich.measure import Measurement

    rows = [list(map(_cell, values)) for values in result.values]
    used = [place for place, _ in enumerate(result.columns) if any(row[place] not in (None, "") for row in rows)]
    names = [plain_name(result.columns[place]) for place in used]
    cells = [[row[place] for place in used] for row in rows]
    out, whole = console(), table(names, cells)
    if Measurement.get(out, out.options.update(width=_ANY_WIDTH), whole).maximum <= out.width:
        yield whole
        return
    for number, row in enumerate(cells, start=1):
        if number > 1:
            yield ""
        yield table([f"row {number}" if len(cells) > 1 else "column", "value"], zip(names, row, strict=True))


def _cell(value: Any) -> object:
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False) if value else None
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def print_csv(result: AnalyticsTable | list[AnalyticsView]) -> None:
    """A header line, then a line per row."""
    if sys.stdout is None:
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    if isinstance(result, list):
        writer.writerow(["view", "about"])
        writer.writerows((view.name, view.about) for view in result)
        return
    writer.writerow(result.columns)
    for row in result.as_dicts():
        writer.writerow(json.dumps(value) if isinstance(value, dict | list) else value for value in row.values())
