"""One connection that acts as a tenant, without the pool and all that it loads: for who must be done at once.

Statements are sent together, in one round trip and one implicit transaction, as ``database`` does. For a shell that
completes what is typed it reads the names that stand in a database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from retrieval.adapters.store.installation.revisions import newest_revision, status_of
from retrieval.adapters.store.installed_sql import Names, quote_identifier
from retrieval.domain.errors import RetrievalError

if TYPE_CHECKING:
    import psycopg


Row = tuple[Any, ...]
Statement = tuple[str, Mapping[str, Any]]

_SET_UP = """
    SELECT set_config('role', %(role)s, true), set_config('statement_timeout', %(milliseconds)s, true),
           set_config('search_path', %(schema)s || ', ' || coalesce((
               SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
               WHERE e.extname = 'vector'), 'public') || ', pg_temp', true)
"""
_TENANT = "SELECT set_config('retrieval.tenant', ensure_tenant(%(tenant)s)::text, true)::bigint"
_REVISION = "SELECT version_num FROM alembic_version"


@dataclass(frozen=True, slots=True)
class DirectConnection:
    """An open connection to one installation, for one tenant."""

    url: str
    names: Names
    tenant: str
    connection: psycopg.Connection[Row]

    def run(self, statements: Sequence[Statement], *, seconds: float) -> list[list[Row]]:
        """Each statement's rows, as the tenant. Each may take so many seconds.

        Raises ``SchemaRevisionError`` for a schema that is behind or ahead, and the other errors of ``DatabaseError``.
        """
        import psycopg

        try:
            return self._run(statements, seconds)
        except (psycopg.errors.InvalidParameterValue, psycopg.errors.UndefinedObject, psycopg.ProgrammingError) as one:
            # Without its role, its functions or its tables the installation is not there, or not of this revision.
            if not isinstance(one, psycopg.errors.InsufficientPrivilege):
                self._check_revision()
            raise explained(one, self.url) from one
        except psycopg.Error as error:
            raise explained(error, self.url) from error

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def _run(self, statements: Sequence[Statement], seconds: float) -> list[list[Row]]:
        with self.connection.pipeline():
            asked = [self._sent(text, values) for text, values in (*self._set_up(seconds), *statements)]
            rows = [one.fetchall() for one in asked]
        check_revision(self.names.schema, rows[2][0][0] if rows[2] else None)
        return rows[3:]

    def _sent(self, text: str, values: Mapping[str, Any]) -> psycopg.Cursor[Row]:
        return self.connection.execute(text, values)

    def _set_up(self, seconds: float) -> tuple[Statement, ...]:
        role = {"role": self.names.app_role, "schema": quote_identifier(self.names.schema)}
        return (
            (_SET_UP, {**role, "milliseconds": str(max(1, round(1000 * seconds)))}),
            (_TENANT, {"tenant": self.tenant}),
            (_REVISION, {}),
        )

    def _check_revision(self) -> None:
        """Look at the revision by itself, as the login: the statements could not run."""
        import psycopg
        from psycopg import sql

        query = sql.SQL("SELECT version_num FROM {}.alembic_version").format(sql.Identifier(self.names.schema))
        try:
            row = self.connection.execute(query).fetchone()
        except psycopg.Error:
            row = None
        check_revision(self.names.schema, None if row is None else row[0])


def connected(url: str, names: Names, tenant: str, *, seconds: float) -> DirectConnection:
    """A connection to the server of that URL, made within so many seconds. Raises ``DatabaseUnreachableError``."""
    import psycopg

    try:
        # libpq counts whole seconds, and at least two.
        connection = psycopg.connect(
            url, autocommit=True, prepare_threshold=None, connect_timeout=max(2, round(seconds))
        )
    except psycopg.Error as error:
        raise explained(error, url) from error
    return DirectConnection(url, names, tenant, connection)


def check_revision(schema: str, current: str | None) -> None:
    """Raise ``SchemaRevisionError`` unless the schema is at the revision that this code needs."""
    if current != newest_revision():
        status_of(schema, current).check()


def explained(error: Exception, url: str) -> RetrievalError:
    """The driver's error as the platform's own; what tells them apart is loaded for that alone."""
    from retrieval.adapters.store.translate import translated

    try:
        with translated(url):
            raise error
    except RetrievalError as said:
        return said


KnownNames = list[tuple[str, str]]
"""Each with a line about it."""

_MOST = 200

_COLLECTIONS = """
    SELECT c.name, (coalesce(t.documents, 0) + coalesce((
        SELECT sum(w.documents) FROM statistics_changes w WHERE w.collection_id = c.collection_id
    ), 0))::bigint || ' items'
    FROM collections c LEFT JOIN collection_statistics t ON t.collection_id = c.collection_id
    WHERE c.tenant_id = current_setting('retrieval.tenant')::bigint AND starts_with(c.name, %(begin)s)
    ORDER BY c.name LIMIT %(most)s
"""
_VIEWS = """
    SELECT substr(found.name, 11), found.about
    FROM (
        SELECT c.relname::text AS name, coalesce(obj_description(c.oid, 'pg_class'), '') AS about
        FROM pg_class c WHERE c.relkind = 'v' AND c.relnamespace = current_schema()::regnamespace
        UNION ALL
        SELECT p.proname::text, coalesce(obj_description(p.oid, 'pg_proc'), '')
        FROM pg_proc p WHERE p.pronamespace = current_schema()::regnamespace
    ) AS found
    WHERE found.name ~ '^analytics_[a-z_]+$' AND starts_with(found.name, 'analytics_' || %(begin)s)
    ORDER BY found.name LIMIT %(most)s
"""
_PROFILES = """
    SELECT p.version::text, p.note FROM profiles p JOIN collections c ON c.collection_id = p.collection_id
    WHERE c.tenant_id = current_setting('retrieval.tenant')::bigint AND c.name = %(collection)s
        AND starts_with(p.version::text, %(begin)s)
    ORDER BY p.version DESC LIMIT %(most)s
"""


def collection_names(connection: DirectConnection, begin: str, *, seconds: float) -> KnownNames:
    """The tenant's collections whose name begins so, with their size."""
    return _read(connection, _COLLECTIONS, {"begin": begin}, seconds)


def view_names(connection: DirectConnection, begin: str, *, seconds: float) -> KnownNames:
    """The views of figures, with what each shows."""
    return _read(connection, _VIEWS, {"begin": begin}, seconds)


def profile_versions(connection: DirectConnection, collection: str, begin: str, *, seconds: float) -> KnownNames:
    """The versions of a collection's profile, the newest first, with what was noted of each."""
    return _read(connection, _PROFILES, {"begin": begin, "collection": collection}, seconds)


def _read(connection: DirectConnection, statement: str, values: Mapping[str, Any], seconds: float) -> KnownNames:
    rows = connection.run([(statement, {**values, "most": _MOST})], seconds=seconds)[0]
    return [(str(name), str(about)) for name, about in rows]
