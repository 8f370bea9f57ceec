"""Measures the recall of an HNSW index on sampled live queries, and corrects the index when it falls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from retrieval.adapters.store.installation.queue import has_acted
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.search import recall as store
from retrieval.adapters.store.search.candidate_request import CandidateRequest
from retrieval.adapters.store.search.recall import Measurement, Probe, Sample
from retrieval.adapters.store.search.vectors import StoredSpace
from retrieval.domain.search.hit import Path
from retrieval.domain.search.profile import LegName, Profile
from retrieval.engine.plan import make_plan
from retrieval.engine.request import SearchRequest
from retrieval.services.indexes import LEAST_SAMPLES, RECALL_PROMISED, IndexOutcome, rebuild_index
from retrieval.services.workplace import JobTarget, Workplace

MOST_SAMPLES = 200


async def is_recall_in_question(workplace: Workplace, target: JobTarget) -> bool:
    """Whether the collection's index answered sampled searches whose recall is not measured yet."""
    space = target.collection.space
    if space is None or target.collection.ann_index is None:
        return False
    return await store.has_newer_samples(workplace.place(target), space.space_id)


async def measure_recall(workplace: Workplace, target: JobTarget) -> dict[str, Any]:
    """Measure the latest samples, store the result, and mend the index if its recall is too low.

    A low recall raises the search effort by a step; when the effort is at its maximum, the index is rebuilt.
    """
    collection, space = target.collection, target.collection.space
    if space is None or collection.ann_index is None:
        return {"samples": 0}
    samples = await store.latest_samples(workplace.place(target), space.space_id, most=MOST_SAMPLES)
    probes: list[Probe] = []
    for sample in samples:
        request = dense_request(collection, sample)
        if request.path is not Path.APPROXIMATE:
            continue  # by now it would be answered by comparing everything
        probes.append(await store.probe(workplace.database, target.tenant_id, request, sample))
        workplace.end_of_step(len(probes))
    await store.store_measurements(workplace.place(target), space.space_id, measured(probes, collection.documents))
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
    place = workplace.place(target)
    if (effort := await store.raise_effort(place, space.space_id)) is not None:
        return f"effort raised to {effort}"
    if await has_acted(place, "recall", f"index: {IndexOutcome.REBUILT.value}"):
        await store.give_up_index(place, space.space_id)
        return "neither effort nor a rebuild helps: searches compare all vectors from now on"
    outcome = await rebuild_index(workplace.database, target.tenant_id, target.collection)
    return f"index: {outcome.value}"


_DENSE_ALONE = Profile(legs={LegName.DENSE: 1.0})


def dense_request(collection: StoredCollection, sample: Sample) -> CandidateRequest:
    """The dense leg's request as a search would make it now, for the candidates alone."""
    request = SearchRequest(
        query="", vector=sample.vector, limit=sample.limit, condition=sample.condition, profile=_DENSE_ALONE
    )
    return replace(make_plan(collection, request).request, with_items=False, checks_space=False)
