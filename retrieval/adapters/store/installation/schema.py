"""Upgrade and downgrade the schema, read its status, and write the upgrade as SQL for a DBA.

Loads Alembic: import it only to change a schema, not to open a platform.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy.exc import DBAPIError

from retrieval.adapters.store.deadline import WITHOUT_LIMITS
from retrieval.adapters.store.installation import checks
from retrieval.adapters.store.installed_sql import Names, directory, installed_sql, quote_identifier, verbatim
from retrieval.adapters.store.round_trip import CONNECTION
from retrieval.adapters.store.translate import translated
from retrieval.domain.errors import DatabaseError, MissingPrivilegeError, SchemaRevisionError, UnsupportedDatabaseError

UPGRADE_WAIT_SECONDS = 120.0
"""The time that an upgrade waits for another one to finish."""


def status(url: str, schema: str) -> checks.SchemaStatus:
    """Read the schema's status. Raises ``UnsupportedDatabaseError`` for a server that is too old."""
    with _connection(url) as connection:
        return _status(connection, schema)


def upgrade(url: str, schema: str, revision: str = "head", *, wait_seconds: float = UPGRADE_WAIT_SECONDS) -> None:
    """Upgrade the schema to a revision. Only one upgrade runs at a time; others wait for it.

    Raises ``UnsupportedDatabaseError`` for a server or a pgvector that is too old, ``MissingPrivilegeError`` if the
    role lacks a right, ``SchemaRevisionError`` for a schema that is ahead or of another build, or an unknown revision,
    and ``DatabaseError`` if it could not get the lock.
    """
    with _connection(url) as connection, _only_one(url, schema, wait_seconds):
        _make_extension(connection)
        _make_schema(connection, schema)
        status = _refuse_if_ahead(connection, schema)
        if status.current == status.head:
            status.check()  # raises for another build's schema, for which no step is left
        with _revision_errors(revision):
            command.upgrade(_config(connection, schema), revision)


def downgrade(url: str, schema: str, revision: str = "-1") -> None:
    """Downgrade the schema to a revision; ``base`` removes every table with its rows.

    Does nothing if the schema is not set up.
    """
    with _connection(url) as connection, _only_one(url, schema, UPGRADE_WAIT_SECONDS):
        if _refuse_if_ahead(connection, schema).current is None:
            return
        with _revision_errors(revision):
            command.downgrade(_config(connection, schema), revision)


def check_revision(schema: str, revision: str) -> None:
    """Raise ``SchemaRevisionError`` for a revision that does not exist; a number of steps, such as -1, passes."""
    with _revision_errors(revision):
        if not revision.startswith(("-", "+")):
            ScriptDirectory.from_config(_config(None, schema)).get_revisions(revision)


def upgrade_sql(schema: str) -> str:
    """The whole upgrade as SQL text, for a DBA to read and run."""
    output = io.StringIO()
    config = _config(None, schema, vector_schema="public")
    config.output_buffer = output
    command.upgrade(config, "head", sql=True)
    return (
        "-- Run as a role that may create roles and extensions, with psql's ON_ERROR_STOP set.\n"
        f"CREATE SCHEMA IF NOT EXISTS {quote_identifier(schema)};\n"
        f"{_own_schema(schema)}\n"
        "CREATE EXTENSION IF NOT EXISTS vector;\n" + output.getvalue()
    )


def _config(connection: sa.Connection | None, schema: str, **attributes: object) -> Config:
    config = Config()
    config.set_main_option("script_location", str(directory("migrations")).replace("%", "%%"))
    config.attributes.update(connection=connection, names=Names(schema), **attributes)
    return config


@contextmanager
def _connection(url: str) -> Iterator[sa.Connection]:
    # The driver reads the URL itself: SQLAlchemy refuses one with several hosts.
    engine = sa.create_engine(
        "postgresql+psycopg://", poolclass=sa.NullPool, creator=lambda: psycopg.connect(url, **CONNECTION)
    )
    # First, because in another encoding the engine could not even read the server's version.
    sa.event.listen(engine, "connect", lambda raw, _record: checks.check_session(raw), insert=True)
    try:
        with translated(url), engine.connect() as connection:
            yield connection
    except DBAPIError as error:
        with translated(url):
            raise (error.orig or error) from error
    finally:
        engine.dispose()


@contextmanager
def _only_one(url: str, schema: str, wait_seconds: float) -> Iterator[None]:
    """Hold the installation's advisory lock in a separate transaction, so that it works through a pooler too."""
    take = sa.text("SELECT pg_try_advisory_xact_lock(hashtextextended('retrieval schema ' || :schema, 0))")
    deadline = time.monotonic() + wait_seconds
    with _connection(url) as holder:
        while not holder.execute(take, {"schema": schema}).scalar_one():
            holder.rollback()
            if time.monotonic() > deadline:
                raise DatabaseError(
                    f"another upgrade of schema {schema!r} has been running for {wait_seconds:g} s; "
                    "wait for it, or end its session (pg_stat_activity shows it)"
                )
            time.sleep(0.1)
        # The holder sits idle, so it must not time out. The empty statement releases the query's snapshot, for which a
        # concurrent index build would wait forever.
        holder.execute(verbatim(WITHOUT_LIMITS.format(is_local="true")))
        holder.execute(verbatim("SELECT"))
        yield


def _make_schema(connection: sa.Connection, schema: str) -> None:
    exists = connection.execute(sa.text("SELECT to_regnamespace(quote_ident(:name)) IS NOT NULL"), {"name": schema})
    if not exists.scalar_one():
        connection.execute(sa.schema.CreateSchema(schema))
    connection.execute(verbatim(_own_schema(schema)))
    connection.commit()


def _own_schema(schema: str) -> str:
    """The SQL that refuses a schema in which no installation belongs."""
    return installed_sql("installation/own_schema", Names(schema))


def _make_extension(connection: sa.Connection) -> None:
    """Install pgvector unless it is installed. Raises ``UnsupportedDatabaseError`` if it is missing or too old."""
    version = sa.text("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    if (installed := connection.execute(version).scalar()) is None:
        try:
            connection.execute(sa.text("CREATE EXTENSION vector"))
        except DBAPIError as error:
            reason = str(error.orig).splitlines()[0]
            if isinstance(error.orig, psycopg.errors.InsufficientPrivilege):
                raise MissingPrivilegeError(
                    "pgvector is not installed in this database and this role may not install it; "
                    f"have a superuser run: CREATE EXTENSION vector; ({reason})"
                ) from error
            if isinstance(error.orig, psycopg.errors.ReadOnlySqlTransaction):
                raise  # it has its own advice
            is_missing = isinstance(error.orig, (psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile))
            advice = (
                "install its package on the server" if is_missing else "run: CREATE EXTENSION vector SCHEMA public;"
            )
            raise UnsupportedDatabaseError(
                f"pgvector cannot be installed in this database ({reason}); {advice}"
            ) from error
        installed = connection.execute(version).scalar_one()
    checks.check_pgvector(installed)
    connection.commit()


def _refuse_if_ahead(connection: sa.Connection, schema: str) -> checks.SchemaStatus:
    status = _status(connection, schema)
    if status.current is not None and not status.known:
        status.check()
    return status


def _status(connection: sa.Connection, schema: str) -> checks.SchemaStatus:
    table = f"{quote_identifier(schema)}.alembic_version"
    is_there = connection.execute(sa.text("SELECT to_regclass(:table) IS NOT NULL"), {"table": table}).scalar_one()
    stored = connection.execute(verbatim(checks.STORED_REVISION.format(schema=table))).scalar() if is_there else None
    connection.rollback()
    return checks.status_of(schema, stored)


@contextmanager
def _revision_errors(revision: str) -> Iterator[None]:
    """Translate Alembic's errors, which are about the requested revision."""
    choices = f"there are base, {', '.join(checks.known_revisions())} and head"
    if not revision:  # Alembic does not expect it
        raise SchemaRevisionError(f"the revision is an empty text; {choices}")
    try:
        yield
    except CommandError as error:
        raise SchemaRevisionError(f"cannot go to revision {revision!r}: {error}; {choices}") from error
