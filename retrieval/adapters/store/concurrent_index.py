"""Index builds that let reads and writes go on, and the cleaning up after builds that failed."""

from __future__ import annotations

import sqlalchemy as sa

from retrieval.adapters.store.installed_sql import quote_identifier, verbatim

INVALID_INDEX = """
    SELECT EXISTS (
        SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        WHERE c.relnamespace = to_regnamespace(quote_ident(:schema)) AND c.relname = :name AND NOT i.indisvalid
    )
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


def drop_invalid(connection: sa.Connection, schema: str, name: str) -> bool:
    """Remove the index if a failed build left it invalid; PostgreSQL would maintain it and never use it."""
    found = connection.execute(sa.text(INVALID_INDEX), {"schema": schema, "name": name}).scalar_one()
    if found:
        connection.execute(verbatim(drop_statement(name, schema)))
    return bool(found)
