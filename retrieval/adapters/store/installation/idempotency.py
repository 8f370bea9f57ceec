"""Idempotent writes: a repeated write gets its first answer, for a day.

An attempt holds the key until its answer is stored, or until it fails and frees the key. If the process dies meanwhile,
the key is free after ``hold_seconds``; after twice that time even if the server's clock was set back meanwhile.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from uuid import UUID

from psycopg.types.json import Jsonb

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.records.forgetting import STEP

KEPT_HOURS = 24

_BEGIN = Compiled("""
    INSERT INTO idempotency_keys AS k
        (tenant_id, key_id, idempotency_key, attempt, request_hash, held_until, expires_at)
    VALUES (%(tenant_id)s, %(key_id)s, %(idempotency_key)s, %(attempt)s, %(request_hash)s,
        now() + make_interval(secs => %(hold_seconds)s), now() + make_interval(hours => %(hours)s))
    ON CONFLICT ON CONSTRAINT idempotency_keys_pkey DO UPDATE SET
        attempt = excluded.attempt, request_hash = excluded.request_hash, held_until = excluded.held_until,
        expires_at = excluded.expires_at, status = NULL, headers = NULL, body = NULL
    WHERE k.expires_at <= now() OR (
        k.status IS NULL AND k.held_until NOT BETWEEN now() AND now() + 2 * make_interval(secs => %(hold_seconds)s))
    RETURNING attempt
""")
_FIND = Compiled("""
    SELECT request_hash, status, headers, body FROM idempotency_keys
    WHERE tenant_id = %(tenant_id)s AND key_id = %(key_id)s AND idempotency_key = %(idempotency_key)s
""")
_KEEP = Compiled("""
    UPDATE idempotency_keys SET status = %(status)s, headers = %(headers)s, body = %(body)s
    WHERE tenant_id = %(tenant_id)s AND key_id = %(key_id)s AND idempotency_key = %(idempotency_key)s
        AND attempt = %(attempt)s
""")
_FREE = Compiled("""
    DELETE FROM idempotency_keys
    WHERE tenant_id = %(tenant_id)s AND key_id = %(key_id)s AND idempotency_key = %(idempotency_key)s
        AND attempt = %(attempt)s AND status IS NULL
""")
_REMOVE_EXPIRED = Compiled("SELECT remove_expired_writes(%(most)s)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt at a write."""

    tenant_id: int
    key_id: str
    """The request's API key; empty if it needed none. Each API key has its own idempotency keys."""
    idempotency_key: str
    attempt: UUID
    """A random number that identifies this attempt."""
    request_hash: bytes
    """The hash of method, path, query string, conditions and body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAnswer:
    """The kept answer to a write."""

    status: int
    headers: dict[str, str]
    body: bytes | None = field(repr=False)
    """None: it was too long to be kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """An earlier request with the same key."""

    request_hash: bytes
    answer: KeptAnswer | None
    """None: it is still being answered."""


async def begin_write(database: Database, attempt: Attempt, *, hold_seconds: float) -> Earlier | None:
    """Hold the key for this attempt; returns an earlier request that holds or has used it. Raises ``DatabaseError``."""
    begin = _BEGIN.bind(**asdict(attempt), hold_seconds=hold_seconds, hours=KEPT_HOURS)
    while True:
        if await database.write(attempt.tenant_id, begin):
            return None
        rows = await database.read(attempt.tenant_id, _FIND.bind(**asdict(attempt)))
        if rows:
            request_hash, status, headers, body = rows[0]
            answer = None
            if status is not None:
                answer = KeptAnswer(status=status, headers=headers, body=None if body is None else bytes(body))
            return Earlier(request_hash=bytes(request_hash), answer=answer)


async def keep_answer(database: Database, attempt: Attempt, answer: KeptAnswer) -> None:
    """Store the answer for repetitions, unless the attempt no longer holds the key."""
    values = {"status": answer.status, "headers": Jsonb(answer.headers), "body": answer.body}
    await database.write(attempt.tenant_id, _KEEP.bind(**asdict(attempt), **values))


async def free_key(database: Database, attempt: Attempt) -> None:
    """Free the key of a write that changed nothing."""
    await database.write(attempt.tenant_id, _FREE.bind(**asdict(attempt)))


async def remove_expired_writes(database: Database, tenant_id: int) -> int:
    """Remove a batch of expired rows, of all tenants, and return their number; 0 if none is left."""
    ((removed,),) = await database.write(tenant_id, _REMOVE_EXPIRED.bind(most=STEP))
    return int(removed)
