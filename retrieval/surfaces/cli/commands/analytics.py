"""``retrieval analytics``: figures about searches and feedback."""

from __future__ import annotations

import csv
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval.domain.errors import InvalidRequestError
from retrieval.surfaces.cli.options import Json, OneCollection, complete_view, state_of
from retrieval.surfaces.cli.output import console, table
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

SHOWN = 50
"""Rows of a table, where no limit is given."""

_ANY_WIDTH = 100_000


def analytics(
    context: typer.Context,
    *,
    view: Annotated[
        str | None,
        typer.Argument(
            metavar="VIEW",
            help="What to show; without it, what there is.",
            show_default=False,
            autocompletion=complete_view,
        ),
    ] = None,
    collection: OneCollection = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="WHEN", help="From then on: 30m, 12h, 7d, 4w, or a date or time in UTC."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="WHEN", help="Before that date or time, in UTC.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=1, help="The most rows; else 50, and all with --json or --csv."),
    ] = None,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, with a line of names, and nothing else.")] = False,
) -> None:
    """Show figures about searches, items, exploration and feedback.

    Analysts find the same in the database, as the view analytics_VIEW.
    """
    from retrieval.surfaces.refused_values import age_or_time, time_of

    if as_json and as_csv:
        raise InvalidRequestError("--json and --csv are two ways to print the same; choose one")
    begin = None if since is None else age_or_time(since)
    end = None if until is None else time_of("--until", until)
    most = rows_wanted(limit, is_whole=as_json or as_csv)

    async def rows(platform: Platform) -> AnalyticsTable | list[AnalyticsView]:
        if view is None:
            return await platform.analytics_views()
        return await platform.analytics(view, collection=collection, since=begin, until=end, limit=most)

    if as_csv:
        print_csv(run(state_of(context), rows))
    else:
        answer(context, rows, shown, as_json=as_json, told=told)


def told(found: AnalyticsTable | list[AnalyticsView]) -> list[dict[str, Any]]:
    """Plain JSON values: an object a row, or a view."""
    return [view.as_dict() for view in found] if isinstance(found, list) else found.as_dicts()


def shown(found: AnalyticsTable | list[AnalyticsView]) -> str | Table | Iterator[str | Table]:
    """The views, or the rows of one."""
    if isinstance(found, list):
        return table(["view", "what it shows"], ((view.name, view.about) for view in found))
    return rows_of(found) if len(found) else "nothing to show for that period and collection"


def rows_wanted(limit: int | None, *, is_whole: bool) -> int | None:
    """The most rows: as given; otherwise a table is cut, and output for programs is complete (None)."""
    return limit if limit is not None or is_whole else SHOWN


def rows_of(found: AnalyticsTable) -> Iterator[str | Table]:
    """A table where it fits the width, else each row as a list of names and values; empty columns are left out."""
    from rich.measure import Measurement

    rows = [list(map(_cell, values)) for values in found.values]
    filled = [place for place, _ in enumerate(found.columns) if any(row[place] not in (None, "", {}) for row in rows)]
    names = [found.columns[place] for place in filled]
    kept = [[row[place] for place in filled] for row in rows]
    out, made = console(), table(names, kept)
    if Measurement.get(out, out.options.update(width=_ANY_WIDTH), made).maximum <= out.width:
        yield made
        return
    for number, row in enumerate(kept, start=1):
        if number > 1:
            yield ""
        yield table([f"row {number}" if len(kept) > 1 else "column", "value"], zip(names, row, strict=True))


def _cell(value: Any) -> object:
    from datetime import UTC, datetime

    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M}"
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def print_csv(found: AnalyticsTable | list[AnalyticsView]) -> None:
    """A line of names, then a line a row."""
    if sys.stdout is None:
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    if isinstance(found, list):
        writer.writerow(["view", "about"])
        writer.writerows((view.name, view.about) for view in found)
        return
    writer.writerow(found.columns)
    for row in found.as_dicts():
        writer.writerow(json.dumps(value) if isinstance(value, dict | list) else value for value in row.values())
