"""Start-up checks: what a database must have before the platform uses it, and how to mend what is missing."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from retrieval.adapters.store.installation.revisions import status_of
from retrieval.adapters.store.installed_sql import Names, quote_identifier
from retrieval.domain.errors import MissingPrivilegeError, UnsupportedDatabaseError

_log = logging.getLogger(__name__)

OLDEST_POSTGRESQL = 16
OLDEST_PGVECTOR = (0, 8, 0)
SOUND_PGVECTOR = (0, 8, 6)

MAJOR_VERSION = "SELECT current_setting('server_version_num')::int / 10000"

_FACTS = """
    SELECT
        current_setting('server_version_num')::int / 10000 AS postgresql,
        extension.extversion AS pgvector,
        place.nspname AS vector_schema,
        session_user::text AS login,
        -- The catalog, because a name cannot be resolved in a schema that the login may not use.
        EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = %(schema)s AND c.relname = 'alembic_version') AS has_schema,
        coalesce((SELECT CASE WHEN current_setting('server_version_num')::int >= 160000
                              THEN pg_has_role(r.oid, 'SET') ELSE pg_has_role(r.oid, 'MEMBER') END
                  FROM pg_roles r WHERE r.rolname = %(app)s), false) AS may_act,
        current_database() AS database,
        extract(epoch FROM current_setting('statement_timeout')::interval)::float8 AS statement_seconds,
        EXISTS (SELECT FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
                WHERE n.nspname = %(schema)s AND p.proname = 'own_collections') AS is_distributed
    FROM (VALUES (1)) AS one
    LEFT JOIN pg_extension extension ON extension.extname = 'vector'
    LEFT JOIN pg_namespace place ON place.oid = extension.extnamespace
"""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The facts about the server that the start-up checks."""

    postgresql: int
    """Major version."""
    pgvector: str | None
    vector_schema: str | None
    login: str
    has_schema: bool
    may_act: bool
    """Whether the login may take on the application role."""
    database: str
    statement_seconds: float = 0.0
    """How long a statement of the login may take; 0: as long as it does."""
    is_distributed: bool = False
    """Whether the schema's tables lie on the nodes of a cluster."""


async def server_facts(connection: psycopg.AsyncConnection[Any], names: Names) -> ServerFacts:
    """Look at the server."""
    cursor = await connection.execute(_FACTS, {"schema": names.schema, "app": names.app_role})
    row = await cursor.fetchone()
    return ServerFacts(*(row or ()))


def check_encoding(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Raise ``UnsupportedDatabaseError`` for a database that cannot hold every text. It asks the server nothing."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding not in {None, "UTF8"}:
        raise UnsupportedDatabaseError(
            f"database {connection.info.dbname!r} has the encoding {encoding}, and cannot hold every text; make one "
            "such as: CREATE DATABASE retrieval ENCODING 'UTF8' TEMPLATE template0;"
        )


def check_postgresql(major: int) -> None:
    """Raise ``UnsupportedDatabaseError`` for a PostgreSQL that is too old."""
    if major < OLDEST_POSTGRESQL:
        raise UnsupportedDatabaseError(
            f"the server is PostgreSQL {major}; version {OLDEST_POSTGRESQL} or newer is needed; "
            "upgrade the server, or unset RETRIEVAL_DATABASE_URL to use the embedded one"
        )


def check_versions(facts: ServerFacts) -> None:
    """Raise ``UnsupportedDatabaseError`` for a PostgreSQL or pgvector that is too old; warn about a risky pgvector."""
    check_postgresql(facts.postgresql)
    if facts.pgvector is None and not facts.has_schema:
        return  # setting up the schema installs the extension too, or says what is missing
    if facts.pgvector is None:
        raise UnsupportedDatabaseError(
            f"pgvector is not installed in database {facts.database!r}; have a superuser run there: "
            "CREATE EXTENSION vector;"
        )
    version = tuple(int(part) for part in facts.pgvector.split(".")[:3])
    if version < OLDEST_PGVECTOR:
        raise UnsupportedDatabaseError(
            f"pgvector {facts.pgvector} is installed; 0.8.0 or newer is needed (iterative index scans); "
            "install the newer package on the server, then run: ALTER EXTENSION vector UPDATE;"
        )
    if version < SOUND_PGVECTOR:
        _log.warning(
            "pgvector %s is installed; releases before 0.8.6 can corrupt or break HNSW indexes "
            "(parallel builds, vacuum); update it, run ALTER EXTENSION vector UPDATE; and REINDEX the HNSW indexes",
            facts.pgvector,
        )


def check_privileges(facts: ServerFacts, names: Names) -> None:
    """Raise ``MissingPrivilegeError`` with the grant that is missing."""
    app = quote_identifier(names.app_role)
    if not facts.may_act:
        raise MissingPrivilegeError(
            f"login {facts.login!r} may not act as role {names.app_role!r}; "
            f"have the schema's owner run: GRANT {app} TO {quote_identifier(facts.login)};"
        )


async def check_server(connection: psycopg.AsyncConnection[Any], names: Names) -> ServerFacts:
    """All start-up checks, in the order in which they can be mended. Warns or raises; see each."""
    check_encoding(connection)
    facts = await server_facts(connection, names)
    check_versions(facts)
    if not facts.has_schema:
        status_of(names.schema, None).check()
    check_privileges(facts, names)
    status_of(names.schema, await _revision(connection, names)).check()
    return facts


async def _revision(connection: psycopg.AsyncConnection[Any], names: Names) -> str | None:
    """The schema's revision, read as the application role: the login itself may have no right to it."""
    query = sql.SQL("SELECT version_num FROM {}.alembic_version").format(sql.Identifier(names.schema))
    async with connection.transaction():
        await connection.execute("SELECT set_config('role', %s, true)", (names.app_role,))
        row = await (await connection.execute(query)).fetchone()
    return row[0] if row else None
