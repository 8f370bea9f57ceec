"""What is in the index of tickets."""

from __future__ import annotations

from typing import Any

from retrieval import Collection, Platform
from retrieval.adapters.store.value_counts import count_vectors, value_counts
from retrieval.apps.tickets.ticket_item import DOMAIN


async def index_stats(platform: Platform, collection: Collection) -> dict[str, Any]:
    """``total_vectors``, ``dimension`` (None without an embedding space), ``domain_distribution``, ``metadata_entries``.

    Tickets without a domain are counted under the empty name. Read now, in one statement beside the collection's own.
    """
    stored = await collection.refresh()
    counts = await value_counts(platform.database, platform.tenant_id, stored.collection_id, stored.space, DOMAIN)
    return {
        "total_vectors": sum(one.vectors for one in counts),
        "dimension": stored.space.space.dimensions if stored.space else None,
        "domain_distribution": {one.value: one.items for one in counts},
        "metadata_entries": sum(one.items for one in counts),
    }


async def vectors_in(platform: Platform, collection: Collection) -> int:
    """How many tickets have a vector."""
    stored = await collection.refresh()
    return await count_vectors(platform.database, platform.tenant_id, stored.collection_id, stored.space)
