"""What is in the index of tickets."""

from __future__ import annotations

import asyncio
from typing import Any

from retrieval import Collection
from retrieval.apps.tickets.ticket_item import DOMAIN


async def index_stats(collection: Collection) -> dict[str, Any]:
    """``total_vectors``, ``dimension``, ``domain_distribution`` and ``metadata_entries``, counted now in one statement.

    Tickets without a domain are counted under the empty name; without an embedding space the dimension is None.
    """
    counts, space = await asyncio.gather(collection.value_counts(DOMAIN), collection.space())
    return {
        "total_vectors": sum(one.vectors for one in counts),
        "dimension": space.dimensions if space else None,
        "domain_distribution": {one.value: one.items for one in counts},
        "metadata_entries": sum(one.items for one in counts),
    }
