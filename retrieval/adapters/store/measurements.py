"""Measured recall as it is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """How much of the truth an index found, for searches that are alike in how many items their filters let through."""

    bucket: str
    samples: int
    recall: float
    """0 to 1: the mean share of the true nearest items that was found."""
    short_pages: int
    """Searches that got fewer items than there were."""
    effort: int
    """The search effort (``hnsw.ef_search``) of the searches, at least."""
    measured_at: datetime | None = None
    """None: now."""


_STORE = """
    INSERT INTO recall_measurements (collection_id, space_id, bucket, samples, recall, short_pages, effort)
    VALUES (%(collection_id)s, %(space_id)s, %(bucket)s, %(samples)s, %(recall)s, %(short_pages)s, %(effort)s)
"""
_LAST = Compiled("""
    SELECT m.bucket, m.samples, m.recall, m.short_pages, m.effort, m.measured_at
    FROM recall_measurements m
    WHERE m.collection_id = %(collection_id)s AND m.space_id = %(space_id)s AND m.measured_at = (
        SELECT max(l.measured_at) FROM recall_measurements l
        WHERE l.collection_id = %(collection_id)s AND l.space_id = %(space_id)s)
    ORDER BY m.bucket
""")


_WORST = Compiled("""
    SELECT c.name, min(m.recall), sum(m.samples)::bigint, max(m.measured_at)
    FROM collections c JOIN recall_measurements m ON m.collection_id = c.collection_id AND m.space_id = c.space_id
    WHERE c.tenant_id = %(tenant_id)s AND m.measured_at = (
        SELECT max(l.measured_at) FROM recall_measurements l
        WHERE l.collection_id = c.collection_id AND l.space_id = c.space_id)
    GROUP BY c.name ORDER BY 2, 1 LIMIT %(limit)s
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionRecall:
    """What was measured last of one collection."""

    collection: str
    recall: float
    """0 to 1: that of the filters for which it is lowest."""
    samples: int
    measured_at: datetime


async def lowest_recalls(database: Database, tenant_id: int, limit: int) -> list[CollectionRecall]:
    """Of at most so many of the tenant's collections whose recall was measured, those where it is lowest first."""
    rows = await database.read(tenant_id, _WORST.bind(tenant_id=tenant_id, limit=limit))
    names = ("collection", "recall", "samples", "measured_at")
    return [CollectionRecall(**dict(zip(names, row, strict=True))) for row in rows]


async def store_measurements(
    database: Database, tenant_id: int, collection_id: int, space_id: int, found: Sequence[Measurement]
) -> None:
    """Store what one run measured, under one time."""
    async with database.transaction(tenant_id) as connection:
        for one in found:
            values: dict[str, Any] = {name: getattr(one, name) for name in Measurement.__slots__}
            await connection.execute(_STORE, {**values, "collection_id": collection_id, "space_id": space_id})


async def last_measurements(database: Database, tenant_id: int, collection_id: int, space_id: int) -> list[Measurement]:
    """What the last run measured, by bucket."""
    rows = await database.read(tenant_id, _LAST.bind(collection_id=collection_id, space_id=space_id))
    names = ("bucket", "samples", "recall", "short_pages", "effort", "measured_at")
    return [Measurement(**dict(zip(names, row, strict=True))) for row in rows]
