"""``retrieval analytics``: figures about searches and feedback."""

from __future__ import annotations

import csv
import json
import re
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval.domain.errors import InvalidRequestError
from retrieval.surfaces.cli.options import Json
from retrieval.surfaces.cli.state import state_of

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from rich.table import Table

    from retrieval.domain.analytics import AnalyticsTable, AnalyticsView
    from retrieval.platform import Platform

EXAMPLES = (
    "retrieval analytics",
    "retrieval analytics poor_queries --collection tickets --since 7d",
    "retrieval analytics latency --since 2026-11-01 --csv > latency.csv",
)

_AGE = re.compile(r"(\d{1,6})([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 168}
_ANY_WIDTH = 100_000


def analytics(
    context: typer.Context,
    *,
    view: Annotated[
        str | None, typer.Argument(metavar="VIEW", help="What to show; without it, what there is.", show_default=False)
    ] = None,
    collection: Annotated[
        str | None, typer.Option("--collection", "-c", metavar="NAME", help="This collection; else all of the tenant.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="WHEN", help="From then on: 12h, 7d, 4w, or a date or time in UTC.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="WHEN", help="Before that date or time, in UTC.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many rows.")] = 50,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, with a line of names, and nothing else.")] = False,
) -> None:
    """Show figures about searches, items, exploration and feedback.

    The same stands in the database, for analysts, as analytics_VIEW.
    """
    from retrieval.surfaces.cli.output import console, print_json
    from retrieval.surfaces.cli.run import run

    if as_json and as_csv:
        raise InvalidRequestError("--json and --csv are two ways to print the same; choose one")
    begin, end = since_of(since), time_of("--until", until)

    async def rows(platform: Platform) -> AnalyticsTable | list[AnalyticsView]:
        if view is None:
            return await platform.analytics_views()
        return await platform.analytics(view, collection=collection, since=begin, until=end, limit=limit)

    found = run(state_of(context), rows)
    if as_json:
        print_json([one.as_dict() for one in found] if isinstance(found, list) else found.as_dicts())
    elif as_csv:
        print_csv(found)
    elif isinstance(found, list):
        console().print(views_table(found))
    elif len(found):
        print_rows(found)
    else:
        console().print("nothing to show for that period and collection", soft_wrap=True)


def since_of(text: str | None) -> datetime | timedelta | None:
    """``7d`` as a length of time, a date or time as such. Raises ``InvalidRequestError``."""
    from datetime import timedelta

    age = _AGE.fullmatch(text or "")
    return timedelta(hours=int(age[1]) * _HOURS[age[2]]) if age else time_of("--since", text)


def time_of(option: str, text: str | None) -> datetime | None:
    """A date or time in ISO 8601, in UTC where it names no zone. Raises ``InvalidRequestError``."""
    from datetime import UTC, datetime

    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        ages = " or an age such as 7d" if option == "--since" else ""
        raise InvalidRequestError(f"cannot read {option} {text!r}: write a date such as 2026-11-01{ages}") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def views_table(found: list[AnalyticsView]) -> Table:
    """A row a view."""
    from retrieval.surfaces.cli.output import table

    return table(["view", "what it shows"], ((one.name, one.about) for one in found))


def print_rows(found: AnalyticsTable) -> None:
    """A table where it fits the width, else each row as a list of names and values; empty columns are left out."""
    from rich.measure import Measurement

    from retrieval.surfaces.cli.output import console, table

    rows = [list(map(_cell, values)) for values in found.values]
    filled = [place for place, _ in enumerate(found.columns) if any(row[place] not in (None, "", {}) for row in rows)]
    names = [found.columns[place] for place in filled]
    kept = [[row[place] for place in filled] for row in rows]
    out, made = console(), table(names, kept)
    if Measurement.get(out, out.options.update(width=_ANY_WIDTH), made).maximum <= out.width:
        out.print(made)
        return
    for number, row in enumerate(kept, start=1):
        if number > 1:
            out.print()
        out.print(table([str(number), ""], zip(names, row, strict=True)))


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
        writer.writerows((one.name, one.about) for one in found)
        return
    writer.writerow(found.columns)
    for row in found.as_dicts():
        writer.writerow(json.dumps(one) if isinstance(one, dict | list) else one for one in row.values())
