"""How the collections of a tenant stand: what is stored, what waits, what ran, what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from retrieval.adapters.store.items.collection_facts import read_facts
from retrieval.adapters.store.items.collections import StoredCollection, all_collections
from retrieval.adapters.store.records.job_runs import JobRun
from retrieval.adapters.store.search.indexes import IndexStatus
from retrieval.adapters.store.search.recall import Measurement
from retrieval.jobs.weights import DRIFT
from retrieval.jobs.workplace import Workplace


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
    database = workplace.database
    stored = await all_collections(database, tenant_id)
    known = await read_facts(database, tenant_id, stored, drift=DRIFT)
    return [
        CollectionStatus(
            name=one.name,
            documents=one.documents,
            space=_space_name(one),
            pending=known.pending.get(one.collection_id, 0),
            weights_pending=one.collection_id in known.weights_off,
            indexes=tuple(known.indexes.get(one.collection_id, ())),
            runs=tuple(known.runs.get(one.collection_id, ())),
            recall=tuple(known.recall.get(one.collection_id, ())),
            unrecorded=dict(known.losses.get(one.collection_id, ())),
        )
        for one in stored
    ]


def run_as_dict(run: JobRun) -> dict[str, Any]:
    """Plain JSON values; times are ISO 8601."""
    return {
        "job": run.job,
        "started_at": run.started_at.isoformat(),
        "seconds": run.seconds,
        "outcome": run.outcome,
        "details": dict(run.details),
    }


def _space_name(collection: StoredCollection) -> str | None:
    return collection.space.space.name if collection.space else None


def _measurement_as_dict(one: Measurement) -> dict[str, Any]:
    measured_at = one.measured_at.isoformat() if one.measured_at else None
    return {**asdict(one), "measured_at": measured_at}
