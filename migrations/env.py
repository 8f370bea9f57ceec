"""Alembic's environment: how a migration runs.

Each revision runs in a transaction of its own that sets its search path and its timeouts, and nothing stays set on the
connection afterwards, so that it works through a pooler too.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context

from retrieval.adapters.store.installed_sql import Names, quote_identifier
from retrieval.adapters.store.tables import metadata

LOCK_TIMEOUT = "5s"
STATEMENT_TIMEOUT = "10min"

FIND_VECTOR_SCHEMA = """
    SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'
"""


def include_name(name: str | None, kind: str, parents: object) -> bool:
    """Leave out what the platform makes while it runs: the embedding spaces' tables."""
    return not (kind == "table" and (name or "").startswith("embeddings_"))


def setup_statements(names: Names, vector_schema: str) -> list[str]:
    """What every migration's transaction starts with."""
    path = ", ".join(map(quote_identifier, dict.fromkeys([names.schema, vector_schema])))
    return [
        f"SET LOCAL search_path = {path}, pg_temp",
        f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'",
        f"SET LOCAL statement_timeout = '{STATEMENT_TIMEOUT}'",
    ]


def run_online(connection: sa.Connection, names: Names) -> None:
    """Run on a live connection."""
    vector_schema = connection.execute(sa.text(FIND_VECTOR_SCHEMA)).scalar_one()
    connection.rollback()
    statements = setup_statements(names, vector_schema)

    @sa.event.listens_for(connection, "begin")
    def set_up(begun: sa.Connection) -> None:
        if begun.get_isolation_level() != "AUTOCOMMIT":
            for statement in statements:
                begun.exec_driver_sql(statement)

    context.configure(
        connection=connection,
        target_metadata=metadata,
        version_table_schema=names.schema,
        transaction_per_migration=True,
        include_name=include_name,
    )
    with context.begin_transaction():
        context.run_migrations()


def run_offline(names: Names, vector_schema: str) -> None:
    """Print the SQL instead of running it."""
    context.configure(
        dialect_name="postgresql",
        version_table_schema=names.schema,
        literal_binds=True,
        transaction_per_migration=False,
    )
    with context.begin_transaction():
        for statement in setup_statements(names, vector_schema):
            context.execute(statement)
        context.run_migrations()


attributes = context.config.attributes
if context.is_offline_mode():
    run_offline(attributes["names"], attributes["vector_schema"])
else:
    run_online(attributes["connection"], attributes["names"])
