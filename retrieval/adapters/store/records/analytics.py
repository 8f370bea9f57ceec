"""Read the figures of the database's views and functions: their catalogue and their rows."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.installed_sql import quote_identifier
from retrieval.domain.checks import choices_hint, written
from retrieval.domain.errors import NotFoundError
from retrieval.domain.records.analytics import AnalyticsColumn, AnalyticsTable, AnalyticsView, ViewQuestion

PREFIX = "analytics_"

CATALOGUE = Compiled("""
    SELECT entry.name, entry.about, entry.is_function, a.attname::text, format_type(a.atttypid, a.atttypmod),
        coalesce(col_description(a.attrelid, a.attnum), '')
    FROM (
        SELECT c.relname::text AS name, coalesce(obj_description(c.oid, 'pg_class'), '') AS about,
            false AS is_function, c.oid AS relation, c.relnamespace AS place
        FROM pg_class AS c WHERE c.relkind = 'v'
        UNION ALL
        SELECT p.proname::text, coalesce(obj_description(p.oid, 'pg_proc'), ''), true, t.typrelid, p.pronamespace
        FROM pg_proc AS p JOIN pg_type AS t ON t.oid = p.prorettype
    ) AS entry
    JOIN pg_namespace AS n ON n.oid = entry.place
    JOIN pg_attribute AS a ON a.attrelid = entry.relation AND a.attnum > 0 AND NOT a.attisdropped
    WHERE n.nspname = %(schema)s AND entry.name ~ '^analytics_[a-z_]+$'
    ORDER BY entry.name COLLATE "C", a.attnum
""")

_ORDERS = {
    "contexts": "collection, uses DESC, context",
    "exploration": "collection, day NULLS FIRST",
    "feedback": "events DESC, collection, kind, actor, discounted",
    "latency": "day DESC, collection, path, stage",
    "losses": "day DESC, collection, reason",
    "poor_queries": "searches DESC, last_asked_at DESC, collection, query",
    "positions": "collection, rank",
    "profiles": "collection, profile_version DESC, model_version DESC",
    "queries": "retrieved_at DESC, retrieval_id",
    "rated": "retrieved_at DESC, retrieval_id, rank",
    "recall": "measured_at DESC, collection, bucket",
    # The greatest changes first, of both directions, so that a limit leaves out small ones.
    "rising_items": "abs(used - used_before) DESC, rise DESC, collection, item_id",
    "shown_items": "shown DESC, collection, item_id",
    "unused_items": "created_at DESC, collection, item_id",
    "usage": "uses DESC, collection, item_id, context",
    # The most used items and contexts first, each with all of its days.
    "usage_by_day": "max(uses) OVER (PARTITION BY collection, item_id, context) DESC, "
    "collection, item_id, context, day",
}
"""The order of the rows, by view; other views are ordered by their first column."""

_LENGTH = timedelta(days=28)
_LENGTHS = {"rising_items": timedelta(days=14)}
"""The length of a period without a beginning, the same as the functions' own default."""


async def analytics_views(database: Database, tenant_id: int) -> list[AnalyticsView]:
    """The views and functions of figures, by name, with their descriptions from the catalogue."""
    return views_of(await database.read(tenant_id, CATALOGUE.bind(schema=database.names.schema)))


def views_of(rows: Iterable[tuple[Any, ...]]) -> list[AnalyticsView]:
    """The views of rows of ``CATALOGUE``."""
    return [
        AnalyticsView(
            name=name.removeprefix(PREFIX),
            about=about,
            columns=tuple(AnalyticsColumn(name=row[3], type=row[4], about=row[5]) for row in columns),
            is_function=is_function,
        )
        for (name, about, is_function), columns in groupby(rows, key=lambda row: row[:3])
    ]


async def analytics_rows(
    database: Database, tenant_id: int, name: str, question: ViewQuestion, now: datetime
) -> AnalyticsTable:
    """The rows of the view of that name. Raises ``NotFoundError`` if there is none, and the errors of ``begins``."""
    known = {view.name: view for view in await analytics_views(database, tenant_id)}
    if name not in known:
        raise NotFoundError(f"there is no view {written(name)}; {choices_hint(name, known)}")
    view = known[name]
    rows = await database.read(tenant_id, analytics_statement(view, question, now))
    return AnalyticsTable(view=name, columns=tuple(column.name for column in view.columns), values=tuple(rows))


def analytics_statement(view: AnalyticsView, question: ViewQuestion, now: datetime) -> Compiled:
    """The statement that reads a view. Names come from the catalogue; a caller's values are parameters."""
    since = question.begins(_LENGTHS.get(view.name, _LENGTH) if view.is_function else None, now)
    values = {"collection": question.collection, "since": since, "until": question.until}
    given = {name: value for name, value in values.items() if value is not None}
    source, conditions = quote_identifier(PREFIX + view.name), ["true"]
    if view.is_function:
        source += f"({', '.join(f'{name} => {_PARAMETERS[name]}' for name in given)})"
    else:
        conditions += [condition for name, condition in _conditions(view).items() if name in given]
    text = f"""
        SELECT {", ".join(quote_identifier(column.name) for column in view.columns)}
        FROM {source} WHERE {" AND ".join(conditions)} ORDER BY {_ORDERS.get(view.name, "1")} LIMIT %(limit)s
    """  # noqa: S608 - of the names above
    return Compiled(text, {**given, "limit": question.limit})


_PARAMETERS = {
    "collection": "%(collection)s::text",
    "since": "%(since)s::timestamptz",
    "until": "%(until)s::timestamptz",
}


def _conditions(view: AnalyticsView) -> dict[str, str]:
    """The conditions that restrict a list, by parameter."""
    conditions = {"collection": f"collection = {_PARAMETERS['collection']}"}
    if view.time_column is None:
        return conditions
    column, since, until = quote_identifier(view.time_column.name), _PARAMETERS["since"], _PARAMETERS["until"]
    if view.time_column.type == "date":
        # A day belongs to each period that has a part of it, in UTC.
        since, until = f"({since} AT TIME ZONE 'UTC')::date", f"({until} AT TIME ZONE 'UTC')"
        return {**conditions, "since": f"{column} >= {since}", "until": f"{column}::timestamp < {until}"}
    return {**conditions, "since": f"{column} >= {since}", "until": f"{column} < {until}"}
