"""Keeps BM25 weights: they are recomputed when the items' average length has moved."""

from __future__ import annotations

import asyncio

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace

DRIFT = 0.01
"""The relative change of the average length after which all items are weighed again."""

_STEP = 1000
_HELD_SECONDS = 0.02
"""The seconds until an item that a writer holds is checked again."""

FOLD = "SELECT fold_statistics(%(collection_id)s)"
_BEGIN = Compiled("SELECT begin_weighing(%(collection_id)s, %(drift)s)")
_WEIGH = Compiled("SELECT refresh_weights(%(collection_id)s, %(step)s)")


async def fold_statistics(at: CollectionPlace) -> None:
    """Add the differences that writers have left to the collection's statistics, which are then exact."""
    await at.write(Compiled(FOLD))


async def refresh_weights(at: CollectionPlace, drift: float = DRIFT) -> int:
    """Weigh every item again if the average length has drifted; returns the number of items weighed.

    Step by step, each in its own transaction: searches and writes go on. If it is interrupted, the next refresh
    continues.
    """
    await at.write(_BEGIN, drift=drift)
    weighed = 0
    while step := (await at.write(_WEIGH, step=_STEP))[0][0]:
        if step < 0:
            await asyncio.sleep(_HELD_SECONDS)
        else:
            weighed += int(step)
    return weighed
