"""The recorded answers of a session, read by its index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.domain.recorded_answer import RecordedAnswer, RecordedHit
from retrieval.domain.slate import Slot

_READ = Compiled("""
    SELECT r.retrieval_id, r.retrieved_at, coalesce(r.request ->> 'origin', ''), r.query, shown.hits
    FROM (
        SELECT * FROM retrievals AS one
        WHERE one.collection_id = %(collection_id)s AND one.session = %(session)s AND one.session <> ''
            AND (%(origin)s::text IS NULL OR coalesce(one.request ->> 'origin', '') = %(origin)s)
        ORDER BY one.retrieved_at DESC, one.retrieval_id DESC
        LIMIT %(limit)s
    ) AS r
    CROSS JOIN LATERAL (
        SELECT coalesce(json_agg(
            json_build_array(i.item_id, i.rank, i.score, i.slot, i.propensity, i.rank_propensity) ORDER BY i.rank
        ), '[]') AS hits
        FROM impressions AS i
        WHERE i.collection_id = r.collection_id AND i.retrieval_id = r.retrieval_id
            AND i.retrieved_at = r.retrieved_at
    ) AS shown
    ORDER BY r.retrieved_at DESC, r.retrieval_id DESC
""")


async def answers_of(
    database: Database, tenant_id: int, collection_id: int, session: str, *, origin: str | None, limit: int
) -> list[RecordedAnswer]:
    """The latest answers of the session, the newest first; ``origin`` None: of whatever origin."""
    statement = _READ.bind(collection_id=collection_id, session=session, origin=origin, limit=limit)
    return [
        RecordedAnswer(
            retrieval_id=row[0],
            retrieved_at=row[1],
            origin=row[2],
            query=row[3],
            hits=tuple(_hit(hit) for hit in row[4]),
        )
        for row in await database.read(tenant_id, statement)
    ]


def _hit(read: Sequence[Any]) -> RecordedHit:
    item_id, rank, score, slot, propensity, rank_propensity = read
    return RecordedHit(
        item_id=item_id,
        rank=rank,
        score=score,
        slot=Slot(slot),
        propensity=propensity,
        rank_propensity=rank_propensity,
    )
