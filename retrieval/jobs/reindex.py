"""The job that makes a collection's indexes and weights anew, while searches go on."""

from __future__ import annotations

from typing import Any

from retrieval.jobs.indexes import rebuild_index
from retrieval.jobs.textsearch import rebuild_textsearch_index
from retrieval.jobs.upkeep import recount, weigh_all
from retrieval.jobs.workplace import Advance, Target, Workplace, unheeded


async def reindex(workplace: Workplace, target: Target, advance: Advance = unheeded) -> dict[str, Any]:
    """Count terms, compute every BM25 weight and build the indexes anew, whether they need it or not.

    The index of vectors, which takes longest, comes last: an interruption before costs it nothing.
    """
    counted = await recount(workplace, target)
    workplace.end_of_step()
    weighed = await weigh_all(workplace, target, advance)
    workplace.end_of_step()
    textsearch = await rebuild_textsearch_index(workplace.database, target.collection)
    workplace.end_of_step()
    outcome = await rebuild_index(workplace.database, target.tenant_id, target.collection)
    return {**counted, **weighed, "textsearch": textsearch.value, "index": outcome.value}
