"""Alembic's environment: how a migration runs.

Each revision runs in a transaction of its own that sets its search path and its timeouts, and nothing stays set on the
connection afterwards, so that it works through a pooler too.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context
from alembic.runtime.migration import MigrationContext, MigrationInfo

from retrieval.adapters.store.installed_sql import Names, build, quote_identifier, verbatim

LOCK_TIMEOUT = "5s"
STATEMENT_TIMEOUT = "10min"

FIND_VECTOR_SCHEMA = """
    SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'
"""

FIND_CITUS = "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')"


def setup_statements(names: Names, vector_schema: str, scope: str = "LOCAL") -> list[sa.TextClause]:
    """Give the first statements of every migration's transaction; or, for the ``SESSION``, those of a script."""
    path = ", ".join(map(quote_identifier, dict.fromkeys([names.schema, vector_schema])))
    return [
        verbatim(f"SET {scope} search_path = {path}, pg_temp"),
        verbatim(f"SET {scope} lock_timeout = '{LOCK_TIMEOUT}'"),
        verbatim(f"SET {scope} statement_timeout = '{STATEMENT_TIMEOUT}'"),
    ]


def mark_build(*, ctx: MigrationContext, step: MigrationInfo, **_: object) -> None:
    """Store the build beside the revision: until a release, two builds may install other SQL at one revision."""
    if step.is_upgrade:
        table = f"{quote_identifier(context.config.attributes['names'].schema)}.alembic_version"
        ctx.execute(verbatim(f"COMMENT ON TABLE {table} IS '{build()}'"))


def run_online(connection: sa.Connection, names: Names) -> None:
    """Run on a live connection."""
    vector_schema = connection.execute(sa.text(FIND_VECTOR_SCHEMA)).scalar_one()
    has_citus = connection.execute(sa.text(FIND_CITUS)).scalar_one()
    connection.rollback()
    statements = setup_statements(names, vector_schema)
    if has_citus:
        # The schema is made here alone; "retrieval db distribute" brings it to the other nodes.
        statements.append(verbatim("SET LOCAL citus.enable_ddl_propagation = off"))

    @sa.event.listens_for(connection, "begin")
    def set_up(begun: sa.Connection) -> None:
        if begun.get_isolation_level() != "AUTOCOMMIT":
            for statement in statements:
                begun.execute(statement)

    context.configure(
        connection=connection,
        version_table_schema=names.schema,
        transaction_per_migration=True,
        on_version_apply=mark_build,
    )
    with context.begin_transaction():
        context.run_migrations()


def run_offline(names: Names, vector_schema: str) -> None:
    """Print the SQL instead of running it."""
    context.configure(
        dialect_name="postgresql",
        # Any other style of parameters would double the percent signs.
        dialect_opts={"paramstyle": "named"},
        version_table_schema=names.schema,
        literal_binds=True,
        transaction_per_migration=False,
        on_version_apply=mark_build,
    )
    with context.begin_transaction():
        # A script leaves its transaction for concurrent builds and enters another one after them.
        for statement in setup_statements(names, vector_schema, "SESSION"):
            context.execute(statement)
        context.run_migrations()


attributes = context.config.attributes
if context.is_offline_mode():
    run_offline(attributes["names"], attributes["vector_schema"])
else:
    run_online(attributes["connection"], attributes["names"])
