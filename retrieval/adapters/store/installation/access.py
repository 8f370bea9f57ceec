"""Access: the API keys of tenants, and the logins of analysts."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import LiteralString

from psycopg import sql

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Connection, Database
from retrieval.adapters.store.installed_sql import Names, in_template
from retrieval.adapters.store.round_trip import Row
from retrieval.domain.api_key import ApiKey, Scope
from retrieval.domain.errors import InvalidRequestError, NotFoundError

_COLUMNS = "key_id, name, scopes, requests_per_minute, feedback_cap, created_at, expires_at, revoked_at, last_used_at"
_FIND = Compiled(f"SELECT tenant_id, secret_hash, tenant, {_COLUMNS} FROM find_api_key(%(key_id)s)")  # noqa: S608 - of the column names above
_ADD = Compiled(f"""
    INSERT INTO api_keys (
        key_id, tenant_id, name, scopes, secret_hash, requests_per_minute, feedback_cap, created_at, expires_at
    )
    VALUES (%(key_id)s, %(tenant_id)s, %(name)s, %(scopes)s::text[], %(secret_hash)s, %(requests_per_minute)s,
        %(feedback_cap)s, %(created_at)s, %(expires_at)s)
    RETURNING {_COLUMNS}
""")  # noqa: S608 - of the column names above
_ALL = Compiled(f"""
    SELECT {_COLUMNS}
    FROM api_keys WHERE tenant_id = %(tenant_id)s ORDER BY created_at, key_id
""")  # noqa: S608 - of the column names above
_REVOKE = Compiled(f"""
    UPDATE api_keys SET revoked_at = coalesce(revoked_at, %(now)s)
    WHERE tenant_id = %(tenant_id)s AND key_id = %(key_id)s
    RETURNING {_COLUMNS}
""")  # noqa: S608 - of the column names above
_NOTE_USE = Compiled("""
    UPDATE api_keys SET last_used_at = %(at)s
    WHERE tenant_id = %(tenant_id)s AND key_id = %(key_id)s AND (last_used_at IS NULL OR last_used_at < %(at)s)
""")


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key with the facts for checking it."""

    key: ApiKey
    tenant_id: int
    secret_hash: bytes = field(repr=False)


async def find_key(database: Database, key_id: str) -> StoredKey | None:
    """The key with that id, of any tenant, or None. Raises ``DatabaseError``."""
    rows = await database.read(None, _FIND.bind(key_id=key_id))
    if not rows:
        return None
    tenant_id, secret_hash, tenant, *columns = rows[0]
    return StoredKey(_from_row(tenant, tuple(columns)), int(tenant_id), bytes(secret_hash))


async def add_key(database: Database, tenant_id: int, key: ApiKey, secret_hash: bytes) -> ApiKey:
    """Store a new key of the tenant, and return it as stored."""
    columns = {name: getattr(key, name) for name in _COLUMNS.split(", ")}
    statement = _ADD.bind(
        **columns | {"tenant_id": tenant_id, "scopes": sorted(key.scopes), "secret_hash": secret_hash}
    )
    return _from_row(key.tenant, (await database.write(tenant_id, statement))[0])


async def keys_of(database: Database, tenant_id: int, tenant: str) -> list[ApiKey]:
    """The tenant's keys, the oldest first; ``tenant`` is its name."""
    return [_from_row(tenant, row) for row in await database.read(tenant_id, _ALL.bind(tenant_id=tenant_id))]


async def revoke_key(database: Database, tenant_id: int, tenant: str, key_id: str, now: datetime) -> ApiKey | None:
    """Revoke the tenant's key permanently, and return it; None: the tenant has no such key. Idempotent."""
    rows = await database.write(tenant_id, _REVOKE.bind(tenant_id=tenant_id, key_id=key_id, now=now))
    return _from_row(tenant, rows[0]) if rows else None


async def note_key_used(database: Database, tenant_id: int, key_id: str, at: datetime) -> None:
    """Store the time of the key's last use."""
    await database.write(tenant_id, _NOTE_USE.bind(tenant_id=tenant_id, key_id=key_id, at=at))


def _from_row(tenant: str, row: Row) -> ApiKey:
    values = dict(zip(_COLUMNS.split(", "), row, strict=True))
    return ApiKey(**values | {"tenant": tenant, "scopes": frozenset(map(Scope, values["scopes"]))})


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
    insert = "INSERT INTO {schema}.analyst_logins (login, tenant_id) VALUES ({name}, {tenant})"
    return _texts(names, tenant_id, login, insert, "GRANT {role} TO {login} WITH INHERIT TRUE")


def removing(names: Names, tenant_id: int, login: str) -> list[str]:
    """The statements that end that; the login stays."""
    delete = "DELETE FROM {schema}.analyst_logins WHERE login = {name} AND tenant_id = {tenant}"
    return _texts(names, tenant_id, login, delete, "REVOKE {role} FROM {login}")


def _texts(names: Names, tenant_id: int, login: str, *statements: LiteralString) -> list[str]:
    parts = {
        "schema": sql.Identifier(names.schema), "role": sql.Identifier(names.analyst_role),
        "login": sql.Identifier(login), "name": sql.Literal(login), "tenant": sql.Literal(tenant_id),
    }  # fmt: skip
    return [sql.SQL(statement).format(**parts).as_string() for statement in statements]


async def add_analyst(database: Database, tenant_id: int, login: str) -> None:
    """Let the login see the tenant. This needs the rights of the login that set up the schema.

    Raises ``NotFoundError`` for a login that does not exist, ``InvalidRequestError`` for a login that sees more than
    one tenant or is another tenant's analyst, and ``MissingPrivilegeError``.
    """
    names = database.names
    table = sql.Identifier(in_template(names.schema), "analyst_logins")
    async with database.maintenance() as connection, connection.transaction():
        await _check(connection, [names.app_role, names.definer_role], login)
        owners = sql.SQL("DELETE FROM {} WHERE login = %s RETURNING tenant_id").format(table)
        if await (await connection.execute(owners, (login,))).fetchone() not in (None, (tenant_id,)):
            raise InvalidRequestError(f"login {login!r} is another tenant's analyst; a login sees one tenant")
        for statement in adding(names, tenant_id, login):
            await connection.execute(statement.encode())


async def remove_analyst(database: Database, tenant_id: int, login: str) -> None:
    """End the login's access. Raises ``NotFoundError`` if it is not an analyst of the tenant."""
    if login not in [analyst.login for analyst in await analysts(database, tenant_id)]:
        raise NotFoundError(f"{login!r} is not an analyst of this tenant; see: retrieval analysts list")
    async with database.maintenance() as connection, connection.transaction():
        exists = await connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (login,))
        statements = removing(database.names, tenant_id, login)
        for statement in statements if exists.rowcount else statements[:1]:
            await connection.execute(statement.encode())


async def analysts(database: Database, tenant_id: int) -> list[Analyst]:
    """The tenant's analysts, by login."""
    return [Analyst(*row) for row in await database.read(tenant_id, _ANALYSTS.bind(tenant=tenant_id))]


async def _check(connection: Connection, roles: list[str], login: str) -> None:
    row = await (await connection.execute(_LOGIN, {"login": login, "others": roles})).fetchone()
    if row is None:
        raise NotFoundError(
            f"there is no login {login!r}; have an administrator run: CREATE ROLE ... LOGIN PASSWORD ..."
        )
    if any(row):
        raise InvalidRequestError(
            f"login {login!r} is a superuser, bypasses row-level security or may act as {' or '.join(roles)}: "
            "it would see every tenant; make a separate login for the analyst"
        )
