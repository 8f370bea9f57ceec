"""Remove what has been kept long enough: cached embeddings and rewrites, answered writes, samples, records of jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from retrieval.adapters.store.installation.idempotency import remove_expired_writes
from retrieval.adapters.store.records.retention import remove_older
from retrieval.jobs.workplace import Advance, Target, Workplace, unheeded
from retrieval.settings import Settings


@dataclass(frozen=True, slots=True)
class _Kept:
    table: str
    time: str
    days: int
    of_tenant: bool = False
    """Whether the rows are the tenant's and not the collection's."""


def _kept(settings: Settings) -> tuple[_Kept, ...]:
    return (
        _Kept("embedding_cache", "created_at", settings.retention_cache_days, of_tenant=True),
        _Kept("query_rewrites", "expires_at", 0, of_tenant=True),
        _Kept("query_samples", "sampled_at", settings.retention_samples_days),
        _Kept("recall_measurements", "measured_at", settings.retention_runs_days),
        _Kept("job_runs", "started_at", settings.retention_runs_days),
        _Kept("recording_losses", "day", settings.retention_retrievals_days),
    )


async def prune(workplace: Workplace, target: Target, advance: Advance = unheeded) -> dict[str, Any]:
    """Remove a collection's old rows, its tenant's old cache entries, and every tenant's expired answers to writes.

    Gives how many by table.
    """
    removed: dict[str, Any] = {}

    async def remove(table: str, step: Callable[[], Awaitable[int]]) -> None:
        removed[table] = 0
        while count := await step():
            removed[table] += count
            advance(sum(removed.values()))
            workplace.end_of_step()

    tenant_id = target.tenant_id
    for kept in _kept(workplace.settings):
        owner = ("tenant_id", tenant_id) if kept.of_tenant else ("collection_id", target.collection.collection_id)
        older = partial(
            remove_older, workplace.database, tenant_id, kept.table, owner=owner, time=kept.time, days=kept.days
        )
        await remove(kept.table, older)
    await remove("idempotency_keys", partial(remove_expired_writes, workplace.database, tenant_id))
    return removed
