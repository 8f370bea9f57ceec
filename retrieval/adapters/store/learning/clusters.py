"""Read and store the clusters of a collection's embedding space: their centroids, and each item's cluster."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from retrieval.adapters.store.arrays import half_vectors
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace, Connection
from retrieval.adapters.store.search.vectors import StoredSpace, for_table
from retrieval.domain.items.embedding import Vector, Vectors

_CENTROIDS = Compiled("""
    SELECT centroid FROM cluster_centroids
    WHERE collection_id = %(collection_id)s AND space_id = %(space_id)s
    ORDER BY cluster
""")
_KEEP = """
    INSERT INTO cluster_centroids AS known (collection_id, space_id, cluster, centroid, items)
    SELECT %(collection_id)s, %(space_id)s, entry.number - 1, entry.centroid, 0
    FROM unnest(%(centroids)s::halfvec[]) WITH ORDINALITY AS entry (centroid, number)
    ORDER BY entry.number
    ON CONFLICT (collection_id, space_id, cluster)
    DO UPDATE SET centroid = excluded.centroid, items = excluded.items, computed_at = excluded.computed_at
"""
_SETTLE = Compiled("""
    UPDATE cluster_centroids SET items = %(items)s
    WHERE collection_id = %(collection_id)s AND space_id = %(space_id)s
""")
_STATE = """
    SELECT coalesce((SELECT max(c.items) FROM cluster_centroids AS c
                     WHERE c.collection_id = %(collection_id)s AND c.space_id = %(space_id)s), 0),
           EXISTS (SELECT FROM feedback AS f WHERE f.collection_id = %(collection_id)s),
           EXISTS (SELECT FROM {table} AS e
                   LEFT JOIN item_clusters AS k ON k.collection_id = e.collection_id AND k.item_id = e.item_id
                   WHERE e.collection_id = %(collection_id)s AND k.item_id IS NULL)
"""
_PAGE = """
    SELECT e.item_id, e.vector FROM {table} AS e
    LEFT JOIN item_clusters AS k ON k.collection_id = e.collection_id AND k.item_id = e.item_id
    WHERE e.collection_id = %(collection_id)s AND e.item_id > %(after)s AND (%(all)s OR k.item_id IS NULL)
    ORDER BY e.item_id
    LIMIT %(limit)s
"""
_ASSIGN = Compiled("""
    INSERT INTO item_clusters AS known (collection_id, item_id, cluster)
    SELECT i.collection_id, i.item_id, entry.cluster
    FROM unnest(%(item_ids)s::text[], %(clusters)s::integer[]) AS entry (item_id, cluster)
    JOIN items AS i ON i.collection_id = %(collection_id)s AND i.item_id = entry.item_id
    LEFT JOIN item_clusters AS present ON present.collection_id = %(collection_id)s AND present.item_id = i.item_id
    WHERE present.cluster IS DISTINCT FROM entry.cluster
    ORDER BY i.item_id
    -- Waits for a transaction that removes the item, and then leaves it out: its cluster would refer to nothing.
    FOR KEY SHARE OF i
    ON CONFLICT (collection_id, item_id) DO UPDATE SET cluster = excluded.cluster
""")


async def read_centroids(at: CollectionPlace, space_id: int) -> Vectors | None:
    """The centroids by number, shape (clusters, dimensions); None: there are none yet."""
    rows = await at.read(_CENTROIDS, space_id=space_id)
    return np.asarray([row[0].to_numpy() for row in rows], dtype=np.float32) if rows else None


async def keep_centroids(connection: Connection, collection_id: int, space_id: int, centroids: Vectors) -> None:
    """Store the centroids, replacing those of the same numbers. Until they are settled, items may have old clusters."""
    values = {"collection_id": collection_id, "space_id": space_id, "centroids": half_vectors(centroids)}
    await connection.execute(_KEEP, values)


async def settle_centroids(at: CollectionPlace, space_id: int, *, items: int) -> None:
    """Store that every item has its cluster: the centroids are those of this number of items."""
    await at.write(_SETTLE, space_id=space_id, items=items)


async def cluster_state(at: CollectionPlace, space: StoredSpace) -> tuple[int, bool, bool]:
    """The number of items of the centroids; whether there is feedback; and whether items without a cluster exist.

    0 items: there are no centroids, or some items have no cluster by them yet.
    """
    statement = for_table(_STATE, space.table_name)
    [(items, has_feedback, has_unassigned)] = await at.read(statement, space_id=space.space_id)
    return items, has_feedback, has_unassigned


async def vectors_to_assign(
    at: CollectionPlace, space: StoredSpace, *, after: str, every: bool, limit: int
) -> list[tuple[str, Vector]]:
    """A page of the collection's vectors by item id: of all items, or of those without a cluster."""
    rows = await at.read(for_table(_PAGE, space.table_name), after=after, all=every, limit=limit)
    return [(row[0], np.asarray(row[1].to_numpy(), dtype=np.float32)) for row in rows]


async def assign_clusters(at: CollectionPlace, clusters: Mapping[str, int]) -> None:
    """Store the clusters by item id; removed items are left out."""
    await at.write(_ASSIGN, item_ids=list(clusters), clusters=list(clusters.values()))
