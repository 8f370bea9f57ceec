"""What a span tells of a search: numbers, names of legs and the path; of the question, nothing."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.trace import Span
from opentelemetry.util.types import AttributeValue

from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.search.candidates import Found
from retrieval.domain.hit import SearchResult
from retrieval.engine.stages import Asked


def tell_search(traced: Span, tenant_id: int, collection: StoredCollection, results: Sequence[SearchResult]) -> None:
    """Whose searches they were, and how many; which way the first one went, and what came of it."""
    first = results[0]
    traced.set_attributes(
        {
            "retrieval.tenant_id": tenant_id,
            "retrieval.collection": collection.name,
            "retrieval.profile_version": first.profile_version or 0,
            "retrieval.searches": len(results),
            "retrieval.path": first.path.value,
            "retrieval.why": first.why,
            "retrieval.weighed": first.weighed,
            "retrieval.hits": sum(len(one) for one in results),
            "retrieval.notes": len(first.notes),
        }
    )
    if first.retrieval_id is not None:
        traced.set_attribute("retrieval.retrieval_id", str(first.retrieval_id))


def tell_candidates(traced: Span | None, asked: Sequence[Asked], each: Sequence[Found]) -> None:
    """What each leg brought, an event a leg: one statement finds the candidates of all of them."""
    if traced is None:
        return
    traced.set_attributes(
        {
            "retrieval.legs": sorted({leg for found in each for leg in found.rankings}),
            "retrieval.depth": asked[0].plan.request.depth,
            "retrieval.effort": asked[0].plan.request.effort,
            "retrieval.filtered": asked[0].request.condition is not None,
            "retrieval.fell_short": any(found.fell_short for found in each),
        }
    )
    for found in each:
        for leg, candidates in found.rankings.items():
            told: dict[str, AttributeValue] = {"retrieval.leg": leg, "retrieval.candidates": len(candidates)}
            if leg.startswith("dense"):
                told |= {"retrieval.path": found.path.value, "retrieval.weighed": found.weighed}
            traced.add_event("leg", told)
