"""API keys as they are stored: found before a tenant is known, and listed, made and revoked by their tenant."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.round_trip import Row
from retrieval.domain.api_key import ApiKey, Scope

_COLUMNS = "key_id, name, scopes, requests_per_minute, feedback_cap, created_at, expires_at, revoked_at, last_used_at"
_FIND = Compiled(f"""
    SELECT tenant_id, secret_hash, tenant, {_COLUMNS} FROM find_api_key(%(key_id)s)
""")  # noqa: S608 - of the names above
_ADD = Compiled(f"""
    INSERT INTO api_keys (
        key_id, tenant_id, name, scopes, secret_hash, requests_per_minute, feedback_cap, created_at, expires_at
    )
    VALUES (%(key_id)s, %(tenant_id)s, %(name)s, %(scopes)s::text[], %(secret_hash)s, %(requests_per_minute)s,
        %(feedback_cap)s, %(created_at)s, %(expires_at)s)
    RETURNING {_COLUMNS}
""")  # noqa: S608 - of the names above
_ALL = Compiled(f"""
    SELECT {_COLUMNS}
    FROM api_keys WHERE tenant_id = %(tenant_id)s ORDER BY created_at, key_id
""")  # noqa: S608 - of the names above
_REVOKE = Compiled(f"""
    UPDATE api_keys SET revoked_at = coalesce(revoked_at, %(now)s)
    WHERE tenant_id = %(tenant_id)s AND key_id = %(key_id)s
    RETURNING {_COLUMNS}
""")  # noqa: S608 - of the names above
_USED = Compiled("""
    UPDATE api_keys SET last_used_at = %(at)s
    WHERE tenant_id = %(tenant_id)s AND key_id = %(key_id)s AND (last_used_at IS NULL OR last_used_at < %(at)s)
""")


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key with what it takes to check one."""

    key: ApiKey
    tenant_id: int
    secret_hash: bytes = field(repr=False)


async def find_key(database: Database, key_id: str) -> StoredKey | None:
    """The key of that id, of whichever tenant, or None. Raises ``DatabaseError``."""
    rows = await database.read(None, _FIND.bind(key_id=key_id))
    if not rows:
        return None
    tenant_id, secret_hash, tenant, *rest = rows[0]
    return StoredKey(_from_row(tenant, tuple(rest)), int(tenant_id), bytes(secret_hash))


async def add_key(database: Database, tenant_id: int, key: ApiKey, secret_hash: bytes) -> ApiKey:
    """Store a new key of the tenant; gives it as it is stored."""
    statement = _ADD.bind(
        key_id=key.key_id, tenant_id=tenant_id, name=key.name, scopes=sorted(key.scopes), secret_hash=secret_hash,
        requests_per_minute=key.requests_per_minute, feedback_cap=key.feedback_cap, created_at=key.created_at,
        expires_at=key.expires_at,
    )  # fmt: skip
    return _from_row(key.tenant, (await database.write(tenant_id, statement))[0])


async def keys_of(database: Database, tenant_id: int, tenant: str) -> list[ApiKey]:
    """The tenant's keys, the oldest first; ``tenant`` is its name."""
    return [_from_row(tenant, row) for row in await database.read(tenant_id, _ALL.bind(tenant_id=tenant_id))]


async def revoke_key(database: Database, tenant_id: int, tenant: str, key_id: str, now: datetime) -> ApiKey | None:
    """Let the tenant's key in no more, for good; None where it has none of that id. Doing it again changes nothing."""
    rows = await database.write(tenant_id, _REVOKE.bind(tenant_id=tenant_id, key_id=key_id, now=now))
    return _from_row(tenant, rows[0]) if rows else None


async def note_key_used(database: Database, tenant_id: int, key_id: str, at: datetime) -> None:
    """Remember that a request bore the key."""
    await database.write(tenant_id, _USED.bind(tenant_id=tenant_id, key_id=key_id, at=at))


def _from_row(tenant: str, row: Row) -> ApiKey:
    key_id, name, scopes, requests_per_minute, feedback_cap, created_at, expires_at, revoked_at, last_used_at = row
    return ApiKey(
        key_id=key_id,
        tenant=tenant,
        name=name,
        scopes=frozenset(map(Scope, scopes)),
        requests_per_minute=requests_per_minute,
        feedback_cap=feedback_cap,
        created_at=created_at,
        expires_at=expires_at,
        revoked_at=revoked_at,
        last_used_at=last_used_at,
    )
