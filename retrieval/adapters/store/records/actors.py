"""The names of those who asked and judged, replaced by pseudonyms."""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass
from typing import Any

from retrieval.adapters.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Pseudonymised:
    """What became of an actor's name."""

    pseudonym: str
    """Stands for the actor in all of a call's rows; nothing leads back from it."""
    retrievals: int
    """Recorded searches that bear it now."""
    feedback: int
    """Events that bear it now."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


# Alone, like all that changes what is known of events; and before the other statement, which then sees what those who
# wrote meanwhile have committed.
_LOCK = "SELECT pg_advisory_xact_lock(feedback_lock())"

# A quarantine follows the events that it is about. Keys and subjects are made from names too, which a guess could
# confirm; so they are mixed with a secret that is kept nowhere.
_REPLACE = """
    WITH own AS MATERIALIZED (
        SELECT c.collection_id FROM collections c WHERE c.tenant_id = %(tenant_id)s
    ), searches AS (
        UPDATE retrievals SET actor = %(pseudonym)s, session = ''
        WHERE collection_id IN (SELECT o.collection_id FROM own o) AND actor = %(actor)s AND actor <> '' RETURNING 1
    ), events AS (
        UPDATE feedback SET actor = %(pseudonym)s, session = '', subject = md5(subject::text || %(secret)s)::uuid,
            feedback_key = md5(feedback_key::text || %(secret)s)::uuid
        WHERE collection_id IN (SELECT o.collection_id FROM own o) AND actor = %(actor)s RETURNING 1
    ), quarantined AS (
        UPDATE quarantines SET actor = %(pseudonym)s
        WHERE collection_id IN (SELECT o.collection_id FROM own o) AND actor = %(actor)s
    )
    SELECT (SELECT count(*) FROM searches), (SELECT count(*) FROM events)
"""


async def pseudonymise(database: Database, tenant_id: int, actor: str, pseudonym: str) -> Pseudonymised:
    """Replace an actor's name in a tenant's searches, feedback and quarantines, and forget the sessions.

    The tenant's feedback waits meanwhile. Repeated afterwards, the actor's feedback counts once more: nothing tells
    that it is the same.
    """
    values = {"tenant_id": tenant_id, "actor": actor, "pseudonym": pseudonym, "secret": secrets.token_hex()}
    async with database.transaction(tenant_id) as connection:
        await connection.execute(_LOCK)
        row = await (await connection.execute(_REPLACE, values)).fetchone()
    retrievals, feedback = row or (0, 0)
    return Pseudonymised(pseudonym=pseudonym, retrievals=retrievals, feedback=feedback)
