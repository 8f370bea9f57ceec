"""Read the state of the installation's tables and indexes from the catalog and the statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import psycopg
from psycopg.rows import class_row, dict_row, kwargs_row

from retrieval.adapters.store.installation.nodes import stored_bytes
from retrieval.adapters.store.installed_sql import Names, quote_literal


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """One table with its own rows; a partitioned table counts by its partitions."""

    name: str
    live: int
    """Rows, as the server's statistics count them."""
    dead: int
    """Deleted rows that still take space."""
    changed: int
    """Rows that changed since the planner's statistics were made."""
    analyzed_at: datetime | None
    vacuumed_at: datetime | None
    bytes: int
    is_private: bool
    """Whether it holds tenants' rows, according to its columns."""
    is_forced: bool
    """Whether row-level security is on and forced."""
    is_granted: bool
    """Whether the application role may read the rows that its policies permit; true if no policy names the role."""
    is_logged: bool
    """Whether it survives a crash."""
    is_vacuumed: bool
    """Whether autovacuum is on for it."""
    dead_share: float | None
    """The share of dead rows from which autovacuum cleans it; None: the server's setting."""
    is_shown: bool = True
    """Whether a policy permits the application role to read its tenant's rows; true for tables without, and months."""
    has_tenant: bool = False
    """Whether a column names the tenant."""
    loose_policies: tuple[str, ...] = ()
    """Policies that permit a role of the installation, or every role, to read other tenants' rows."""
    columns: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    """The privileges that the application role lacks although a policy grants them: INSERT, UPDATE, DELETE."""


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
        greatest(coalesce(pg_stat_get_live_tuples(c.oid), 0), 0) AS live,
        greatest(coalesce(pg_stat_get_dead_tuples(c.oid), 0), 0) AS dead,
        greatest(coalesce(pg_stat_get_mod_since_analyze(c.oid), 0), 0) AS changed,
        greatest(pg_stat_get_last_analyze_time(c.oid), pg_stat_get_last_autoanalyze_time(c.oid)) AS analyzed_at,
        greatest(pg_stat_get_last_vacuum_time(c.oid), pg_stat_get_last_autovacuum_time(c.oid)) AS vacuumed_at,
        {bytes} AS bytes,
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
         WHERE o.option_name = 'autovacuum_vacuum_scale_factor') AS dead_share,
        c.relispartition OR NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND NOT a.attisdropped
                                        AND a.attname IN ('collection_id', 'tenant_id'))
            OR EXISTS (SELECT FROM policies p WHERE p.polrelid = c.oid AND p.is_apps AND p.is_own AND p.polpermissive
                       AND p.polcmd IN ('r', '*')) AS is_shown,
        EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND NOT a.attisdropped
                AND a.attname = 'tenant_id') AS has_tenant,
        ARRAY(SELECT p.polname::text FROM policies p
              WHERE p.polrelid = c.oid AND p.is_ours AND p.polpermissive AND NOT p.is_own ORDER BY 1) AS loose_policies,
        ARRAY(SELECT a.attname::text FROM pg_attribute a
              WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns,
        ARRAY(SELECT w.name FROM unnest(ARRAY['INSERT', 'UPDATE', 'DELETE']) WITH ORDINALITY AS w (name, place)
              WHERE EXISTS (SELECT FROM policies p WHERE p.polrelid = c.oid AND p.is_apps AND p.polcmd = '*')
                  AND NOT has_table_privilege((SELECT r.oid FROM pg_roles r WHERE r.rolname = %(app)s), c.oid, w.name)
              ORDER BY w.place) AS lacking
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %(schema)s AND c.relkind IN ('r', 'p')
    ORDER BY c.relname
"""
_ON_A_NODE = """
    SELECT json_agg(shard) FROM (
        SELECT
            t.relname AS name,
            pg_stat_get_live_tuples(c.oid) AS live,
            pg_stat_get_dead_tuples(c.oid) AS dead,
            pg_stat_get_mod_since_analyze(c.oid) AS changed,
            greatest(pg_stat_get_last_analyze_time(c.oid), pg_stat_get_last_autoanalyze_time(c.oid)) AS analyzed_at,
            greatest(pg_stat_get_last_vacuum_time(c.oid), pg_stat_get_last_autovacuum_time(c.oid)) AS vacuumed_at
        FROM pg_dist_shard s
        JOIN pg_class t ON t.oid = s.logicalrelid
        JOIN pg_namespace n ON n.oid = t.relnamespace
        JOIN pg_class c ON c.oid = to_regclass(shard_name(s.logicalrelid, s.shardid))
        WHERE n.nspname = {schema}
            -- The small tables, which every node has whole, count on the coordinator.
            AND (s.shardminvalue IS NOT NULL OR (SELECT l.groupid FROM pg_dist_local_group l) = 0)
    ) AS shard
"""
_ON_NODES = """
    SELECT
        shard.name, sum(shard.live)::bigint AS live, sum(shard.dead)::bigint AS dead,
        sum(shard.changed)::bigint AS changed, max(shard.analyzed_at) AS analyzed_at,
        max(shard.vacuumed_at) AS vacuumed_at
    FROM run_command_on_all_nodes(%s) AS node
    CROSS JOIN LATERAL json_to_recordset(node.result::json) AS shard (
        name text, live bigint, dead bigint, changed bigint, analyzed_at timestamptz, vacuumed_at timestamptz
    )
    WHERE node.success
    GROUP BY shard.name
"""
"""The counts of the nodes of a cluster, by table: the coordinator's own tables are empty."""


async def read_tables(
    connection: psycopg.AsyncConnection[Any], names: Names, *, is_distributed: bool = False
) -> list[TableState]:
    """The tables of the schema, by name."""
    text = _TABLES.format(bytes=stored_bytes("c.oid", is_distributed=is_distributed))
    values = {"schema": names.schema, "app": names.app_role, "analyst": names.analyst_role}
    async with connection.cursor(row_factory=kwargs_row(_state)) as cursor:
        await cursor.execute(text.encode(), values)
        tables = await cursor.fetchall()
    return await _counted_on_nodes(connection, names, tables) if is_distributed else tables


async def _counted_on_nodes(
    connection: psycopg.AsyncConnection[Any], names: Names, tables: Sequence[TableState]
) -> list[TableState]:
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(_ON_NODES, (_ON_A_NODE.format(schema=quote_literal(names.schema)),))
        counted = {row.pop("name"): row for row in await cursor.fetchall()}
    return [replace(table, **counted.get(table.name, {})) for table in tables]


async def read_functions(connection: psycopg.AsyncConnection[Any], names: Names) -> frozenset[str]:
    """The names of the schema's functions."""
    statement = """
        SELECT p.proname::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = %s
    """
    rows = await (await connection.execute(statement, (names.schema,))).fetchall()
    return frozenset(row[0] for row in rows)


def _state(**values: Any) -> TableState:
    lists = {name: tuple(values[name]) for name in ("columns", "loose_policies", "lacking")}
    return TableState(**{**values, **lists})


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
