"""The installation's tables, as the server's statistics have them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg.rows import class_row

from retrieval.adapters.store.installed_sql import Names


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """One table with rows of its own; what is partitioned counts by its parts."""

    name: str
    live: int
    """Rows that are there, as the server has counted them."""
    dead: int
    """Rows that are gone and still take room."""
    changed: int
    """Rows that changed since the planner's statistics were made."""
    analyzed_at: datetime | None
    vacuumed_at: datetime | None
    bytes: int
    is_private: bool
    """Whether it holds tenants' rows, by its columns."""
    is_forced: bool
    """Whether row-level security is on and forced."""
    is_granted: bool
    """Whether the application role may read what a policy shows it; true where no policy names it."""
    is_logged: bool
    """Whether it survives a crash."""
    is_vacuumed: bool
    """Whether autovacuum looks after it."""
    dead_share: float | None
    """The share of dead rows from which autovacuum cleans it; None: the server's setting."""


_TABLES = """
    SELECT
        c.relname::text AS name,
        greatest(coalesce(pg_stat_get_live_tuples(c.oid), 0), 0) AS live,
        greatest(coalesce(pg_stat_get_dead_tuples(c.oid), 0), 0) AS dead,
        greatest(coalesce(pg_stat_get_mod_since_analyze(c.oid), 0), 0) AS changed,
        greatest(pg_stat_get_last_analyze_time(c.oid), pg_stat_get_last_autoanalyze_time(c.oid)) AS analyzed_at,
        greatest(pg_stat_get_last_vacuum_time(c.oid), pg_stat_get_last_autovacuum_time(c.oid)) AS vacuumed_at,
        pg_table_size(c.oid) AS bytes,
        EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND NOT a.attisdropped
                AND a.attname IN ('collection_id', 'tenant_id')) AS is_private,
        c.relrowsecurity AND c.relforcerowsecurity AS is_forced,
        NOT EXISTS (
            SELECT FROM pg_policy p JOIN pg_roles r ON r.oid = ANY(p.polroles) AND r.rolname = %(app)s
            WHERE p.polrelid = c.oid AND p.polcmd IN ('r', '*') AND NOT has_any_column_privilege(r.oid, c.oid, 'SELECT')
        ) AS is_granted,
        c.relpersistence <> 'u' AS is_logged,
        coalesce((SELECT o.option_value FROM pg_options_to_table(c.reloptions) o
                  WHERE o.option_name = 'autovacuum_enabled')::boolean, true) AS is_vacuumed,
        (SELECT o.option_value::float FROM pg_options_to_table(c.reloptions) o
         WHERE o.option_name = 'autovacuum_vacuum_scale_factor') AS dead_share
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %(schema)s AND c.relkind IN ('r', 'p')
    ORDER BY c.relname
"""


async def read_tables(connection: psycopg.AsyncConnection[Any], names: Names) -> list[TableState]:
    """The tables of the schema, by name."""
    async with connection.cursor(row_factory=class_row(TableState)) as cursor:
        await cursor.execute(_TABLES, {"schema": names.schema, "app": names.app_role})
        return await cursor.fetchall()
