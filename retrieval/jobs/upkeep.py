"""The jobs that maintain statistics, vectors and indexes, and remove expired memories and rows past their retention.

The tables of recorded searches, one a month, are the installation's: every collection's job checks the same
tables, and the first one does the work.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from retrieval.adapters.embedders.chosen import no_embedder
from retrieval.adapters.store.installation.examination import mend_disagreements
from retrieval.adapters.store.installation.idempotency import remove_expired_writes
from retrieval.adapters.store.items.collections import are_windows_behind
from retrieval.adapters.store.items.removal import expired_memories
from retrieval.adapters.store.records.forgetting import drop_months, ensure_months, is_any_month_due, remove_older
from retrieval.adapters.store.search import terms
from retrieval.adapters.store.search.indexes import keep_common_facets
from retrieval.adapters.store.search.vectors import count_pending
from retrieval.services.add import AddReport, Writer
from retrieval.services.collections import refresh_windows
from retrieval.services.indexes import IndexOutcome, keep_index, rebuild_index
from retrieval.services.memories import FORGOTTEN_TOGETHER, forget
from retrieval.services.textsearch import keep_textsearch_index, rebuild_textsearch_index
from retrieval.services.workplace import JobTarget, Workplace

LEAST_INDEXED = 1000
"""A collection with fewer items and without an index is skipped."""


async def always(_workplace: Workplace, _target: JobTarget) -> bool:
    """True: only the job itself shows whether there is work to do."""
    return True


async def are_weights_off(workplace: Workplace, target: JobTarget) -> bool:
    """True if weights have to be recomputed, or differences added to the statistics."""
    return await terms.are_weights_off(workplace.place(target))


async def weigh(workplace: Workplace, target: JobTarget) -> dict[str, Any]:
    """Recompute the BM25 weights if the average length has drifted, or an earlier run was interrupted."""
    await terms.fold_statistics(workplace.place(target))
    weighed = await terms.refresh_weights(workplace.place(target))
    workplace.advance(weighed)
    return {"weighed": weighed}


async def is_index_in_question(_workplace: Workplace, target: JobTarget) -> bool:
    """True if the collection has an index, or is large enough to need one."""
    collection = target.collection
    return collection.ann_index is not None or collection.documents >= LEAST_INDEXED


async def index(workplace: Workplace, target: JobTarget) -> dict[str, Any]:
    """Make, keep or drop the collection's indexes, as its size requires: HNSW, and those of pg_textsearch."""
    collection = target.collection
    outcome = await keep_index(workplace.database, target.tenant_id, collection)
    if outcome is IndexOutcome.PRESENT and collection.space is not None:
        await keep_common_facets(workplace.place(target), collection.space.space_id)
    textsearch = await keep_textsearch_index(workplace.database, collection)
    return {"index": outcome.value, "textsearch": textsearch.value}


async def recount(workplace: Workplace, target: JobTarget) -> dict[str, Any]:
    """Recount the collection's terms, and correct wrong counts."""
    mended = await terms.recount_terms(workplace.place(target))
    workplace.advance(mended)
    return {"mended": mended}


async def is_anything_pending(workplace: Workplace, target: JobTarget) -> bool:
    """True if items are pending and there is an embedder."""
    space = target.collection.space
    if space is None or workplace.embedder_of(target.tenant_id, space) is None:
        return False
    return await count_pending(workplace.place(target), space) > 0


async def embed_pending(workplace: Workplace, target: JobTarget) -> dict[str, Any]:
    """Embed the collection's pending items, page by page; refused items stay pending and are named.

    Each page is stored when it is done: an interruption loses one page.
    """
    space = target.collection.space
    if space is None:
        return {"embedded": 0, "pending": 0}
    embedder = workplace.embedder_of(target.tenant_id, space)
    report = AddReport()
    if embedder is not None:
        writer = Writer(workplace.database, target.tenant_id, target.collection, embedder)
        report = await writer.followed(lambda so_far: workplace.end_of_step(so_far.embedded)).embed_pending(report)
    pending = await count_pending(workplace.place(target), space)
    notes = report.notes
    if embedder is None and pending:
        notes = (no_embedder(space.space),)
    return {"embedded": report.embedded, "pending": pending, **({"notes": list(notes)} if notes else {})}


async def is_walk_unfinished(workplace: Workplace, target: JobTarget) -> bool:
    """Whether a change of neighbours was interrupted before all items were indexed by it."""
    return await are_windows_behind(workplace.place(target))


async def finish_walk(workplace: Workplace, target: JobTarget) -> dict[str, Any]:
    """Index the items that a change of neighbours has not reached yet."""
    return {"reindexed": await refresh_windows(workplace.place(target), workplace.end_of_step)}


async def is_anything_expired(workplace: Workplace, target: JobTarget) -> bool:
    """Whether a memory of the collection has expired."""
    return bool(await expired_memories(workplace.place(target), now=workplace.now(), most=1))


async def forget_expired(workplace: Workplace, target: JobTarget) -> dict[str, Any]:
    """Forget the memories that have expired, batch by batch; returns their number."""
    moment = workplace.now()
    place = workplace.place(target)
    forgotten = 0
    while ids := await expired_memories(place, now=moment, most=FORGOTTEN_TOGETHER):
        forgotten += await forget(place, ids, expired_by=moment)
        workplace.end_of_step(forgotten)
    return {"forgotten": forgotten}


async def prune(workplace: Workplace, target: JobTarget) -> dict[str, Any]:
    """Remove a collection's old rows, its tenant's old cache entries, and every tenant's expired answers to writes.

    Returns the number of rows by table.
    """
    database, tenant_id, collection_id = workplace.place(target)[:3]
    settings = workplace.settings
    of_tenant, of_collection = ("tenant_id", tenant_id), ("collection_id", collection_id)
    older: dict[str, Callable[[], Awaitable[int]]] = {
        table: partial(remove_older, database, tenant_id, table, owner=owner, time=time, days=days)
        for table, owner, time, days in (
            ("embedding_cache", of_tenant, "created_at", settings.retention_cache_days),
            ("query_rewrites", of_tenant, "expires_at", 0),
            ("query_samples", of_collection, "sampled_at", settings.retention_samples_days),
            ("recall_measurements", of_collection, "measured_at", settings.retention_runs_days),
            ("job_runs", of_collection, "started_at", settings.retention_runs_days),
            ("recording_losses", of_collection, "day", settings.retention_retrievals_days),
        )
    }
    older["idempotency_keys"] = partial(remove_expired_writes, database, tenant_id)
    removed: dict[str, Any] = dict.fromkeys(older, 0)
    for table, remove_step in older.items():
        while count := await remove_step():
            removed[table] += count
            workplace.end_of_step(sum(removed.values()))
    return removed


async def are_months_due(workplace: Workplace, _target: JobTarget) -> bool:
    """True if a month is missing, or may be dropped."""
    return await is_any_month_due(workplace.database, workplace.settings.retention_retrievals_days)


async def keep_months(workplace: Workplace, _target: JobTarget) -> dict[str, Any]:
    """Make and drop months; returns the number of tables made and dropped."""
    made = await ensure_months(workplace.database)
    workplace.advance(made)
    dropped = await drop_months(workplace.database, workplace.settings.retention_retrievals_days)
    workplace.advance(made + dropped)
    return {"made": made, "dropped": dropped}


async def reindex(workplace: Workplace, target: JobTarget) -> dict[str, Any]:
    """Recount terms, recompute every BM25 weight and rebuild the indexes, whether they need it or not.

    Rows that do not agree with their items (``retrieval doctor --deep``) are corrected first. The index of vectors,
    which takes longest, comes last, so that an earlier interruption does not lose its build.
    """
    mended = await mend_disagreements(workplace.place(target))
    workplace.end_of_step()
    mended += await terms.recount_terms(workplace.place(target))
    workplace.end_of_step()
    # Every collection has more drift than -1.
    weighed = await terms.refresh_weights(workplace.place(target), drift=-1.0)
    workplace.end_of_step(weighed)
    textsearch = await rebuild_textsearch_index(workplace.database, target.collection)
    workplace.end_of_step()
    outcome = await rebuild_index(workplace.database, target.tenant_id, target.collection)
    return {"mended": mended, "weighed": weighed, "textsearch": textsearch.value, "index": outcome.value}
