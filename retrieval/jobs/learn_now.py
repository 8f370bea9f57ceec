"""Learning from a collection's feedback at once, where nobody waits for the schedule."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.learning.clusters import read_centroids
from retrieval.domain.errors import RetrievalError
from retrieval.jobs.registry import job_named
from retrieval.jobs.run import DONE, FAILED, RunReport, run_job
from retrieval.jobs.workplace import Target, Workplace

Refresh = Callable[[], Awaitable[StoredCollection]]
"""Reads the collection as it is now."""


async def learn_now(workplace: Workplace, tenant_id: int, refresh: Refresh) -> dict[str, Any]:
    """Find the clusters, then fit and try a model; gives what ``learn`` did, and how many ``clusters`` there are.

    Each is a run on record, as a worker's is. Raises ``RetrievalError`` where one failed.
    """
    found = await _run(workplace, "clusters", Target(tenant_id, await refresh()))
    learned = await _run(workplace, "learn", Target(tenant_id, await refresh()))
    if learned.outcome != DONE:
        details: dict[str, Any] = {"verdicts": 0, "published": False, "reason": f"not learned: {learned.outcome}"}
    else:
        details = dict(learned.details)
    clusters = found.details.get("clusters")
    return {**details, "clusters": await _clusters(workplace, tenant_id, refresh) if clusters is None else clusters}


async def _clusters(workplace: Workplace, tenant_id: int, refresh: Refresh) -> int:
    """How many there are, where another process is finding them."""
    stored = await refresh()
    if stored.space is None:
        return 0
    known = await read_centroids(workplace.database, tenant_id, stored.collection_id, stored.space.space_id)
    return 0 if known is None else len(known)


async def _run(workplace: Workplace, name: str, target: Target) -> RunReport:
    report = await run_job(workplace, job_named(name), target)
    if report.outcome == FAILED:
        raise RetrievalError(f"job {name} of {report.collection} failed: {report.details.get('error', '')}")
    return report
