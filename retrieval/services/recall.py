"""Measures the recall of an HNSW index on sampled live queries, and corrects the index when it falls."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.search.candidate_request import CandidateRequest
from retrieval.adapters.store.search.recall import (
    Measurement,
    Probe,
    Sample,
    give_up_index,
    has_newer_samples,
    latest_samples,
    probe,
    raise_effort,
    store_measurements,
)
from retrieval.adapters.store.search.vectors import StoredSpace
from retrieval.domain.search.hit import Path
from retrieval.domain.search.profile import LegName
from retrieval.engine.plan import choose_way, share_by_facets
from retrieval.services.indexes import RECALL_PROMISED, IndexOutcome, rebuild_index
from retrieval.services.workplace import JobTarget, Workplace

MOST_SAMPLES = 200
LEAST_SAMPLES = 10
"""The fewest samples to act on."""

_WAS_REBUILT = Compiled("""
    SELECT EXISTS (
        SELECT FROM job_runs r
        WHERE r.collection_id = %(id)s AND r.job = 'recall' AND r.details ->> 'action' = %(action)s::text
    )
""")


async def is_recall_in_question(workplace: Workplace, target: JobTarget) -> bool:
    """Whether the collection's index answered sampled searches whose recall is not measured yet."""
    space = target.collection.space
    if space is None or target.collection.ann_index is None:
        return False
    return await has_newer_samples(workplace.place(target), space.space_id)


async def measure_recall(workplace: Workplace, target: JobTarget) -> dict[str, Any]:
    """Measure the latest samples, store the result, and mend the index if its recall is too low.

    A low recall raises the search effort by a step; when the effort is at its maximum, the index is rebuilt.
    """
    collection, space = target.collection, target.collection.space
    if space is None or collection.ann_index is None:
        return {"samples": 0}
    samples = await latest_samples(workplace.place(target), space.space_id, most=MOST_SAMPLES)
    probes: list[Probe] = []
    for sample in samples:
        request = dense_request(target.collection, space, sample)
        if request.path is not Path.APPROXIMATE:
            continue  # by now it would be answered by comparing everything
        probes.append(await probe(workplace.database, target.tenant_id, request, sample))
        workplace.end_of_step(len(probes))
    await store_measurements(workplace.place(target), space.space_id, measured(probes, collection.documents))
    if not probes:
        return {"samples": 0}
    recall = fmean(sample.recall for sample in probes)
    details: dict[str, Any] = {"samples": len(probes), "recall": round(recall, 4)}
    if recall < RECALL_PROMISED and len(probes) >= LEAST_SAMPLES:
        details["action"] = await _mend(workplace, target, space)
    return details


def measured(probes: Sequence[Probe], documents: int) -> list[Measurement]:
    """The probes by the share of the collection's items that their filters let through."""
    groups: dict[str, list[Probe]] = {}
    for sample in probes:
        groups.setdefault(bucket(sample.matches, documents), []).append(sample)
    return [
        Measurement(
            bucket=name,
            samples=len(group),
            recall=fmean(sample.recall for sample in group),
            short_pages=sum(sample.is_short for sample in group),
            effort=min(sample.effort for sample in group),
        )
        for name, group in sorted(groups.items())
    ]


def bucket(matches: int | None, documents: int) -> str:
    """A name for the share of the items that a filter lets through."""
    if matches is None:
        return "no filter"
    share = matches / max(documents, 1)
    if share > 0.1:
        return "over 10 %"
    return "1 to 10 %" if share > 0.01 else "under 1 %"


async def _mend(workplace: Workplace, target: JobTarget, space: StoredSpace) -> str:
    async with workplace.database.transaction(target.tenant_id) as connection:
        effort = await raise_effort(connection, target.collection.collection_id, space.space_id)
    if effort is not None:
        return f"effort raised to {effort}"
    rebuilt = _WAS_REBUILT.bind(id=target.collection.collection_id, action=f"index: {IndexOutcome.REBUILT.value}")
    if (await workplace.database.read(target.tenant_id, rebuilt))[0][0]:
        async with workplace.database.transaction(target.tenant_id) as connection:
            await give_up_index(connection, target.collection.collection_id, space.space_id)
        return "neither effort nor a rebuild helps: searches compare all vectors from now on"
    outcome = await rebuild_index(workplace.database, target.tenant_id, target.collection)
    return f"index: {outcome.value}"


def dense_request(collection: StoredCollection, space: StoredSpace, sample: Sample) -> CandidateRequest:
    """The dense leg's request as a search would make it now."""
    legs = (LegName.DENSE,)
    is_filtered = sample.condition is not None
    by_facets = share_by_facets(collection, sample.condition)
    way = choose_way(
        collection, legs, depth=sample.limit, limit=sample.limit, is_filtered=is_filtered, by_facets=by_facets
    )
    return CandidateRequest(
        collection_id=collection.collection_id,
        legs=legs,
        depth=sample.limit,
        condition=sample.condition,
        filterable=collection.filterable,
        path=way.path,
        space_id=space.space_id,
        dimensions=space.space.dimensions,
        documents=collection.documents,
        few=way.few,
        reach=way.reach,
        effort=way.effort,
        is_quantised=collection.ann_index is not None and collection.ann_index.is_quantised,
        parts=1 if collection.ann_index is None else collection.ann_index.parts,
    )
