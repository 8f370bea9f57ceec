"""The installation's indexes, as the catalog has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import class_row

from retrieval.adapters.store.installed_sql import Names


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexState:
    """One index."""

    name: str
    table: str
    method: str
    """``btree``, ``hnsw``, ``gin``, ..."""
    is_valid: bool
    """Whether searches may use it and writers keep it."""
    is_being_built: bool
    is_constraint: bool
    """Whether it stands for a primary key or a unique constraint."""
    bytes: int


_INDEXES = """
    SELECT
        k.relname::text AS name,
        t.relname::text AS table,
        m.amname::text AS method,
        i.indisvalid AND i.indisready AND i.indislive AS is_valid,
        EXISTS (SELECT FROM pg_stat_progress_create_index p
                WHERE p.index_relid = i.indexrelid OR (p.relid = i.indrelid AND p.index_relid = 0)) AS is_being_built,
        EXISTS (SELECT FROM pg_constraint o WHERE o.conindid = i.indexrelid) AS is_constraint,
        CASE WHEN k.relkind = 'i' THEN pg_relation_size(k.oid) ELSE 0 END AS bytes
    FROM pg_index i
    JOIN pg_class k ON k.oid = i.indexrelid
    JOIN pg_class t ON t.oid = i.indrelid
    JOIN pg_am m ON m.oid = k.relam
    JOIN pg_namespace n ON n.oid = k.relnamespace
    WHERE n.nspname = %(schema)s
    ORDER BY k.relname
"""


async def read_indexes(connection: psycopg.AsyncConnection[Any], names: Names) -> list[IndexState]:
    """The indexes of the schema, by name."""
    async with connection.cursor(row_factory=class_row(IndexState)) as cursor:
        await cursor.execute(_INDEXES, {"schema": names.schema})
        return await cursor.fetchall()
