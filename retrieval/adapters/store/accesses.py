"""How often memories were retrieved, added up many together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import NamedTuple

from psycopg.errors import InvalidParameterValue

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.domain.errors import DatabaseError

# Locked in the order in which everybody locks memories, so that no two writers wait for each other crosswise.
_ADD = """
    WITH given AS MATERIALIZED (
        SELECT one.collection_id, one.item_id COLLATE "C" AS item_id, one.number, one.at
        FROM unnest(%(collections)s::bigint[], %(items)s::text[], %(numbers)s::bigint[], %(times)s::timestamptz[])
            AS one (collection_id, item_id, number, at)
    ), held AS MATERIALIZED (
        SELECT memory.collection_id, memory.item_id, given.number, given.at
        FROM memories AS memory
        JOIN given ON given.collection_id = memory.collection_id AND given.item_id = memory.item_id
        ORDER BY memory.collection_id, memory.item_id
        FOR NO KEY UPDATE OF memory
    ), counted AS (
        UPDATE memories AS memory
        SET accesses = memory.accesses + held.number, last_accessed_at = greatest(memory.last_accessed_at, held.at)
        FROM held
        WHERE memory.collection_id = held.collection_id AND memory.item_id = held.item_id
        RETURNING 1
    )
    SELECT pg_current_xact_id()::text, (SELECT count(*) FROM counted)
"""
_OUTCOME = Compiled("SELECT coalesce(pg_xact_status(%(transaction)s::xid8), 'aborted')")


class Accesses(NamedTuple):
    """How often, and when last."""

    number: int
    at: datetime

    def plus(self, other: Accesses) -> Accesses:
        """Both together."""
        return Accesses(self.number + other.number, max(self.at, other.at))


Counts = Mapping[tuple[int, str], Accesses]
"""Accesses by collection and item."""


async def add_accesses(database: Database, tenant_id: int, counts: Counts, begun: Callable[[str], None]) -> None:
    """Add them to the memories that there are, in one transaction.

    ``begun`` is told the transaction before it is committed: should the answer to that get lost, ``outcome_of`` knows.
    """
    keys = sorted(counts)
    values = {
        "collections": [collection_id for collection_id, _ in keys],
        "items": [item_id for _, item_id in keys],
        "numbers": [counts[key].number for key in keys],
        "times": [counts[key].at for key in keys],
    }
    async with database.transaction(tenant_id) as connection:
        row = await (await connection.execute(_ADD, values)).fetchone()
        if row is not None:
            begun(str(row[0]))


async def outcome_of(database: Database, tenant_id: int, transaction: str) -> str:
    """What became of a transaction: ``committed``, ``aborted`` or ``in progress``.

    One that the database has never begun, as it was restored or another one took its place, is aborted there.
    """
    try:
        return str((await database.read(tenant_id, _OUTCOME.bind(transaction=transaction)))[0][0])
    except DatabaseError as error:
        if isinstance(error.__cause__, InvalidParameterValue):  # "... is in the future"
            return "aborted"
        raise
