"""Read the state of the installation's tables and indexes from the catalog and the statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import class_row

from retrieval.adapters.store.installation.nodes import stored_bytes
from retrieval.adapters.store.installed_sql import Names


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """One table with its own rows; a partitioned table counts by its partitions."""

    name: str
    columns: Sequence[str]
    live: int
    """Rows, as the server's statistics count them; those on the nodes of a cluster are not counted."""
    dead: int
    """Deleted rows that still take space."""
    changed: int
    """Rows that changed since the planner's statistics were made."""
    is_analyzed: bool
    """Whether there are statistics for the planner."""
    bytes: int
    is_forced: bool
    """Whether row-level security is on and forced."""
    is_vacuumed: bool
    """Whether autovacuum is on for it."""
    is_shown: bool
    """Whether a policy permits the application role to read its tenant's rows; true for monthly partitions."""
    loose_policies: Sequence[str]
    """Policies that permit a role of the installation, or every role, to read other tenants' rows."""
    lacking: Sequence[str]
    """The privileges that the application role lacks although a policy grants them: SELECT, INSERT, UPDATE, DELETE."""

    @property
    def is_private(self) -> bool:
        """Whether it holds tenants' rows, according to its columns."""
        return not {"collection_id", "tenant_id"}.isdisjoint(self.columns)


_TABLES = r"""
    WITH policies AS (
        SELECT p.polrelid, p.polname, p.polcmd, p.polpermissive,
            EXISTS (SELECT FROM pg_roles r WHERE r.oid = ANY(p.polroles) AND r.rolname = %(app)s) AS is_apps,
            0 = ANY(p.polroles) OR EXISTS (
                SELECT FROM pg_roles r WHERE r.oid = ANY(p.polroles) AND r.rolname IN (%(app)s, %(analyst)s)
            ) AS is_ours,
            -- Names that are not on the search path are printed with their schema.
            NOT EXISTS (
                SELECT FROM (VALUES (pg_get_expr(p.polqual, p.polrelid)), (pg_get_expr(p.polwithcheck, p.polrelid)))
                    AS e (expression)
                WHERE regexp_replace(e.expression, '\s+|(\m\w+|"[^"]+")\.', '', 'g') NOT IN (
                    '(tenant_id=current_tenant())', '(tenant_id=analyst_tenant())',
                    '(collection_idIN(SELECTcollection_idFROMcollectionsc))',
                    -- On a cluster.
                    '(collection_id=ANY(own_collections()))')
            ) AS is_own
        FROM pg_policy p
    )
    SELECT
        c.relname::text AS name,
        ARRAY(SELECT a.attname::text FROM pg_attribute a
              WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns,
        pg_stat_get_live_tuples(c.oid) AS live,
        pg_stat_get_dead_tuples(c.oid) AS dead,
        pg_stat_get_mod_since_analyze(c.oid) AS changed,
        coalesce(pg_stat_get_last_analyze_time(c.oid), pg_stat_get_last_autoanalyze_time(c.oid)) IS NOT NULL
            AS is_analyzed,
        {bytes} AS bytes,
        c.relrowsecurity AND c.relforcerowsecurity AS is_forced,
        coalesce((SELECT o.option_value FROM pg_options_to_table(c.reloptions) o
                  WHERE o.option_name = 'autovacuum_enabled')::boolean, true) AS is_vacuumed,
        c.relispartition OR EXISTS (
            SELECT FROM policies p WHERE p.polrelid = c.oid AND p.is_apps AND p.is_own AND p.polpermissive
                AND p.polcmd IN ('r', '*')) AS is_shown,
        ARRAY(SELECT p.polname::text FROM policies p
              WHERE p.polrelid = c.oid AND p.is_ours AND p.polpermissive AND NOT p.is_own ORDER BY 1) AS loose_policies,
        ARRAY(SELECT w.name FROM (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) AS w (name)
              WHERE EXISTS (SELECT FROM policies p WHERE p.polrelid = c.oid AND p.is_apps
                            AND (p.polcmd = '*' OR p.polcmd = 'r' AND w.name = 'SELECT'))
                  AND NOT CASE w.name WHEN 'DELETE' THEN has_table_privilege(app.oid, c.oid, w.name)
                          ELSE has_any_column_privilege(app.oid, c.oid, w.name) END) AS lacking
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_roles app ON app.rolname = %(app)s
    WHERE n.nspname = %(schema)s AND c.relkind IN ('r', 'p')
    ORDER BY c.relname
"""


async def read_tables(
    connection: psycopg.AsyncConnection[Any], names: Names, *, is_distributed: bool = False
) -> list[TableState]:
    """The tables of the schema, by name."""
    text = _TABLES.format(bytes=stored_bytes("c.oid", is_distributed=is_distributed))
    values = {"schema": names.schema, "app": names.app_role, "analyst": names.analyst_role}
    async with connection.cursor(row_factory=class_row(TableState)) as cursor:
        await cursor.execute(text.encode(), values)
        return await cursor.fetchall()


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexState:
    """One index."""

    name: str
    table: str
    is_valid: bool
    """Whether searches may use it and writers keep it."""
    is_being_built: bool
    bytes: int


_INDEXES = """
    SELECT
        k.relname::text AS name,
        t.relname::text AS table,
        i.indisvalid AND i.indisready AND i.indislive AS is_valid,
        EXISTS (SELECT FROM pg_stat_progress_create_index p
                WHERE p.index_relid = i.indexrelid OR (p.relid = i.indrelid AND p.index_relid = 0)) AS is_being_built,
        {bytes} AS bytes
    FROM pg_index i
    JOIN pg_class k ON k.oid = i.indexrelid
    JOIN pg_class t ON t.oid = i.indrelid
    JOIN pg_namespace n ON n.oid = k.relnamespace
    WHERE n.nspname = %(schema)s
    ORDER BY k.relname
"""


async def read_indexes(
    connection: psycopg.AsyncConnection[Any], names: Names, *, is_distributed: bool = False
) -> list[IndexState]:
    """The indexes of the schema, by name."""
    text = _INDEXES.format(bytes=stored_bytes("k.oid", is_distributed=is_distributed))
    async with connection.cursor(row_factory=class_row(IndexState)) as cursor:
        await cursor.execute(text.encode(), {"schema": names.schema})
        return await cursor.fetchall()
