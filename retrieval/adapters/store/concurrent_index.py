"""Index builds that let reads and writes go on, and the cleaning up after builds that failed."""

from __future__ import annotations

import logging

import sqlalchemy as sa

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Connection, Database
from retrieval.adapters.store.installed_sql import quote_identifier, verbatim

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

INVALID_INDEX = """
    SELECT EXISTS (
        SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        WHERE c.relnamespace = to_regnamespace(quote_ident(:schema)) AND c.relname = :name AND NOT i.indisvalid
    )
"""

PARTS_WITHOUT = """
    SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = (quote_ident(:schema) || '.' || quote_ident(:table))::regclass AND NOT EXISTS (
        SELECT FROM pg_inherits p JOIN pg_index x ON x.indexrelid = p.inhrelid
        WHERE p.inhparent = (quote_ident(:schema) || '.' || quote_ident(:name))::regclass AND x.indrelid = c.oid
    )
    ORDER BY 1
"""


def build_statement(name: str, schema: str, table: str, definition: str) -> str:
    """The statement that builds an index concurrently, if it is missing. It must run outside a transaction."""
    on = f"{quote_identifier(schema)}.{quote_identifier(table)}"
    return f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {quote_identifier(name)} ON {on} {definition}"


def parent_statement(name: str, schema: str, table: str, definition: str) -> str:
    """The statement that makes a parted table's index, if it is missing; invalid until every part's is attached.

    It takes no time. A parted table's own index cannot be built concurrently, but those of its parts can.
    """
    on = f"{quote_identifier(schema)}.{quote_identifier(table)}"
    return f"CREATE INDEX IF NOT EXISTS {quote_identifier(name)} ON ONLY {on} {definition}"


def attach_statement(name: str, schema: str, part_name: str) -> str:
    """The statement that makes the index of a part, ``part_name``, a part of the parted table's index."""
    of = f"{quote_identifier(schema)}.{quote_identifier(part_name)}"
    return f"ALTER INDEX {quote_identifier(schema)}.{quote_identifier(name)} ATTACH PARTITION {of}"


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


def drop_invalid(connection: sa.Connection, schema: str, name: str) -> bool:
    """Remove the index if a failed build left it invalid; PostgreSQL would maintain it and never use it."""
    found = connection.execute(sa.text(INVALID_INDEX), {"schema": schema, "name": name}).scalar_one()
    if found:
        connection.execute(verbatim(drop_statement(name, schema)))
    return bool(found)


def parts_without(connection: sa.Connection, schema: str, table: str, name: str) -> list[str]:
    """The parts of a parted table that have no part of its index ``name``, by name."""
    values = {"schema": schema, "table": table, "name": name}
    return list(connection.execute(sa.text(PARTS_WITHOUT), values).scalars())
