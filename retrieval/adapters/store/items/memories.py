"""Read and write stored memories: their columns beyond those of items, and the counts of their retrievals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from psycopg.errors import InvalidParameterValue

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace, Connection, Database
from retrieval.adapters.store.round_trip import Row, run_together
from retrieval.domain.errors import DatabaseError
from retrieval.domain.frozen import Frozen
from retrieval.domain.items.item import Item
from retrieval.domain.items.memory import OWN_ATTRIBUTES, PROJECT, USER, Memory, NewMemory, content_of

FEW_LISTED = 1000
"""The most memories of a project that are sorted for a page of them."""

_COLUMNS = """
    item.item_id, item.kind, item.body, item.title, item.status, item.created_at, item.updated_at,
    coalesce(memory.base_relevance, 1), coalesce(memory.accesses, 0), memory.last_accessed_at,
    memory.expires_at, memory.superseded_by, item.attributes, item.occurred_at,
    coalesce((
        SELECT jsonb_object_agg(linked.entity_type, linked.ids)
        FROM (
            SELECT link.entity_type, jsonb_agg(link.entity_id ORDER BY link.entity_id) AS ids
            FROM memory_links AS link
            WHERE link.collection_id = %(collection_id)s AND link.item_id = memory.item_id
            GROUP BY link.entity_type
        ) AS linked
    ), '{}')
"""
# A plain item of the collection counts as a memory with default values, because searches find it too.
_FROM = """
    FROM items AS item
    LEFT JOIN memories AS memory ON memory.collection_id = %(collection_id)s AND memory.item_id = item.item_id
    WHERE item.collection_id = %(collection_id)s
"""
_READ = Compiled(f"SELECT {_COLUMNS} {_FROM} AND item.item_id = ANY(%(item_ids)s)")
# Every writer locks items in the order of their keys, then the collection's totals, then memories in the order of their
# keys. A writer of a memory holds its item, so under that lock only the memory's counts can change.
_HOLD = "SELECT item.item_id FROM hold_items(%(collection_id)s, %(item_ids)s) AS item"
_HOLD_ROWS = """
    SELECT FROM memories AS memory
    WHERE memory.collection_id = %(collection_id)s AND memory.item_id = ANY(%(item_ids)s)
    ORDER BY memory.item_id FOR NO KEY UPDATE
"""
_PAGE = f"""
    SELECT {_COLUMNS} {_FROM}
        AND item.attributes ->> '{PROJECT}' = %(project_id)s AND item.occurred_at IS NOT NULL
        AND (memory.expires_at IS NULL OR memory.expires_at > %(now)s)
        AND (%(kinds)s::text[] IS NULL OR item.kind = ANY(%(kinds)s))
        AND (%(user_id)s::text IS NULL OR item.attributes ->> '{USER}' = %(user_id)s)
        AND (%(before)s::timestamptz IS NULL OR item.occurred_at <= %(before)s
            AND (item.occurred_at < %(before)s OR item.item_id > %(before_id)s))
"""
# The index by time is read until the page is full. For a small project that could mean the whole collection, so the
# memories of a small project are looked up by their keys and sorted.
_MEMBERS = f"""
    SELECT known.item_id FROM attribute_values AS known
    WHERE known.collection_id = %(collection_id)s AND known.name = '{PROJECT}'
        AND known.as_text = left(%(project_id)s, 300)
"""  # noqa: S608 - of the names above
_COUNT = Compiled(f"SELECT count(*) FROM ({_MEMBERS} LIMIT {FEW_LISTED + 1}) AS member")  # noqa: S608 - of these

_WRITE = """
    INSERT INTO memories AS known (collection_id, item_id, happened_at, base_relevance, expires_at)
    SELECT %(collection_id)s::bigint, given.item_id, given.happened_at, given.base_relevance, given.expires_at
    FROM unnest(%(item_ids)s::text[], %(times)s::timestamptz[], %(relevances)s::double precision[],
                %(expiries)s::timestamptz[]) AS given (item_id, happened_at, base_relevance, expires_at)
    ORDER BY given.item_id COLLATE "C"
    ON CONFLICT (collection_id, item_id) DO UPDATE SET
        base_relevance = excluded.base_relevance, expires_at = excluded.expires_at,
        superseded_by = CASE WHEN known.item_id = ANY(%(revived)s::text[]) THEN NULL ELSE known.superseded_by END
    RETURNING known.item_id, known.xmax = 0
"""
_UNLINK = "DELETE FROM memory_links WHERE collection_id = %(collection_id)s AND item_id = ANY(%(item_ids)s)"
_LINK = """
    INSERT INTO memory_links (collection_id, item_id, entity_type, entity_id, happened_at)
    SELECT %(collection_id)s::bigint, given.* FROM unnest(
        %(item_ids)s::text[], %(types)s::text[], %(entities)s::text[], %(times)s::timestamptz[]) AS given
    ON CONFLICT DO NOTHING
"""
_SUPERSEDE = """
    INSERT INTO memories (collection_id, item_id, happened_at, superseded_by)
    SELECT item.collection_id, item.item_id, coalesce(item.occurred_at, item.created_at), %(new_id)s
    FROM items AS item WHERE item.collection_id = %(collection_id)s AND item.item_id = %(old_id)s
    ON CONFLICT (collection_id, item_id) DO UPDATE SET superseded_by = excluded.superseded_by
"""
# All memories that directly or indirectly superseded these, and all that any of them superseded.
_HISTORY = Compiled(f"""
    WITH RECURSIVE later (item_id) AS (
        SELECT given.item_id COLLATE "C" FROM unnest(%(item_ids)s::text[]) AS given (item_id)
        UNION
        SELECT memory.superseded_by FROM later
        JOIN memories AS memory ON memory.collection_id = %(collection_id)s AND memory.item_id = later.item_id
        WHERE memory.superseded_by IS NOT NULL
    ), version (item_id) AS (
        SELECT later.item_id FROM later
        UNION
        SELECT memory.item_id FROM version
        JOIN memories AS memory
            ON memory.collection_id = %(collection_id)s AND memory.superseded_by = version.item_id
    )
    SELECT {_COLUMNS} {_FROM} AND item.item_id IN (SELECT version.item_id FROM version)
""")  # noqa: S608 - of the names above
_RATE = Compiled("""
    WITH held AS MATERIALIZED (
        SELECT item.item_id, coalesce(item.occurred_at, item.created_at) AS happened_at FROM items AS item
        WHERE item.collection_id = %(collection_id)s AND item.item_id = %(item_id)s FOR NO KEY UPDATE
    )
    INSERT INTO memories AS memory (collection_id, item_id, happened_at, base_relevance)
    SELECT %(collection_id)s, held.item_id, held.happened_at, %(relevance)s FROM held
    ON CONFLICT (collection_id, item_id) DO UPDATE SET base_relevance = excluded.base_relevance
        WHERE memory.expires_at IS NULL OR memory.expires_at > %(now)s
    RETURNING memory.item_id
""")
_EXPIRIES = Compiled("""
    SELECT memory.item_id, memory.expires_at FROM memories AS memory
    WHERE memory.collection_id = %(collection_id)s AND memory.item_id = ANY(%(item_ids)s)
        AND memory.expires_at IS NOT NULL
""")
# Two texts with the same lock key wait for each other unnecessarily.
_LOCK_FINGERPRINT = "SELECT pg_advisory_xact_lock(hashtextextended('retrieval memory ' || %s || ' ' || %s, 0))"
_SAME = """
    SELECT known.item_id
    FROM attribute_values AS known
    JOIN memories AS memory ON memory.collection_id = %(collection_id)s AND memory.item_id = known.item_id
    WHERE known.collection_id = %(collection_id)s AND known.name = 'fingerprint' AND known.as_text = %(fingerprint)s
        AND (memory.expires_at IS NULL OR memory.expires_at > %(now)s)
    ORDER BY known.item_id
"""


async def read_memories(at: CollectionPlace, ids: Sequence[str]) -> dict[str, Memory]:
    """The memories of those ids that exist, by id."""
    rows = await at.read(_READ, item_ids=list(ids))
    return {row[0]: _memory(row) for row in rows}


async def read_versions(at: CollectionPlace, ids: Sequence[str]) -> dict[str, Memory]:
    """The memories by id, with those that superseded them and those that they superseded."""
    rows = await at.read(_HISTORY, item_ids=list(ids))
    return {row[0]: _memory(row) for row in rows}


async def hold_memories(connection: Connection, collection_id: int, ids: Sequence[str]) -> dict[str, Memory]:
    """The memories of those ids that exist, by id, locked until the transaction ends."""
    cursor = await connection.execute(_HOLD, {"collection_id": collection_id, "item_ids": list(ids)})
    # An item that was removed and stored again meanwhile exists, but is not locked.
    locked_ids = [row[0] for row in await cursor.fetchall()]
    rows = await connection.rows(_READ.text, {"collection_id": collection_id, "item_ids": locked_ids})
    return {row[0]: _memory(row) for row in rows}


async def hold_rows(connection: Connection, collection_id: int, ids: Sequence[str]) -> None:
    """Lock the rows of those memories, in the order in which every writer locks them."""
    await connection.execute(_HOLD_ROWS, {"collection_id": collection_id, "item_ids": list(ids)})


async def list_memories(
    at: CollectionPlace,
    project_id: str,
    *,
    kinds: Sequence[str] | None,
    user_id: str | None,
    are_archived_too: bool,
    now: datetime,
    before: tuple[datetime, str] | None,
    most: int,
) -> list[Memory]:
    """The project's memories that have a time and have not expired, the latest first, at most ``most``.

    ``before``: the time and the id of the last memory on the page before; None: the first page.
    """
    # Archived memories are not in the index of keys.
    is_small = not are_archived_too and (await at.read(_COUNT, project_id=project_id))[0][0] <= FEW_LISTED
    members = f"AND item.item_id IN ({_MEMBERS})" if is_small else ""
    is_active = "" if are_archived_too else "AND item.status <> 'archived'"
    rows = await at.read(
        Compiled(f"{_PAGE} {members} {is_active} ORDER BY item.occurred_at DESC, item.item_id LIMIT %(most)s"),
        project_id=project_id,
        now=now,
        kinds=None if kinds is None else list(kinds),
        user_id=user_id,
        before=before[0] if before else None,
        before_id=before[1] if before else None,
        most=most,
    )
    return [_memory(row) for row in rows]


async def write_memories(connection: Connection, collection_id: int, memories: Sequence[NewMemory]) -> set[str]:
    """Store the columns of memories, whose items are stored already; returns the ids that had no such columns.

    Ids must not repeat. The access count of an existing memory stays; an active memory is no longer superseded.
    """
    ids = [memory.memory_id for memory in memories]
    values: dict[str, Any] = {
        "collection_id": collection_id,
        "item_ids": ids,
        "times": [memory.occurred_at for memory in memories],
        "relevances": [float(memory.relevance_score) for memory in memories],
        "expiries": [memory.expires_at for memory in memories],
        "revived": [memory.memory_id for memory in memories if memory.status == "active"],
    }
    rows = await connection.rows(_WRITE, values)
    await connection.execute(_UNLINK, {"collection_id": collection_id, "item_ids": ids})
    links = [
        (memory.memory_id, entity_type, entity_id, memory.occurred_at)
        for memory in memories
        for entity_type, entity_ids in memory.links.items()
        for entity_id in entity_ids
    ]
    if links:
        names = ("item_ids", "types", "entities", "times")
        columns = dict(zip(names, map(list, zip(*links, strict=True)), strict=True))
        await connection.execute(_LINK, {"collection_id": collection_id, **columns})
    return {memory_id for memory_id, is_inserted in rows if is_inserted}


async def mark_superseded(connection: Connection, collection_id: int, old_id: str, new_id: str) -> None:
    """Store which memory replaced another."""
    await connection.execute(_SUPERSEDE, {"collection_id": collection_id, "old_id": old_id, "new_id": new_id})


async def rate_memory(at: CollectionPlace, memory_id: str, relevance: float, *, now: datetime) -> bool:
    """Set a memory's relevance; returns whether there is such a memory that has not expired."""
    return bool(await at.write(_RATE, item_id=memory_id, relevance=relevance, now=now))


async def read_expiries(at: CollectionPlace, ids: Sequence[str]) -> dict[str, datetime]:
    """The times at which memories expire, by id, for those that expire."""
    return dict(await at.read(_EXPIRIES, item_ids=list(ids)))


async def hold_fingerprint(connection: Connection, collection_id: int, fingerprint: str) -> None:
    """Lock out other callers that look for this text and store it, until the transaction ends."""
    await connection.execute(_LOCK_FINGERPRINT, (collection_id, fingerprint))


async def memories_with(connection: Connection, collection_id: int, fingerprint: str, now: datetime) -> list[str]:
    """The active memories with that fingerprint that have not expired, by id."""
    values = {"collection_id": collection_id, "fingerprint": fingerprint, "now": now}
    return [row[0] for row in await connection.rows(_SAME, values)]


_FIELDS = (
    *("memory_id", "interaction_type", "text", "summary", "status", "created_at", "updated_at"),
    *("relevance_score", "accesses", "last_accessed_at", "expires_at", "superseded_by"),
)
"""The fields of a memory that have a column of their own, in the order of ``_COLUMNS``."""


def _memory(row: Row) -> Memory:
    own = dict(zip(_FIELDS, row, strict=False))
    attributes, occurred_at, links = row[len(_FIELDS) :]
    item = Item.as_stored(item_id=own["memory_id"], body=own["text"], attributes=attributes)
    metadata = {name: value for name, value in attributes.items() if name not in OWN_ATTRIBUTES}
    return Memory(
        project_id=attributes.get(PROJECT, ""),
        content=content_of(item),
        user_id=attributes.get(USER),
        links=Frozen({entity_type: tuple(links[entity_type]) for entity_type in sorted(links)}),
        occurred_at=occurred_at or own["created_at"],
        metadata=Frozen(metadata),
        **own,
    )


# Locked in the order in which every writer locks memories, so that writers cannot deadlock.
_ADD = Compiled("""
    WITH given AS MATERIALIZED (
        SELECT access.item_id COLLATE "C" AS item_id, access.number, access.at
        FROM unnest(%(items)s::text[], %(numbers)s::bigint[], %(times)s::timestamptz[])
            AS access (item_id, number, at)
    ), held AS MATERIALIZED (
        SELECT memory.item_id, given.number, given.at
        FROM memories AS memory JOIN given ON given.item_id = memory.item_id
        WHERE memory.collection_id = %(collection_id)s
        ORDER BY memory.item_id
        FOR NO KEY UPDATE OF memory
    )
    UPDATE memories AS memory
    SET accesses = memory.accesses + held.number, last_accessed_at = greatest(memory.last_accessed_at, held.at)
    FROM held
    WHERE memory.collection_id = %(collection_id)s AND memory.item_id = held.item_id
""")
_TRANSACTION = Compiled("SELECT pg_current_xact_id()::text")
_OUTCOME = Compiled("SELECT coalesce(pg_xact_status(%(transaction)s::xid8), 'aborted')")


class Accesses(NamedTuple):
    """The number of accesses, and the time of the last one."""

    number: int
    at: datetime

    def plus(self, other: Accesses) -> Accesses:
        """The sum of both."""
        return Accesses(self.number + other.number, max(self.at, other.at))


Counts = Mapping[tuple[int, str], Accesses]
"""Accesses by collection and item."""


async def add_accesses(
    database: Database, tenant_id: int, counts: Counts, note_transaction: Callable[[str], None]
) -> None:
    """Add the counts to the memories that exist, in one transaction.

    Calls ``note_transaction`` with the transaction's id before the commit: if the answer to the commit is lost,
    ``outcome_of`` finds out whether it happened.
    """
    statements = []
    for collection_id, keys in groupby(sorted(counts), key=itemgetter(0)):
        accesses_of = [(item_id, counts[collection_id, item_id]) for _, item_id in keys]
        statements.append(
            _ADD.bind(
                collection_id=collection_id,
                items=[item_id for item_id, _ in accesses_of],
                numbers=[accesses.number for _, accesses in accesses_of],
                times=[accesses.at for _, accesses in accesses_of],
            )
        )
    async with database.transaction(tenant_id) as connection:
        *_, transaction = await run_together(connection, [*statements, _TRANSACTION])
        note_transaction(transaction.rows()[0][0])


async def outcome_of(database: Database, tenant_id: int, transaction: str) -> str:
    """Read the outcome of a transaction: ``committed``, ``aborted`` or ``in progress``.

    ``aborted`` also for a transaction that the database does not know, because it was restored or replaced.
    """
    try:
        return str((await database.read(tenant_id, _OUTCOME.bind(transaction=transaction)))[0][0])
    except DatabaseError as error:
        if isinstance(error.__cause__, InvalidParameterValue):  # "... is in the future"
            return "aborted"
        raise
