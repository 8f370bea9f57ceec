"""Creates and revokes the API keys of a tenant; see docs/how-to/serve.md."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import datetime

from retrieval.adapters.store.database import Database
from retrieval.adapters.store.installation import access
from retrieval.domain.api_key import (
    RANDOM_BYTES,
    ApiKey,
    NewApiKey,
    checked_expiry,
    checked_feedback_cap,
    checked_key_name,
    checked_per_minute,
    checked_scopes,
    is_key_id,
    key_hash,
    key_id_of,
    key_text,
)
from retrieval.domain.errors import UnknownKeyError


async def create_key(
    database: Database,
    tenant_id: int,
    tenant: str,
    name: str,
    *,
    scopes: Iterable[str],
    requests_per_minute: int | None,
    feedback_cap: int | None,
    expires_at: datetime | None,
    now: datetime,
) -> NewApiKey:
    """See ``Platform.create_key``."""
    allowed = checked_scopes(scopes)
    text = key_text(secrets.token_bytes(RANDOM_BYTES))
    key = ApiKey(
        key_id=key_id_of(text) or "",
        tenant=tenant,
        name=checked_key_name(name),
        scopes=allowed,
        requests_per_minute=checked_per_minute(requests_per_minute),
        feedback_cap=checked_feedback_cap(feedback_cap, allowed),
        created_at=now,
        expires_at=checked_expiry(expires_at, now),
    )
    return NewApiKey(text, await access.add_key(database, tenant_id, key, key_hash(text)))


async def revoke_key(database: Database, tenant_id: int, tenant: str, key_id: str, now: datetime) -> ApiKey:
    """See ``Platform.revoke_key``."""
    identifier = key_id_of(key_id) or key_id
    revoked = None
    if is_key_id(identifier):
        revoked = await access.revoke_key(database, tenant_id, tenant, identifier, now)
    if revoked is None:
        # A value that is not an id may be a mistyped secret, so the message does not repeat it.
        named = f"API key {identifier}" if is_key_id(identifier) else "such API key"
        raise UnknownKeyError(f"there is no {named}; list the keys, which shows their ids")
    return revoked
