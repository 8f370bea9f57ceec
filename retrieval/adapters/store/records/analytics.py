"""Read the figures of the database's views and functions: their catalogue and their rows."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from psycopg import sql

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.domain.checks import choices_hint
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
"""The length of a period without a begin, the same as the functions' own default."""


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
        raise NotFoundError(f"there is no view {name!r:.80}; {choices_hint(name, known)}")
    view = known[name]
    rows = await database.read(tenant_id, analytics_statement(view, question, now))
    return AnalyticsTable(view=name, columns=tuple(column.name for column in view.columns), values=tuple(rows))


def analytics_statement(view: AnalyticsView, question: ViewQuestion, now: datetime) -> Compiled:
    """The statement that reads a view. Names come from the catalogue; a caller's values are parameters."""
    since = question.begins(_LENGTHS.get(view.name, _LENGTH) if view.is_function else None, now)
    placeholders = {
        "collection": "%(collection)s::text",
        "since": "%(since)s::timestamptz",
        "until": "%(until)s::timestamptz",
    }
    values = {"collection": question.collection, "since": since, "until": question.until}
    set_placeholders = {name: placeholders[name] for name, value in values.items() if value is not None}
    source: sql.Composable = sql.Identifier(PREFIX + view.name)
    conditions: sql.Composable = sql.SQL("true")
    if view.is_function:
        arguments = ", ".join(f"{name} => {value}" for name, value in set_placeholders.items())
        source = sql.SQL("{}({})").format(source, _trusted(arguments))
    else:
        conditions = _conditions(view, set_placeholders)
    statement = sql.SQL("SELECT {} FROM {} WHERE {} ORDER BY {} LIMIT %(limit)s").format(
        sql.SQL(", ").join(sql.Identifier(column.name) for column in view.columns),
        source,
        conditions,
        _trusted(_ORDERS.get(view.name, "1")),
    )
    given = {name: values[name] for name in set_placeholders}
    return Compiled(statement.as_string(), {**given, "limit": question.limit})


def _conditions(view: AnalyticsView, values: dict[str, str]) -> sql.Composable:
    """The conditions that restrict a list."""
    conditions: list[sql.Composable] = [sql.SQL("true")]
    if "collection" in values:
        conditions.append(_trusted("collection = " + values["collection"]))
    time = view.time_column
    if time is not None:
        # A day belongs to each period that has a part of it, in UTC.
        begin = "({} AT TIME ZONE 'UTC')::date" if time.type == "date" else "{}"
        end = "({}::timestamp AT TIME ZONE 'UTC')" if time.type == "date" else "{}"
        column = sql.Identifier(time.name)
        if "since" in values:
            conditions.append(sql.SQL("{} >= {}").format(column, _trusted(begin.format(values["since"]))))
        if "until" in values:
            conditions.append(sql.SQL("{} < {}").format(_trusted(end).format(column), _trusted(values["until"])))
    return sql.SQL(" AND ").join(conditions)


def _trusted(text: Any) -> sql.SQL:
    """A part of a statement from this module."""
    return sql.SQL(text)
