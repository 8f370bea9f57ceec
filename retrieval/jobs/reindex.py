"""Make a collection's indexes and weights anew, while searches go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrieval.jobs.indexes import rebuild_index
from retrieval.jobs.registry import Job
from retrieval.jobs.textsearch import rebuild_textsearch_index
from retrieval.jobs.upkeep import always, recount, weigh_all
from retrieval.jobs.workplace import Advance, Target, Workplace, unheeded


async def _rebuild(workplace: Workplace, target: Target, _advance: Advance = unheeded) -> dict[str, Any]:
    outcome = await rebuild_index(workplace.database, target.tenant_id, target.collection)
    textsearch = await rebuild_textsearch_index(workplace.database, target.collection)
    return {"index": outcome.value, "textsearch": textsearch.value}


STEPS: Mapping[str, Job] = {
    job.name: job
    for job in (
        Job(name="indexes", what="rebuild the indexes", noun="index", run=_rebuild, is_needed=always),
        Job(name="statistics", what="count terms anew", noun="term", run=recount, is_needed=always),
        Job(name="weights", what="compute every BM25 weight anew", noun="item", run=weigh_all, is_needed=always),
    )
}
"""What a reindex does, in order: the jobs of these names, done whether they are needed or not."""
