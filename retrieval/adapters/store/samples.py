"""Live queries that were kept, so that the index which answered them can be measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from pgvector import HalfVector
from psycopg.types.json import Jsonb

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.domain.embedding import Vector
from retrieval.domain.filters import Filter, parse_where

_KEEP = """
    INSERT INTO query_samples (collection_id, space_id, vector, condition, result_limit)
    VALUES (%(collection_id)s, %(space_id)s, %(vector)s, %(condition)s, %(limit)s)
"""
_LATEST = Compiled("""
    SELECT s.vector, s.condition, s.result_limit FROM query_samples s
    WHERE s.collection_id = %(collection_id)s AND s.space_id = %(space_id)s
    ORDER BY s.sample_id DESC
    LIMIT %(most)s
""")
_NEWER = Compiled("""
    SELECT EXISTS (
        SELECT FROM query_samples s
        WHERE s.collection_id = %(collection_id)s AND s.space_id = %(space_id)s AND s.sampled_at > coalesce(
            (SELECT max(m.measured_at) FROM recall_measurements m
             WHERE m.collection_id = %(collection_id)s AND m.space_id = %(space_id)s), '-infinity')
    )
""")


@dataclass(frozen=True, slots=True)
class Sample:
    """What was searched for, in the collection's space."""

    vector: Vector
    condition: Filter | None
    limit: int
    """How many nearest items were asked for."""


async def keep_sample(
    database: Database,
    tenant_id: int,
    collection_id: int,
    space_id: int,
    *,
    vector: Vector,
    condition_json: Mapping[str, Any] | None,
    limit: int,
) -> None:
    """Keep a search that an HNSW index answered; ``condition_json`` is its filter as ``as_mapping`` says it.

    Searches that compared everything are perfect, and nothing can be learned from them. ``vector`` has shape
    (dimensions,).
    """
    values = {
        "collection_id": collection_id,
        "space_id": space_id,
        "vector": HalfVector(vector),
        "condition": None if condition_json is None else Jsonb(dict(condition_json)),
        "limit": limit,
    }
    async with database.transaction(tenant_id) as connection:
        await connection.execute(_KEEP, values)


async def latest_samples(
    database: Database, tenant_id: int, collection_id: int, space_id: int, *, most: int
) -> list[Sample]:
    """The latest samples, at most so many."""
    rows = await database.read(tenant_id, _LATEST.bind(collection_id=collection_id, space_id=space_id, most=most))
    return [Sample(np.asarray(row[0].to_numpy(), dtype=np.float32), parse_where(row[1]), row[2]) for row in rows]


async def has_newer_samples(database: Database, tenant_id: int, collection_id: int, space_id: int) -> bool:
    """Whether anything was sampled since the recall was last measured."""
    rows = await database.read(tenant_id, _NEWER.bind(collection_id=collection_id, space_id=space_id))
    return bool(rows[0][0])
