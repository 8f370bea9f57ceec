"""Remove items and collections with everything derived from them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace, Connection, despite_deadlocks
from retrieval.adapters.store.items.items import hold_items, hold_writers, join_writers, remove_items
from retrieval.domain.items.embedding import EmbeddingSpace, TextRole, cache_key

# Exclusive, as for every change of events' weights; and first, because feedback takes this lock before any other.
_LOCK_FEEDBACK = "SELECT pg_advisory_xact_lock(feedback_lock())"
# Locked in every writer's order (items, totals, memories), because removing items also removes their memories, in any
# order, and changes the memories that one of them superseded.
_HOLD_TOTALS = "SELECT hold_totals(%s)"
_HOLD_MEMORIES = """
    SELECT FROM memories AS memory
    WHERE memory.collection_id = %s AND (memory.item_id = ANY(%s) OR memory.superseded_by = ANY(%s))
    ORDER BY memory.item_id FOR UPDATE
"""
_EXPIRED_OF = """
    SELECT memory.item_id FROM memories AS memory
    WHERE memory.collection_id = %s AND memory.item_id = ANY(%s) AND memory.expires_at <= %s
"""
# A facet is a hash of an item's value, and the common facets of a collection are stored. A facet that is missing among
# them counts as rare, so the statement removes all of them, until the job counts them again.
_FORGET_FACETS = """
    UPDATE ann_indexes AS known SET common_facets = '{}'
    WHERE known.collection_id = %(id)s AND known.common_facets ?| ARRAY(
        SELECT facet::text FROM items AS item CROSS JOIN unnest(item.facets) AS facet
        WHERE item.collection_id = %(id)s AND item.item_id = ANY(%(ids)s)
    )
"""
_FORGET = "SELECT forget_items(%s, %s, %s)"
_SPACES = "SELECT space_id, to_jsonb(s) - 'space_id' - 'created_at' FROM embedding_spaces AS s"
_UNCACHE = """
    DELETE FROM embedding_cache AS known
    USING unnest(%s::bigint[], %s::bytea[]) AS gone (space_id, text_hash)
    WHERE known.tenant_id = %s AND known.space_id = gone.space_id AND known.text_hash = gone.text_hash
"""
_EXPIRED = Compiled("""
    SELECT memory.item_id FROM memories AS memory
    WHERE memory.collection_id = %(collection_id)s AND memory.expires_at <= %(now)s
    ORDER BY memory.expires_at, memory.item_id LIMIT %(most)s
""")
_WITH_VALUE = Compiled("""
    SELECT item.item_id FROM items AS item
    WHERE item.collection_id = %(collection_id)s AND item.attributes ->> %(attribute)s::text = %(value)s
""")


async def forget_items(at: CollectionPlace, pseudonyms: dict[str, str], expired_by: datetime | None = None) -> int:
    """Remove the items, and replace them by their pseudonyms in recorded searches and feedback; returns their number.

    Runs in one transaction, for which all feedback waits. Missing items are skipped; with ``expired_by`` also items
    that have not expired by then, because their expiry may have been extended since they were listed.
    """
    ids = sorted(pseudonyms)

    async def forget() -> int:
        async with at.database.transaction(at.tenant_id) as connection:
            await connection.execute(_LOCK_FEEDBACK)
            items = await hold_items(connection, at.collection_id, ids)
            if expired_by is not None:  # every change of a memory locks its item, so this stays true
                expired = await connection.rows(_EXPIRED_OF, (at.collection_id, ids, expired_by))
                items = {item_id: items[item_id] for (item_id,) in expired if item_id in items}
            locked_ids = list(items)
            if not locked_ids:
                return 0
            await connection.execute(_HOLD_TOTALS, (at.collection_id,))
            await connection.execute(_HOLD_MEMORIES, (at.collection_id, locked_ids, locked_ids))
            await connection.execute(_FORGET_FACETS, {"id": at.collection_id, "ids": locked_ids})
            await remove_items(at._replace(connection=connection), locked_ids)
            await connection.execute(
                _FORGET, (at.collection_id, locked_ids, [pseudonyms[item_id] for item_id in locked_ids])
            )
            await uncache_texts(connection, at.tenant_id, [item.indexed_text for item in items.values()])
        return len(locked_ids)

    return await despite_deadlocks(forget)


async def uncache_texts(connection: Connection, tenant_id: int, texts: Sequence[str]) -> None:
    """Remove the texts' vectors from the tenant's cache, in every space and role."""
    if not texts:
        return
    spaces, hashes = [], []
    for space_id, facts in await connection.rows(_SPACES):
        space = EmbeddingSpace(**facts)
        for role in TextRole:
            hashes += [cache_key(space, role, text) for text in texts]
            spaces += [space_id] * len(texts)
    await connection.execute(_UNCACHE, (spaces, hashes, tenant_id))


async def expired_memories(at: CollectionPlace, *, now: datetime, most: int) -> list[str]:
    """The memories that have expired, in order of expiry, at most ``most``."""
    return [row[0] for row in await at.read(_EXPIRED, now=now, most=most)]


async def memories_of(at: CollectionPlace, attribute: str, value: str) -> list[str]:
    """All memories with that value of the attribute, superseded and expired too. Reads the whole collection."""
    return [row[0] for row in await at.read(_WITH_VALUE, attribute=attribute, value=value)]


_NEXT_ITEMS = "SELECT item_id FROM items WHERE collection_id = %s ORDER BY item_id LIMIT %s"
# Tables that are partitioned by months have no row addresses across partitions, but an index by time.
_BY_TIME = """
    DELETE FROM retrievals AS old
    WHERE old.collection_id = %(id)s AND old.retrieved_at <= coalesce(
        (SELECT r.retrieved_at FROM retrievals AS r WHERE r.collection_id = %(id)s
         ORDER BY r.retrieved_at OFFSET %(most)s - 1 LIMIT 1), 'infinity')
"""
_BY_ADDRESS = """
    DELETE FROM {table} WHERE collection_id = %(id)s
        AND ctid = ANY (ARRAY(SELECT r.ctid FROM {table} AS r WHERE r.collection_id = %(id)s LIMIT %(most)s))
"""
_TABLES = ("feedback", "arms", "arm_baselines", "rewarded_queries", "query_samples", "job_runs", "term_statistics")
_RECORDS = (_BY_TIME, *(_BY_ADDRESS.format(table=table) for table in _TABLES))
"""The tables that may be large, apart from items; rows of small tables are removed with the collection."""

_ITSELF = "DELETE FROM collections WHERE tenant_id = %s AND collection_id = %s"


async def remove_next_items(at: CollectionPlace, most: int) -> int:
    """Remove at most ``most`` items with all that depends on them, in one transaction; returns their number.

    The statistics stay exact, so that the remaining items can be searched.
    """
    async with at.database.transaction(at.tenant_id) as connection:
        # Before the items are read, because a caller that removes the rest of the collection locks out writers.
        await join_writers(connection, at.collection_id)
        rows = await connection.rows(_NEXT_ITEMS, (at.collection_id, most))
        return (await remove_items(at._replace(connection=connection), [row[0] for row in rows]))[0] if rows else 0


async def remove_records(at: CollectionPlace, most: int) -> None:
    """Remove everything recorded and learned about the collection, about ``most`` rows in a transaction.

    Feedback waits during each transaction.
    """
    for statement in _RECORDS:
        row_count = 1
        while row_count:
            async with at.database.transaction(at.tenant_id) as connection:
                await connection.execute(_LOCK_FEEDBACK)
                cursor = await connection.execute(statement.encode(), {"id": at.collection_id, "most": most})
                row_count = cursor.rowcount


async def remove_itself(at: CollectionPlace) -> bool:
    """Remove the rest of the collection, after waiting for writers of its items; returns whether it existed."""
    async with at.database.transaction(at.tenant_id) as connection:
        await connection.execute(_LOCK_FEEDBACK)
        await hold_writers(connection, at.collection_id)
        return (await connection.execute(_ITSELF, (at.tenant_id, at.collection_id))).rowcount > 0
