"""The cache of rewrites, by tenant, model, query and instructions, until they expire."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database

_CACHED = """
    SELECT rewrites FROM query_rewrites
    WHERE tenant_id = %(tenant_id)s AND model = %(model)s AND query_hash = %(query_hash)s AND expires_at > %(now)s
"""
_KEEP = """
    INSERT INTO query_rewrites (tenant_id, model, query_hash, rewrites, expires_at)
    VALUES (%(tenant_id)s, %(model)s, %(query_hash)s, %(rewrites)s::text[], %(expires_at)s)
    ON CONFLICT (tenant_id, model, query_hash)
    DO UPDATE SET rewrites = excluded.rewrites, created_at = excluded.created_at, expires_at = excluded.expires_at
    WHERE query_rewrites.expires_at <= excluded.expires_at
"""


async def cached_rewrites(
    database: Database, tenant_id: int, model: str, query: str, now: datetime, *, instructions: str = ""
) -> list[str] | None:
    """The cached rewrites of a query, in order; None: not cached, or expired.

    ``model``: the language model's name; ``instructions``: the version of its instructions; ``now``: aware of the time
    zone. White space around and between the words of a query is ignored.
    """
    parameters = {**_key(tenant_id, model, query, instructions), "now": now}
    rows = await database.read(tenant_id, Compiled(_CACHED, parameters))
    return list(rows[0][0]) if rows else None


async def keep_rewrites(
    database: Database,
    tenant_id: int,
    model: str,
    query: str,
    rewrites: Sequence[str],
    *,
    expires_at: datetime,
    instructions: str = "",
) -> None:
    """Store the rewrites of a query; of concurrent writes, the one that expires last wins.

    Raises ``DatabaseError``; the rewrites can be used without being stored. Arguments as in ``cached_rewrites``.
    """
    parameters = {**_key(tenant_id, model, query, instructions), "rewrites": list(rewrites), "expires_at": expires_at}
    await database.write(tenant_id, Compiled(_KEEP, parameters))


def _key(tenant_id: int, model: str, query: str, instructions: str) -> dict[str, object]:
    # JSON, so that no two pairs of query and instructions have the same text.
    text = json.dumps([instructions, " ".join(query.split())])
    return {"tenant_id": tenant_id, "model": model, "query_hash": sha256(text.encode()).digest()}
