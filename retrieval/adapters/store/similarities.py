"""How alike the candidates of a search are, computed beside their vectors: no vector is sent back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from psycopg import sql

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.spaces import StoredSpace
from retrieval.domain.diversity import Similarities

_PAIRS = """
    WITH chosen AS MATERIALIZED (
        SELECT wanted.place::integer AS place, known.vector
        FROM unnest(%(item_ids)s::text[]) WITH ORDINALITY AS wanted (item_id, place)
        JOIN {table} AS known ON known.collection_id = %(collection_id)s AND known.item_id = wanted.item_id
    )
    SELECT one.place - 1, other.place - 1, (-(one.vector <#> other.vector))::real
    FROM chosen AS one JOIN chosen AS other ON one.place < other.place
"""


async def read_similarities(
    database: Database, tenant_id: int, collection_id: int, space: StoredSpace, item_ids: Sequence[str]
) -> Similarities:
    """The cosine similarity of each pair of these items, shape (n, n); 0 where one has no vector."""
    parameters = {"collection_id": collection_id, "item_ids": list(item_ids)}
    rows = await database.read(tenant_id, Compiled(_pairs(space.table_name), parameters))
    similarities = np.eye(len(item_ids), dtype=np.float32)
    for one, other, similarity in rows:
        similarities[one, other] = similarities[other, one] = similarity
    return similarities


@lru_cache(maxsize=256)
def _pairs(table_name: str) -> str:
    return sql.SQL(_PAIRS).format(table=sql.Identifier(table_name)).as_string()
