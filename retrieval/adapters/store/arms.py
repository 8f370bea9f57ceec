"""Arms, as the learned reward and exploration read them: decayed to a moment."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.round_trip import Row
from retrieval.domain.arm import Arm, ItemArms

# An item may be gone and its arms still be there, so it is the ids that everything is joined to, looked up one by
# one, where joins would read a whole collection; the offset keeps it to once an item. Beyond a thousand half-lives
# nothing is left that a double could tell from zero. What was added and taken away again may leave a rounding error.
_READ = Compiled("""
    WITH decay AS MATERIALIZED (
        SELECT CASE WHEN age > 1000 THEN 0 ELSE power(2::double precision, -age) END AS factor
        FROM (
            SELECT extract(epoch FROM %(now)s::timestamptz - coalesce(max(s.landmark), '2026-01-01 00:00:00+00'))
                ::double precision / (coalesce(max(s.half_life_days), 30) * 86400) AS age
            FROM learning_states AS s WHERE s.collection_id = %(collection_id)s
        ) AS since
    )
    SELECT w.item_id, w.created_at, w.cluster, a.context,
           greatest(a.successes * decay.factor, 0), greatest(a.failures * decay.factor, 0),
           a.uses, a.raw_successes, a.last_used_at
    FROM decay CROSS JOIN (
        SELECT o.item_id,
               (SELECT i.created_at FROM items AS i
                WHERE i.collection_id = %(collection_id)s AND i.item_id = o.item_id),
               (SELECT k.cluster FROM item_clusters AS k
                WHERE k.collection_id = %(collection_id)s AND k.item_id = o.item_id)
        FROM unnest(%(item_ids)s::text[]) AS o (item_id)
        OFFSET 0
    ) AS w (item_id, created_at, cluster)
    LEFT JOIN arms AS a ON a.collection_id = %(collection_id)s AND a.item_id = w.item_id
        AND a.context = ANY(%(buckets)s::text[])
""")


def arms_statement(collection_id: int, *, item_ids: Sequence[str], buckets: Sequence[str], now: datetime) -> Compiled:
    """The statement whose rows ``arms_from`` understands, for callers that send others with it."""
    return _READ.bind(collection_id=collection_id, item_ids=list(item_ids), buckets=list(buckets), now=now)


def arms_from(rows: Sequence[Row]) -> dict[str, ItemArms]:
    """The items with their arms, by item id."""
    arms: dict[str, dict[str, Arm]] = {}
    facts: dict[str, tuple[Any, ...]] = {}
    for item_id, created_at, cluster, bucket, *numbers in rows:
        facts[item_id] = (created_at, cluster)
        of_item = arms.setdefault(item_id, {})
        if bucket is not None:
            of_item[bucket] = Arm(*numbers)
    return {
        item_id: ItemArms(item_id=item_id, arms=arms[item_id], created_at=created_at, cluster=cluster)
        for item_id, (created_at, cluster) in facts.items()
    }


async def read_arms(
    database: Database,
    tenant_id: int,
    collection_id: int,
    *,
    item_ids: Sequence[str],
    buckets: Sequence[str],
    now: datetime,
) -> dict[str, ItemArms]:
    """Each of the items with its arms in those context buckets, decayed to ``now``, by item id.

    An item of which nothing is known is there too, without arms. ``now`` has a time zone. ``buckets`` are those of
    ``Context.buckets``. One statement.
    """
    wanted = list(dict.fromkeys(item_ids))
    if not wanted:
        return {}
    statement = arms_statement(collection_id, item_ids=wanted, buckets=buckets, now=now)
    return arms_from(await database.read(tenant_id, statement))
