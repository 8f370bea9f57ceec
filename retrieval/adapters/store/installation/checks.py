"""Start-up checks: the requirements on a database before the platform uses it, including the schema's revision.

Loads no Alembic, so that opening a platform stays quick.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import psycopg

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.installed_sql import Names, build, directory, quote_identifier
from retrieval.adapters.store.translate import URL_SETTING
from retrieval.domain.errors import MissingPrivilegeError, SchemaRevisionError, UnsupportedDatabaseError


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """The schema's revision compared with the revision that this code needs."""

    schema: str
    current: str | None
    """The revision in the database; None before the first upgrade."""
    head: str
    """The revision that this code needs."""
    known: bool
    """Whether this code knows the current revision; if not, the schema is ahead."""
    is_of_this_build: bool = True
    """Whether the schema's last upgrade installed exactly the SQL that this code installs."""

    @property
    def is_current(self) -> bool:
        """Whether the schema is the one that this code needs."""
        return self.current == self.head and self.is_of_this_build

    @property
    def trouble(self) -> tuple[str, str] | None:
        """The difference between the schema and the code, and the remedy; None: there is none."""
        at = f"schema {self.schema!r} is at revision {self.current}"
        if self.is_current:
            return None
        if self.current is None:
            return f"schema {self.schema!r} is not set up in this database", "run: retrieval db upgrade"
        if not self.known:
            return (
                f"{at}, which this version of the program does not know (it needs {self.head})",
                f"install the newer program, or run its: retrieval db downgrade {self.head}",
            )
        if self.current == self.head:
            return (
                f"{at} of another build of this program, which differs from this build's",
                "use that build, or start with another database, RETRIEVAL_HOME or RETRIEVAL_SCHEMA",
            )
        return f"{at} and this program needs {self.head}", "run: retrieval db upgrade"

    def check(self) -> None:
        """Raise ``SchemaRevisionError`` unless the schema is the one that this code needs."""
        if self.trouble is not None:
            raise SchemaRevisionError("; ".join(self.trouble))


@cache
def known_revisions() -> tuple[str, ...]:
    """Every revision of the installation, the newest last: the numbers with which the migrations' files begin."""
    return tuple(
        sorted(path.name.partition("_")[0] for path in (directory("migrations") / "versions").glob("[0-9]*.py"))
    )


STORED_REVISION = "SELECT version_num || coalesce('+' || obj_description(tableoid, 'pg_class'), '') FROM {schema}"
"""Reads the schema's revision with the build that made it, for ``status_of``; see ``migrations/env.py``."""

REVISION = Compiled(STORED_REVISION.format(schema="alembic_version"))
"""The same for a transaction of the platform, which has the schema on its search path."""


def status_of(schema: str, stored: str | None) -> SchemaStatus:
    """Compare the result of ``STORED_REVISION`` (None: no row) with the revision and the build that this code needs."""
    current, _, built_by = (stored or "").partition("+")
    known = known_revisions()
    return SchemaStatus(schema, current or None, known[-1], current in known, built_by == build())


_log = logging.getLogger(__name__)

CREATE_DATABASE = "CREATE DATABASE retrieval ENCODING 'UTF8' LOCALE 'C.UTF-8' TEMPLATE template0;"
"""Makes a database that holds every text and recognises words; a server without an encoding has the locale C too."""

OLDEST_POSTGRESQL = 16
OLDEST_PGVECTOR = "0.8.0"
SOUND_PGVECTOR = "0.8.6"

_FACTS = """
    SELECT
        extension.extversion AS pgvector,
        place.nspname AS vector_schema,
        session_user::text AS login,
        -- The catalog, because a name cannot be resolved in a schema that the login may not use. A table of the
        -- installation, because Alembic's own stays after a downgrade to base.
        EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = %(schema)s AND c.relname = 'term_statistics') AS has_schema,
        -- Of the login, because its connections may start in another role.
        coalesce((SELECT pg_has_role(session_user, r.oid, 'SET') FROM pg_roles r WHERE r.rolname = %(app)s), false)
            AS may_act,
        current_database() AS database,
        extract(epoch FROM current_setting('statement_timeout')::interval)::float8 AS statement_seconds,
        EXISTS (SELECT FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
                WHERE n.nspname = %(schema)s AND p.proname = 'own_collections') AS is_distributed,
        (SELECT jsonb_object_agg(needed.name, current_setting(needed.name))
         FROM unnest(%(needed)s::text[]) AS needed (name)) AS settings,
        ARRAY(SELECT format(
                  'GRANT %%s SCHEMA %%I TO %%s;', lack.what, lack.place, string_agg(quote_ident(r.rolname), ', '))
              FROM pg_roles r CROSS JOIN LATERAL (
                  SELECT 'USAGE ON' AS what, n.nspname AS place FROM pg_namespace n
                  WHERE (n.nspname = %(schema)s OR n.oid = place.oid)
                      AND NOT has_schema_privilege(r.oid, n.oid, 'USAGE')
                  UNION ALL
                  -- One of pgvector's functions, because they are taken from PUBLIC together.
                  SELECT 'EXECUTE ON ALL FUNCTIONS IN', place.nspname FROM pg_proc p
                  WHERE p.pronamespace = place.oid AND p.proname = 'halfvec_negative_inner_product'
                      AND NOT has_function_privilege(r.oid, p.oid, 'EXECUTE')
              ) AS lack
              WHERE r.rolname = ANY (%(roles)s) GROUP BY lack.what, lack.place ORDER BY 1) AS closed,
        -- By the table that is read first: the grants of all tables are lost together.
        NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, pg_roles r
                    WHERE n.nspname = %(schema)s AND c.relname = 'alembic_version' AND r.rolname = %(app)s
                        AND NOT has_table_privilege(r.oid, c.oid, 'SELECT')) AS has_grants
    FROM (VALUES (1)) AS one
    LEFT JOIN pg_extension extension ON extension.extname = 'vector'
    LEFT JOIN pg_namespace place ON place.oid = extension.extnamespace
"""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The facts about the server that the start-up checks need."""

    pgvector: str | None
    vector_schema: str | None
    login: str
    has_schema: bool
    may_act: bool
    """Whether the login may switch to the application role."""
    database: str
    statement_seconds: float = 0.0
    """The login's statement timeout; 0: none."""
    is_distributed: bool = False
    """Whether the schema's tables lie on the nodes of a cluster."""
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The login's values of the settings that have to have certain values."""
    closed: Sequence[str] = ()
    """The grants that the installation's roles lack, to use its schema and pgvector's with its functions."""
    has_grants: bool = True
    """Whether the application role has its grants on the schema's tables."""


class _NeededSetting(NamedTuple):
    """A setting with which statements find or do what they should."""

    name: str
    good: tuple[str, ...]
    """The values that it may have; the first one is advised."""
    otherwise: str
    """What would happen with any other value."""


_NEEDED = (
    _NeededSetting("default_transaction_isolation", ("read committed",), "simultaneous writes would fail"),
    _NeededSetting("quote_all_identifiers", ("off",), "the names that the platform compares would be in quotes"),
    _NeededSetting("row_security", ("on",), "no statement could read a tenant's rows"),
    _NeededSetting("gin_fuzzy_search_limit", ("0",), "searches would leave out items at random"),
    _NeededSetting("extra_float_digits", ("1", "2", "3"), "numbers would be rounded, and scores with them"),
)


async def server_facts(connection: psycopg.AsyncConnection[Any], names: Names) -> ServerFacts:
    """Read the facts about the server."""
    needed = [setting.name for setting in _NEEDED]
    roles = [names.app_role, names.definer_role, names.analyst_role]
    values = {"schema": names.schema, "app": names.app_role, "roles": roles, "needed": needed}
    cursor = await connection.execute(_FACTS, values)
    row = await cursor.fetchone()
    return ServerFacts(*(row or ()))


def check_session(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Check what the server reports of itself at login, without a query.

    Raises ``UnsupportedDatabaseError`` for a PostgreSQL that is too old, a database that cannot hold every text, and a
    login that gets dates as texts that the driver cannot read, or whose texts in SQL have other backslashes.
    """
    info = connection.info
    if (major := info.server_version // 10000) < OLDEST_POSTGRESQL:
        raise UnsupportedDatabaseError(
            f"the server is PostgreSQL {major}, and {OLDEST_POSTGRESQL} or newer is needed; "
            f"upgrade the server, or use the embedded one, without {URL_SETTING}"
        )
    encoding, style = info.parameter_status("server_encoding"), info.parameter_status("DateStyle")
    if encoding not in {None, "UTF8"}:
        raise UnsupportedDatabaseError(
            f"database {info.dbname!r} has the encoding {encoding}, and cannot hold every text; make one such as: "
            + CREATE_DATABASE
        )
    if style is not None and not style.startswith("ISO"):
        raise UnsupportedDatabaseError(
            f"login {info.user!r} gets dates in the style {style!r}, and ISO is needed; "
            + _setting(info.user, "DateStyle", "ISO")
        )
    if info.parameter_status("standard_conforming_strings") == "off":
        raise UnsupportedDatabaseError(
            f"login {info.user!r} has standard_conforming_strings off, and a backslash in SQL has another meaning; "
            + _setting(info.user, "standard_conforming_strings", "on")
        )


def _setting(login: str, name: str, value: str) -> str:
    """The statement that gives the login's next connections the value; it wins over the database's and the server's."""
    return (
        f"run: ALTER ROLE {quote_identifier(login)} SET {name} = '{value}'; -- and take it out of PGOPTIONS, if it is "
        "there"
    )


def check_login(facts: ServerFacts, names: Names) -> None:
    """Check the rights of the login and of the roles, and that no setting of the login changes what statements find.

    Raises ``MissingPrivilegeError`` with the grant that is missing, and ``UnsupportedDatabaseError``.
    """
    for name, good, otherwise in _NEEDED:
        if (value := facts.settings.get(name, good[0])) not in good:
            raise UnsupportedDatabaseError(
                f"login {facts.login!r} has {name} = {value!r}, and {otherwise}; "
                + _setting(facts.login, name, good[0])
            )
    if not facts.may_act:
        app, login = quote_identifier(names.app_role), quote_identifier(facts.login)
        raise MissingPrivilegeError(
            f"login {facts.login!r} may not act as role {names.app_role!r}; "
            f"have the schema's owner run: GRANT {app} TO {login} WITH SET TRUE;"
        )
    if facts.has_schema and not facts.has_grants:
        raise MissingPrivilegeError(
            f"role {names.app_role!r} lacks its grants on the tables of schema {names.schema!r}, as after a restore "
            "with --no-privileges; restore the dump again, into an empty database, with neither --no-privileges nor "
            "--no-owner"
        )
    if facts.has_schema and facts.closed:
        raise MissingPrivilegeError(
            f"the roles of schema {names.schema!r} may not use all that they need of it and of pgvector's; "
            f"have a superuser run: {' '.join(facts.closed)}"
        )


def check_extension(facts: ServerFacts) -> None:
    """Raise ``UnsupportedDatabaseError`` for a pgvector that is missing or too old."""
    if facts.pgvector is not None:
        check_pgvector(facts.pgvector)
    elif facts.has_schema:  # otherwise setting up the schema installs the extension, or names what is missing
        raise UnsupportedDatabaseError(
            f"pgvector is not installed in database {facts.database!r}; have a superuser run there: "
            "CREATE EXTENSION vector;"
        )


def check_pgvector(installed: str) -> None:
    """Raise ``UnsupportedDatabaseError`` for a pgvector that is too old."""
    if version(installed) < version(OLDEST_PGVECTOR):
        raise UnsupportedDatabaseError(
            f"pgvector {installed} is installed, and {OLDEST_PGVECTOR} or newer is needed (iterative index scans); "
            "install the newer package on the server, then run: ALTER EXTENSION vector UPDATE;"
        )


def pgvector_defect(installed: str | None) -> tuple[str, str] | None:
    """The known defect of that pgvector, and the remedy; None: there is none."""
    if installed is None or version(installed) >= version(SOUND_PGVECTOR):
        return None
    found = f"pgvector {installed} can corrupt or break HNSW indexes (parallel builds, vacuum)"
    return found, (
        f"install {SOUND_PGVECTOR} or newer on the server, run: ALTER EXTENSION vector UPDATE; and then: "
        "retrieval reindex COLLECTION"
    )


def version(text: str) -> tuple[int, ...]:
    """The leading numbers of a release: ``0.8.6`` is ``(0, 8, 6)``, ``1.0-dev`` is ``(1, 0)``."""
    numbers = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, numbers[0].split("."))) if numbers else ()


async def check_server(connection: psycopg.AsyncConnection[Any], names: Names) -> ServerFacts:
    """Run all start-up checks, in the order in which problems can be solved; a pgvector with a defect is logged.

    Raises ``UnsupportedDatabaseError``, ``SchemaRevisionError`` and ``MissingPrivilegeError``.
    """
    check_session(connection)
    facts = await server_facts(connection, names)
    check_extension(facts)
    if defect := pgvector_defect(facts.pgvector):
        _log.warning("%s; %s", *defect)
    if not facts.has_schema:
        status_of(names.schema, None).check()
    check_login(facts, names)
    status_of(names.schema, await stored_revision(connection, names)).check()
    return facts


async def stored_revision(connection: psycopg.AsyncConnection[Any], names: Names) -> str | None:
    """The schema's revision, read as the application role, because the login itself may lack the right."""
    query = STORED_REVISION.format(schema=f"{quote_identifier(names.schema)}.alembic_version").encode()
    async with connection.transaction():
        await connection.execute("SELECT set_config('role', %s, true)", (names.app_role,))
        row = await (await connection.execute(query)).fetchone()
    return row[0] if row else None
