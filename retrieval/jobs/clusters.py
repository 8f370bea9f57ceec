"""Find the clusters of a collection's embedding space, and say of each item in which it lies."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrieval.adapters.store.learning.clusters import (
    assign_clusters,
    cluster_state,
    keep_centroids,
    read_centroids,
    settle_centroids,
    vectors_to_assign,
)
from retrieval.adapters.store.search.vectors import StoredSpace, sample_vectors
from retrieval.domain.embedding import Vectors
from retrieval.jobs.workplace import Advance, Target, Workplace, unheeded
from retrieval.learning.clusters import LEAST_ITEMS, centroids, nearest, number_of_clusters

GROWTH = 2.0
"""Centroids are found anew when the collection has grown so many times since."""

MOST_SAMPLED = 20_000
_PAGE = 5_000
_SEED = 1


async def are_clusters_needed(workplace: Workplace, target: Target) -> bool:
    """Whether there is feedback to learn by cluster, and items without one or centroids that are out of date."""
    collection, space = target.collection, target.collection.space
    if space is None or collection.documents < LEAST_ITEMS:
        return False
    found_in, has_feedback, is_waiting = await cluster_state(
        workplace.database, target.tenant_id, collection.collection_id, space
    )
    return has_feedback and (is_waiting or collection.documents > GROWTH * found_in)


async def find_clusters(workplace: Workplace, target: Target, advance: Advance = unheeded) -> dict[str, Any]:
    """Find the centroids where there are none or the collection has outgrown them, and give items their clusters.

    New centroids go on from the old ones, so that what was learned about a cluster stays with it.
    """
    space, collection = target.collection.space, target.collection
    if space is None or collection.documents < LEAST_ITEMS:
        return {"clusters": 0, "assigned": 0}
    found_in, _, _ = await cluster_state(workplace.database, target.tenant_id, collection.collection_id, space)
    known = await read_centroids(workplace.database, target.tenant_id, collection.collection_id, space.space_id)
    is_outgrown = known is None or collection.documents > GROWTH * found_in
    if known is None or is_outgrown:
        found = await _found(workplace, target, space, known)
        if found is None:
            return {"clusters": 0 if known is None else len(known), "assigned": 0}
        known = found
    assigned = await _assign(workplace, target, space, known, every=is_outgrown, advance=advance)
    if is_outgrown:
        async with workplace.database.transaction(target.tenant_id) as connection:
            await settle_centroids(connection, collection.collection_id, space.space_id, items=collection.documents)
    return {"clusters": len(known), "assigned": assigned}


async def _found(workplace: Workplace, target: Target, space: StoredSpace, before: Vectors | None) -> Vectors | None:
    """The new centroids; None: too few items have a vector yet."""
    collection_id = target.collection.collection_id
    sample = await sample_vectors(workplace.database, target.tenant_id, collection_id, space, MOST_SAMPLED)
    if len(sample) < LEAST_ITEMS:
        return None
    vectors = np.asarray([vector for _, vector in sample])
    found = centroids(vectors, number_of_clusters(len(sample)), seed=_SEED, start=before)
    async with workplace.database.transaction(target.tenant_id) as connection:
        await keep_centroids(connection, collection_id, space.space_id, found)
    return found


async def _assign(
    workplace: Workplace, target: Target, space: StoredSpace, known: Vectors, *, every: bool, advance: Advance
) -> int:
    collection_id, after, assigned = target.collection.collection_id, "", 0
    while page := await vectors_to_assign(
        workplace.database, target.tenant_id, collection_id, space, after=after, every=every, limit=_PAGE
    ):
        numbers = nearest(np.asarray([vector for _, vector in page]), known)
        clusters = {item_id: int(number) for (item_id, _), number in zip(page, numbers, strict=True)}
        await assign_clusters(workplace.database, target.tenant_id, collection_id, clusters)
        after, assigned = page[-1][0], assigned + len(page)
        advance(assigned)
        workplace.end_of_step()
    return assigned
