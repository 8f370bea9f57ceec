"""Read recorded searches: page by page, by session, and with their candidates and rewards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from itertools import repeat
from typing import Any, LiteralString
from uuid import UUID

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace, Connection
from retrieval.adapters.store.round_trip import Row
from retrieval.domain.records.recorded import (
    RecordedAnswer,
    RecordedPool,
    RetrievalSummary,
    columns_of,
    pool_signals_of,
)
from retrieval.domain.records.retrieval_id import time_of
from retrieval.domain.records.search_record import RecordedHit
from retrieval.domain.records.slate import Slot
from retrieval.domain.search.profile import Profile

_LAST = UUID(int=2**128 - 1)
"""An identifier after those of all searches."""

# The first condition on the time follows from the second, and lets the planner choose the months and the place in the
# index.
_PAGE_OF = Compiled("""
    SELECT
        r.retrieval_id, r.retrieved_at, r.query, coalesce(r.request ->> 'origin', ''), r.actor, r.session, r.domain,
        r.profile_version, r.path, r.hits, r.top_score, r.retrieval_time_ms
    FROM retrievals AS r
    WHERE r.collection_id = %(collection_id)s AND (%(session)s::text = '' OR r.session = %(session)s::text)
        AND r.retrieved_at <= %(moment)s::timestamptz
        AND (r.retrieved_at, r.retrieval_id) < (%(moment)s::timestamptz, %(before)s::uuid)
    ORDER BY r.retrieved_at DESC, r.retrieval_id DESC LIMIT %(limit)s
""")


async def retrievals_page(
    at: CollectionPlace, *, limit: int, before: UUID | None, session: str
) -> list[RetrievalSummary]:
    """The latest ``limit`` searches, of those before the search ``before``, and of the session if it is not empty."""
    rows = await at.read(
        _PAGE_OF,
        limit=limit,
        session=session,
        moment="infinity" if before is None else time_of(before),
        before=before or _LAST,
    )
    return [RetrievalSummary(**dict(zip(RetrievalSummary.__slots__, row, strict=True))) for row in rows]


_READ = Compiled("""
    SELECT r.retrieval_id, r.retrieved_at, coalesce(r.request ->> 'origin', ''), r.query, r.shown_items,
        r.shown_scores, r.shown_slots, r.propensities, r.rank_propensities,
        coalesce((r.request ->> 'continued')::integer, 0)
    FROM retrievals AS r
    WHERE r.collection_id = %(collection_id)s AND r.session = %(session)s AND r.session <> ''
        AND (%(origin)s::text IS NULL OR coalesce(r.request ->> 'origin', '') = %(origin)s)
    ORDER BY r.retrieved_at DESC, r.retrieval_id DESC LIMIT %(limit)s
""")


async def answers_of(at: CollectionPlace, session: str, *, origin: str | None, limit: int) -> list[RecordedAnswer]:
    """The latest answers of the session, the newest first; ``origin`` None: of any origin."""
    return [_answer(row) for row in await at.read(_READ, session=session, origin=origin, limit=limit)]


def _answer(row: Row) -> RecordedAnswer:
    retrieval_id, retrieved_at, origin, query, items, scores, slots, propensities, rank_propensities, continued = row
    shown_with = propensities or repeat(1.0)
    columns = zip(
        items, scores, slots or repeat(Slot.EXPLOIT), shown_with, rank_propensities or shown_with, strict=False
    )
    hits = tuple(
        RecordedHit(item_id=item_id, rank=rank, score=score, slot=Slot(slot), propensity=shown, rank_propensity=at_rank)
        for rank, (item_id, score, slot, shown, at_rank) in enumerate(columns, 1)
        if rank > continued
    )
    return RecordedAnswer(retrieval_id=retrieval_id, retrieved_at=retrieved_at, origin=origin, query=query, hits=hits)


POOL_COLUMNS: LiteralString = """
    r.legs, r.bests, r.brought, r.pool_items, coalesce(r.pool_scores_exact, r.pool_scores), r.pool_ranks,
    r.pool_likeness, r.measures, r.pool_values
"""
"""The columns of a record's pool that ``signals_from`` reads."""


def signals_from(row: Row, profile: Profile | None) -> tuple[list[str], dict[str, Any]]:
    """The items of a pool and their signals (see ``RecordedSearch``), from ``POOL_COLUMNS``."""
    legs, bests, brought, items, scores, ranks, likeness, measures, values = row
    by_measure = dict(zip(measures, values or repeat(()), strict=False))
    return items, pool_signals_of(
        legs=legs, bests=bests, brought=brought, scores=scores or (), ranks=ranks or (), items=items, likeness=likeness,
        measured=by_measure, profile=profile,
    )  # fmt: skip


_PAGE = 200

# The latest first: each page continues where the previous page ended.
_POOLS: LiteralString = f"""
    SELECT r.retrieval_id, r.retrieved_at, coalesce((r.request->>'limit')::integer, r.hits), r.profile_version,
           r.request->>'group_by' IS NOT NULL, r.seed, r.shown_items, r.propensities,
           (
               SELECT coalesce(jsonb_object_agg(rated.item_id, rated.reward), '{{}}') FROM (
                   SELECT f.item_id, sum(f.weight * f.reward) / sum(f.weight) AS reward
                   FROM feedback f
                   WHERE f.collection_id = %(collection_id)s AND f.retrieval_id = r.retrieval_id
                       AND f.item_id = ANY(r.shown_items) AND f.superseded_at IS NULL AND f.weight > 0
                   GROUP BY f.item_id
               ) AS rated
           ),
           r.model_version, coalesce(r.request->'profile', p.definition),
           coalesce(r.request->>'origin', ''), coalesce(r.request->>'reranker', ''),
           coalesce(r.request->>'min_score', r.request->>'min_relevance') IS NOT NULL,
           r.request->>'continued' IS NOT NULL,
           {POOL_COLUMNS}
    FROM retrievals r
    LEFT JOIN profiles p ON p.collection_id = r.collection_id AND p.version = r.profile_version
    WHERE r.collection_id = %(collection_id)s AND r.retrieved_at >= %(since)s
        AND (r.retrieved_at, r.retrieval_id) < (%(before)s, %(before_id)s)
    ORDER BY r.retrieved_at DESC, r.retrieval_id DESC LIMIT %(page)s
"""  # noqa: S608 - of the names above


async def read_pools(
    connection: Connection, collection_id: int, *, since: datetime, most: int
) -> AsyncIterator[RecordedPool]:
    """Recorded searches, the latest first, at most ``most``. The transaction acts as the tenant."""
    values: dict[str, Any] = {"collection_id": collection_id, "since": since, "before": "infinity", "before_id": _LAST}
    while most > 0:
        values["page"] = min(_PAGE, most)
        rows = await connection.rows(_POOLS, values)
        for row in rows:
            yield _pool(row)
        if len(rows) < values["page"]:
            return
        values["before_id"], values["before"] = rows[-1][:2]
        most -= len(rows)


def _pool(row: Row) -> RecordedPool:
    retrieval_id, _, limit, version, is_grouped, seed, shown, propensities, rewards = row[:9]
    model_version, definition, origin, reranker, has_least, is_continued = row[9:15]
    items, signals = signals_from(row[15:], None)
    return RecordedPool(
        retrieval_id=retrieval_id, limit=limit, profile_version=version, is_grouped=is_grouped,
        is_continued=is_continued, has_least=has_least, origin=origin, seed=seed, reranker=reranker, item_ids=items,
        model_version=model_version, profile=None if definition is None else Profile.from_dict(definition),
        **columns_of(signals), shown=dict(zip(shown, propensities or repeat(1.0), strict=False)), rewards=rewards,
    )  # fmt: skip
