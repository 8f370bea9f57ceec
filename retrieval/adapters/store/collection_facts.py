"""How several collections stand, in one round trip however many they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

from retrieval.adapters.store.collections import StoredCollection
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.index_status import IndexStatus
from retrieval.adapters.store.job_runs import JobRun
from retrieval.adapters.store.measurements import Measurement
from retrieval.adapters.store.pending_counts import pending_by_id, pending_statements

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionFacts:
    """What is known of the collections, each by its number; one of which nothing is known is missing."""

    pending: Mapping[int, int]
    """Items that wait for their vector."""
    weights_off: frozenset[int]
    """Those whose BM25 weights wait to be computed again."""
    indexes: Mapping[int, Sequence[IndexStatus]]
    """HNSW indexes, by name."""
    runs: Mapping[int, Sequence[JobRun]]
    """The last run of each job, by job."""
    recall: Mapping[int, Sequence[Measurement]]
    """What the last run measured in the active space, by bucket."""
    losses: Mapping[int, Sequence[tuple[str, int]]]
    """Searches that were to be recorded and were not, by reason."""


_WEIGHTS = Compiled("""
    SELECT t.collection_id FROM collection_statistics t
    WHERE t.collection_id = ANY(%(ids)s) AND (t.weighing_after IS NOT NULL OR t.documents > 0
        AND abs(t.total_length::real / t.documents - coalesce(t.weighed_length, 0))
            > %(drift)s * coalesce(t.weighed_length, 0))
""")
_INDEXES = Compiled("""
    SELECT named.id, k.relname::text, i.indisvalid, pg_relation_size(k.oid), k.reltuples::bigint
    FROM pg_index i JOIN pg_class k ON k.oid = i.indexrelid JOIN pg_namespace n ON n.oid = k.relnamespace
    CROSS JOIN LATERAL (
        SELECT (regexp_match(k.relname::text, '^embeddings_[0-9]+_([0-9]+)_hnsw'))[1]::bigint
    ) AS named (id)
    WHERE n.nspname = current_schema() AND named.id = ANY(%(ids)s)
    ORDER BY named.id, k.relname
""")
_RUNS = Compiled("""
    SELECT DISTINCT ON (r.collection_id, r.job)
        r.collection_id, r.job, r.started_at, r.finished_at, r.outcome, r.details
    FROM job_runs r
    WHERE r.collection_id = ANY(%(ids)s)
    ORDER BY r.collection_id, r.job, r.run_id DESC
""")
_RECALL = Compiled("""
    SELECT m.collection_id, m.bucket, m.samples, m.recall, m.short_pages, m.effort, m.measured_at
    FROM recall_measurements m JOIN collections c ON c.collection_id = m.collection_id AND c.space_id = m.space_id
    WHERE m.collection_id = ANY(%(ids)s) AND m.measured_at = (
        SELECT max(l.measured_at) FROM recall_measurements l
        WHERE l.collection_id = m.collection_id AND l.space_id = m.space_id)
    ORDER BY m.collection_id, m.bucket
""")
_LOSSES = Compiled("""
    SELECT l.collection_id, l.reason, sum(l.retrievals)::bigint FROM recording_losses l
    WHERE l.collection_id = ANY(%(ids)s) GROUP BY l.collection_id, l.reason ORDER BY l.collection_id, l.reason
""")
_RUN = ("job", "started_at", "finished_at", "outcome", "details")
_MEASURED = ("bucket", "samples", "recall", "short_pages", "effort", "measured_at")


async def read_facts(
    database: Database, tenant_id: int, collections: Sequence[StoredCollection], *, drift: float
) -> CollectionFacts:
    """How those collections of the tenant stand.

    ``drift``: how far the average length may move, as a share, before the weights count as off.
    """
    ids = [one.collection_id for one in collections]
    several = [one.bind(ids=ids) for one in (_INDEXES, _RUNS, _RECALL, _LOSSES)]
    statements = [_WEIGHTS.bind(ids=ids, drift=drift), *several, *pending_statements(collections)]
    weights, indexes, runs, recall, losses, *pending = await database.read_each(tenant_id, statements)
    return CollectionFacts(
        pending=pending_by_id(pending),
        weights_off=frozenset(row[0] for row in weights),
        indexes=_grouped(indexes, lambda row: IndexStatus(name=row[0], valid=row[1], bytes=row[2], rows=row[3])),
        runs=_grouped(runs, lambda row: JobRun(**dict(zip(_RUN, row, strict=True)))),
        recall=_grouped(recall, lambda row: Measurement(**dict(zip(_MEASURED, row, strict=True)))),
        losses=_grouped(losses, lambda row: (row[0], row[1])),
    )


def _grouped(rows: Sequence[tuple[Any, ...]], make: Callable[[tuple[Any, ...]], _T]) -> dict[int, list[_T]]:
    """Rows that begin with their collection's number, and come by it: what the rest of each makes, for each number."""
    return {key: [make(row[1:]) for row in group] for key, group in groupby(rows, key=lambda row: row[0])}
