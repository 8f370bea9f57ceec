"""Logins that read one tenant's figures and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from psycopg import sql

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Connection, Database
from retrieval.adapters.store.installed_sql import Names
from retrieval.domain.errors import InvalidRequestError, NotFoundError

_LOGIN = """
    SELECT r.rolsuper OR r.rolbypassrls,
        EXISTS (
            SELECT FROM pg_roles AS other
            WHERE other.rolname = ANY(%(others)s) AND pg_has_role(r.oid, other.oid, 'MEMBER')
        )
    FROM pg_roles AS r WHERE r.rolname = %(login)s
"""
_ANALYSTS = Compiled("SELECT login, added_at FROM analyst_logins WHERE tenant_id = %(tenant)s ORDER BY login")


@dataclass(frozen=True, slots=True)
class Analyst:
    """A login that sees a tenant."""

    login: str
    added_at: datetime


def adding(names: Names, tenant_id: int, login: str) -> list[str]:
    """The statements that make a login an analyst of a tenant."""
    return _texts(
        names,
        login,
        tenant_id,
        "INSERT INTO {schema}.analyst_logins (login, tenant_id) VALUES ({name}, {tenant})",
        "GRANT {role} TO {login} WITH INHERIT TRUE",
    )


def removing(names: Names, tenant_id: int, login: str) -> list[str]:
    """The statements that take that away; the login stays."""
    return _texts(
        names,
        login,
        tenant_id,
        "DELETE FROM {schema}.analyst_logins WHERE login = {name} AND tenant_id = {tenant}",
        "REVOKE {role} FROM {login}",
    )


async def add_analyst(database: Database, tenant_id: int, login: str) -> None:
    """Let the login see the tenant. The platform's own login must be allowed to: the one that set up the schema is.

    Raises ``NotFoundError`` for a login that does not exist, ``InvalidRequestError`` for one that sees more
    than a tenant or is another tenant's analyst, and ``MissingPrivilegeError``.
    """
    async with database.maintenance() as connection, connection.transaction():
        await _check(connection, database.names, tenant_id, login)
        table = sql.Identifier(database.names.schema, "analyst_logins")
        await connection.execute(sql.SQL("DELETE FROM {} WHERE login = %s").format(table), (login,))
        for statement in adding(database.names, tenant_id, login):
            await connection.execute(statement.encode())


async def remove_analyst(database: Database, tenant_id: int, login: str) -> None:
    """Let the login see nothing any more. Raises ``NotFoundError`` if it is none of the tenant's analysts."""
    if login not in [one.login for one in await analysts(database, tenant_id)]:
        raise NotFoundError(f"{login!r} is no analyst of this tenant; see: retrieval analysts list")
    async with database.maintenance() as connection, connection.transaction():
        exists = await connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (login,))
        statements = removing(database.names, tenant_id, login)
        for statement in statements if exists.rowcount else statements[:1]:
            await connection.execute(statement.encode())


async def analysts(database: Database, tenant_id: int) -> list[Analyst]:
    """The tenant's analysts, by login."""
    return [Analyst(*row) for row in await database.read(tenant_id, _ANALYSTS.bind(tenant=tenant_id))]


async def _check(connection: Connection, names: Names, tenant_id: int, login: str) -> None:
    others = [names.app_role, names.definer_role]
    row = await (await connection.execute(_LOGIN, {"login": login, "others": others})).fetchone()
    if row is None:
        raise NotFoundError(
            f"there is no login {login!r}; have an administrator run: CREATE ROLE ... LOGIN PASSWORD ..."
        )
    if any(row):
        raise InvalidRequestError(
            f"login {login!r} is a superuser, bypasses row-level security or may act as {' or '.join(others)}: "
            "it would see every tenant; make a login of its own for the analyst"
        )
    known = sql.SQL("SELECT FROM {} WHERE login = %s AND tenant_id <> %s")
    found = await connection.execute(known.format(sql.Identifier(names.schema, "analyst_logins")), (login, tenant_id))
    if found.rowcount:
        raise InvalidRequestError(f"login {login!r} is another tenant's analyst; a login sees one tenant")


def _texts(names: Names, login: str, tenant_id: int, *statements: str) -> list[str]:
    parts = {
        "schema": sql.Identifier(names.schema),
        "role": sql.Identifier(names.analyst_role),
        "login": sql.Identifier(login),
        "name": sql.Literal(login),
        "tenant": sql.Literal(tenant_id),
    }
    return [sql.SQL(one).format(**parts).as_string() for one in statements]
