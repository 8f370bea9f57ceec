"""After a change of a collection's neighbours: every item is indexed by them, step by step."""

from __future__ import annotations

from typing import Any

from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items.indexing import are_windows_behind, reindex_windows
from retrieval.jobs.weights import refresh_weights
from retrieval.jobs.workplace import Advance, Target, Workplace, unheeded

_STEP = 500


async def refresh_windows(database: Database, tenant_id: int, collection_id: int) -> int:
    """Index the items that a change of neighbours left behind; gives how many.

    Step by step, each in a transaction of its own: searches and writes go on. Interrupted, the next call goes on from
    there. Neither words nor vectors are asked for anew.
    """
    done = 0
    while step := await _step(database, tenant_id, collection_id):
        done += step
    if done:
        await refresh_weights(database, tenant_id, collection_id)
    return done


async def is_walk_unfinished(workplace: Workplace, target: Target) -> bool:
    """Whether a change of neighbours was cut off before all items were indexed by it."""
    return await are_windows_behind(workplace.database, target.tenant_id, target.collection.collection_id)


async def finish_walk(workplace: Workplace, target: Target, advance: Advance = unheeded) -> dict[str, Any]:
    """Index what a change of neighbours left behind."""
    done = 0
    while step := await _step(workplace.database, target.tenant_id, target.collection.collection_id):
        done += step
        advance(done)
        workplace.end_of_step()
    await refresh_weights(workplace.database, target.tenant_id, target.collection.collection_id)
    return {"reindexed": done}


async def _step(database: Database, tenant_id: int, collection_id: int) -> int:
    async with database.transaction(tenant_id) as connection:
        return await reindex_windows(connection, collection_id, _STEP)
