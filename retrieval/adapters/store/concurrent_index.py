"""Index builds that let reads and writes go on, and the cleaning up after builds that failed."""

from __future__ import annotations

import logging

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Connection, Database
from retrieval.adapters.store.installed_sql import quote_identifier

_log = logging.getLogger(__name__)

_FAILED = """
    SELECT c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %(schema)s AND starts_with(c.relname::text, %(name)s)
        AND substr(c.relname::text, length(%(name)s) + 1) ~ '^(_cc(new|old)[0-9]*)?$'
        AND NOT (i.indisvalid AND i.indisready AND i.indislive)
        AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid)
    ORDER BY c.relname
"""


def build_statement(name: str, schema: str, table: str, definition: str) -> str:
    """The statement that builds an index concurrently, if it is missing. It must run outside a transaction."""
    on = f"{quote_identifier(schema)}.{quote_identifier(table)}"
    return f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {quote_identifier(name)} ON {on} {definition}"


def rebuild_statement(name: str, schema: str) -> str:
    """The statement that builds an index anew beside the old one. It must run outside a transaction."""
    return f"REINDEX INDEX CONCURRENTLY {quote_identifier(schema)}.{quote_identifier(name)}"


def drop_statement(name: str, schema: str) -> str:
    """The statement that drops an index concurrently. It must run outside a transaction."""
    return f"DROP INDEX CONCURRENTLY IF EXISTS {quote_identifier(schema)}.{quote_identifier(name)}"


async def failed_builds(database: Database, name: str) -> list[str]:
    """The invalid indexes that interrupted builds and rebuilds of the index ``name`` left, itself among them.

    A rebuild goes on beside the index, as ``..._ccnew``, and has the old one as ``..._ccold`` at its end.
    """
    rows = await database.read(None, Compiled(_FAILED, {"schema": database.names.schema, "name": name}))
    return [row[0] for row in rows]


async def drop_failed_builds(connection: Connection, schema: str, name: str) -> None:
    """Drop them concurrently, outside a transaction; PostgreSQL would maintain them and never use them."""
    cursor = await connection.execute(_FAILED, {"schema": schema, "name": name})
    for (failed,) in await cursor.fetchall():
        await connection.execute(drop_statement(failed, schema).encode())
        _log.warning("index %s was dropped: an interrupted build had left it", failed)
