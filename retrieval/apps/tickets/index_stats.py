"""What is in the index of tickets."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

from retrieval import Collection
from retrieval.apps.tickets.ticket_item import DOMAIN
from retrieval.domain.errors import UnknownFieldError
from retrieval.domain.value_count import ValueCount


async def index_stats(collection: Collection) -> dict[str, Any]:
    """``total_vectors``, ``dimension``, ``domain_distribution`` and ``metadata_entries``, counted now in one statement.

    Tickets without a domain are counted under the empty name; without an embedding space the dimension is None.
    """
    counts, space = await asyncio.gather(_by_domain(collection), collection.space())
    distribution: Counter[str] = Counter()
    for one in counts:
        distribution[one.value] += one.items
    return {
        "total_vectors": sum(one.vectors for one in counts),
        "dimension": space.dimensions if space else None,
        "domain_distribution": dict(distribution),
        "metadata_entries": sum(one.items for one in counts),
    }


async def _by_domain(collection: Collection) -> list[ValueCount]:
    try:
        return await collection.value_counts(DOMAIN)
    except UnknownFieldError:  # no ticket has a domain
        return [replace(one, value="") for one in await collection.value_counts("kind")]
