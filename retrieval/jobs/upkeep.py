"""The jobs that keep a collection's weights, statistics and index as they should be, and when each is needed."""

from __future__ import annotations

from typing import Any

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.search.indexes import keep_common_facets
from retrieval.jobs.indexes import IndexOutcome, keep_index
from retrieval.jobs.terms import recount_terms
from retrieval.jobs.textsearch import keep_textsearch_index
from retrieval.jobs.weights import DRIFT, fold_statistics, refresh_weights
from retrieval.jobs.workplace import Advance, Target, Workplace, unheeded

LEAST_INDEXED = 1000
"""A collection with fewer items and without an index is not looked at."""

_WEIGHTS_NEEDED = Compiled("""
    SELECT EXISTS (
        SELECT FROM collection_statistics t
        WHERE t.collection_id = %(id)s AND (t.weighing_after IS NOT NULL OR t.documents > 0
            AND abs(t.total_length::real / t.documents - coalesce(t.weighed_length, 0))
                > %(drift)s * coalesce(t.weighed_length, 0))
    ) OR EXISTS (SELECT FROM statistics_changes w WHERE w.collection_id = %(id)s)
""")


async def always(_workplace: Workplace, _target: Target) -> bool:
    """Whether there is something to do cannot be told without doing it."""
    return True


async def are_weights_off(workplace: Workplace, target: Target) -> bool:
    """Whether items wait to be weighed again, or differences to be added to the statistics."""
    statement = _WEIGHTS_NEEDED.bind(id=target.collection.collection_id, drift=DRIFT)
    return bool((await workplace.database.read(target.tenant_id, statement))[0][0])


async def weigh(workplace: Workplace, target: Target, advance: Advance = unheeded) -> dict[str, Any]:
    """Recompute the BM25 weights if the average length has drifted, or an earlier run was cut off."""
    await fold_statistics(workplace.database, target.tenant_id, target.collection.collection_id)
    weighed = await refresh_weights(workplace.database, target.tenant_id, target.collection.collection_id)
    advance(weighed)
    return {"weighed": weighed}


async def weigh_all(workplace: Workplace, target: Target, advance: Advance = unheeded) -> dict[str, Any]:
    """Recompute every BM25 weight of the collection, whether lengths have drifted or not."""
    # Any difference is more drift than less than none.
    collection_id = target.collection.collection_id
    weighed = await refresh_weights(workplace.database, target.tenant_id, collection_id, drift=-1.0)
    advance(weighed)
    return {"weighed": weighed}


async def is_index_in_question(_workplace: Workplace, target: Target) -> bool:
    """Whether the collection has an index, or is large enough to be asked about one."""
    collection = target.collection
    return collection.ann_index is not None or collection.documents >= LEAST_INDEXED


async def index(workplace: Workplace, target: Target, _advance: Advance = unheeded) -> dict[str, Any]:
    """Make, keep or drop the collection's indexes, as its size asks for: HNSW, and those of pg_textsearch."""
    collection = target.collection
    outcome = await keep_index(workplace.database, target.tenant_id, collection)
    if outcome is IndexOutcome.PRESENT and collection.space is not None:
        space_id = collection.space.space_id
        await keep_common_facets(workplace.database, target.tenant_id, collection.collection_id, space_id)
    textsearch = await keep_textsearch_index(workplace.database, collection)
    return {"index": outcome.value, "textsearch": textsearch.value}


async def recount(workplace: Workplace, target: Target, advance: Advance = unheeded) -> dict[str, Any]:
    """Count the collection's terms anew, and mend what was wrong."""
    mended = await recount_terms(workplace.database, target.tenant_id, target.collection.collection_id)
    advance(mended)
    return {"mended": mended}
