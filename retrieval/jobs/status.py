"""How the collections of a tenant stand: what is stored, what waits, what ran, what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from retrieval.adapters.store.collections import StoredCollection, all_collections
from retrieval.adapters.store.embeddings import count_pending
from retrieval.adapters.store.index_status import IndexStatus, collection_indexes
from retrieval.adapters.store.job_runs import JobRun, last_runs
from retrieval.adapters.store.measurements import Measurement, last_measurements
from retrieval.adapters.store.recordings import recording_losses
from retrieval.jobs.upkeep import are_weights_off
from retrieval.jobs.workplace import Target, Workplace


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionStatus:
    """One collection."""

    name: str
    documents: int
    """Items that a search can find."""
    space: str | None
    """The embedding space's name; None: lexical search only."""
    pending: int
    """Items that wait for their vector."""
    weights_pending: bool
    """Whether BM25 weights wait to be computed again."""
    indexes: tuple[IndexStatus, ...]
    runs: tuple[JobRun, ...]
    """The last run of each job."""
    recall: tuple[Measurement, ...]
    """What the last run measured."""
    unrecorded: Mapping[str, int]
    """Searches that were to be recorded and were not, by reason."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values; times are ISO 8601."""
        return {
            **{name: getattr(self, name) for name in ("name", "documents", "space", "pending", "weights_pending")},
            "indexes": [asdict(one) for one in self.indexes],
            "runs": [run_as_dict(one) for one in self.runs],
            "recall": [_measurement_as_dict(one) for one in self.recall],
            "unrecorded": dict(self.unrecorded),
        }


async def collection_statuses(workplace: Workplace, tenant_id: int) -> list[CollectionStatus]:
    """How the tenant's collections stand, by name."""
    found = await all_collections(workplace.database, tenant_id)
    return [await _status(workplace, Target(tenant_id, one)) for one in found]


def run_as_dict(run: JobRun) -> dict[str, Any]:
    """Plain JSON values; times are ISO 8601."""
    return {
        "job": run.job,
        "started_at": run.started_at.isoformat(),
        "seconds": run.seconds,
        "outcome": run.outcome,
        "details": dict(run.details),
    }


async def _status(workplace: Workplace, target: Target) -> CollectionStatus:
    database, tenant_id, collection = workplace.database, target.tenant_id, target.collection
    collection_id, space = collection.collection_id, collection.space
    pending, recall = 0, list[Measurement]()
    if space is not None:
        pending = await count_pending(database, tenant_id, collection_id, space)
        recall = await last_measurements(database, tenant_id, collection_id, space.space_id)
    return CollectionStatus(
        name=collection.name,
        documents=collection.documents,
        space=_space_name(collection),
        pending=pending,
        weights_pending=await are_weights_off(workplace, target),
        indexes=tuple(await collection_indexes(database, tenant_id, collection_id)),
        runs=tuple(await last_runs(database, tenant_id, collection_id)),
        recall=tuple(recall),
        unrecorded=await recording_losses(database, tenant_id, collection_id),
    )


def _space_name(collection: StoredCollection) -> str | None:
    return collection.space.space.name if collection.space else None


def _measurement_as_dict(one: Measurement) -> dict[str, Any]:
    measured_at = one.measured_at.isoformat() if one.measured_at else None
    return {**asdict(one), "measured_at": measured_at}
