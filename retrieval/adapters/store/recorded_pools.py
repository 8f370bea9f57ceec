"""Recorded searches with their candidates, their impressions and what these earned: what targets are made from."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, LiteralString

from retrieval.adapters.store.database import Connection
from retrieval.domain.exploration import Exploration
from retrieval.domain.learned import Learned
from retrieval.domain.recorded_pool import RecordedPool, columns_of

_PAGE = 200

# The latest first: each page goes on where the one before it ended.
_POOLS: LiteralString = """
    SELECT r.retrieval_id, r.retrieved_at, coalesce((r.request->>'limit')::integer, r.hits), r.profile_version,
           r.request->>'group_by' IS NOT NULL, r.policy, r.seed, r.pool_items, r.pool_signals, shown.propensities,
           shown.rewards, r.model_version, coalesce(r.request->'profile'->'learned', p.definition->'learned'),
           coalesce(r.request->'profile'->'exploration', p.definition->'exploration'),
           coalesce(r.request->>'origin', '')
    FROM retrievals r
    LEFT JOIN profiles p ON p.collection_id = r.collection_id AND p.version = r.profile_version
    CROSS JOIN LATERAL (
        SELECT coalesce(jsonb_object_agg(i.item_id, i.propensity), '{}') AS propensities,
               coalesce(jsonb_object_agg(i.item_id, said.reward) FILTER (WHERE said.reward IS NOT NULL), '{}')
                   AS rewards
        FROM impressions i
        LEFT JOIN LATERAL (
            SELECT sum(f.weight * f.reward) / sum(f.weight) AS reward
            FROM feedback f
            WHERE f.collection_id = i.collection_id AND f.retrieval_id = i.retrieval_id AND f.item_id = i.item_id
                AND f.superseded_at IS NULL AND f.weight > 0
        ) AS said ON true
        WHERE i.collection_id = r.collection_id AND i.retrieval_id = r.retrieval_id
            AND i.retrieved_at = r.retrieved_at
    ) AS shown
    WHERE r.collection_id = %(collection_id)s AND r.retrieved_at >= %(since)s AND r.hits > 0
        AND (r.retrieved_at, r.retrieval_id) < (%(before)s, %(before_id)s)
    ORDER BY r.retrieved_at DESC, r.retrieval_id DESC
    LIMIT %(page)s
"""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a page ended; at first, behind everything."""

    before: Any = field(default="infinity")
    before_id: Any = field(default="ffffffff-ffff-ffff-ffff-ffffffffffff")


async def read_pools(
    connection: Connection, collection_id: int, *, since: datetime, most: int
) -> AsyncIterator[RecordedPool]:
    """Searches that showed something, the latest first, at most so many. The transaction acts as the tenant."""
    place, left = _Place(), most
    while left > 0:
        values = {
            "collection_id": collection_id,
            "since": since,
            "before": place.before,
            "before_id": place.before_id,
            "page": min(_PAGE, left),
        }
        rows = await (await connection.execute(_POOLS, values)).fetchall()
        for row in rows:
            yield _pool(row)
        if len(rows) < values["page"]:
            return
        place, left = _Place(rows[-1][1], rows[-1][0]), left - len(rows)


def _pool(row: tuple[Any, ...]) -> RecordedPool:
    retrieval_id, retrieved_at, limit, version, is_grouped, policy, seed, items, signals, propensities, rewards = row[
        :11
    ]
    model_version, learned, exploration, origin = row[11:]
    return RecordedPool(
        retrieval_id=retrieval_id,
        retrieved_at=retrieved_at,
        limit=limit,
        profile_version=version,
        is_grouped=is_grouped,
        policy=policy,
        origin=origin,
        seed=seed,
        item_ids=items,
        model_version=model_version,
        combination=None if learned is None else Learned(**learned).combination,
        exploration=None if exploration is None else Exploration(**exploration),
        **columns_of(signals),
        shown=propensities,
        rewards=rewards,
    )
