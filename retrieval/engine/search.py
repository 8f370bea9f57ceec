"""One search, told in the order it happens: plan, candidates, fuse, items, explain."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from retrieval.adapters.embedders.cached import CachedEmbedder
from retrieval.adapters.store.candidates import find_candidates
from retrieval.adapters.store.collections import StoredCollection
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items import read_items
from retrieval.domain.embedding import Vector
from retrieval.domain.errors import EmbedderError, InvalidRequestError
from retrieval.domain.fusion import Candidate, Fused, fuse
from retrieval.domain.hit import Explanation, Hit, SearchResult
from retrieval.domain.item import Item
from retrieval.domain.profile import Fusion, LegName, Profile
from retrieval.engine.plan import NO_SPACE, Plan, make_plan
from retrieval.engine.request import SearchRequest, check_fields, check_vector

Clock = Callable[[], float]
"""Seconds that only ever rise."""


@dataclass(slots=True)
class _Stopwatch:
    """Milliseconds by stage."""

    clock: Clock
    laps: dict[str, float] = field(default_factory=dict)
    started: float = field(init=False)
    last: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.last = self.clock()

    def lap(self, stage: str) -> None:
        now = self.clock()
        self.laps[stage] = round((now - self.last) * 1e3, 3)
        self.last = now

    def total(self) -> Mapping[str, float]:
        return {**self.laps, "total": round((self.last - self.started) * 1e3, 3)}


async def search(
    database: Database,
    tenant_id: int,
    collection: StoredCollection,
    embedder: CachedEmbedder | None,
    request: SearchRequest,
    *,
    clock: Clock = time.perf_counter,
) -> SearchResult:
    """The best hits for a request, each explained.

    An embedder that fails costs the dense leg, not the search: the result's notes say so. With no other leg to
    answer, its error is raised. Raises ``UnknownFieldError`` and the errors of ``checked_vectors``.
    """
    watch = _Stopwatch(clock)
    plan, vector = await _plan(collection, embedder, request)
    watch.lap("embed")
    rankings = await find_candidates(
        database, tenant_id, plan.request, query=request.query, vector=vector, budget=plan.budget
    )
    watch.lap("candidates")
    fused = fuse(rankings, plan.profile.legs, plan.profile.fusion, depth=plan.request.depth)
    best = fused[: request.limit]
    found = await read_items(database, tenant_id, collection.collection_id, [one.item_id for one in best])
    watch.lap("items")
    return SearchResult(
        hits=_hits(best, found, plan.profile.fusion),
        path=plan.path,
        why=plan.why,
        profile_version=collection.profile_version if request.profile is None else None,
        notes=plan.notes,
        timings_ms=watch.total(),
    )


async def leg_rankings(
    database: Database,
    tenant_id: int,
    collection: StoredCollection,
    embedder: CachedEmbedder | None,
    request: SearchRequest,
) -> dict[str, list[Candidate]]:
    """Each leg's candidates before fusion: what tuning starts from."""
    plan, vector = await _plan(collection, embedder, request)
    return await find_candidates(
        database, tenant_id, plan.request, query=request.query, vector=vector, budget=plan.budget
    )


async def _plan(
    collection: StoredCollection, embedder: CachedEmbedder | None, request: SearchRequest
) -> tuple[Plan, Vector | None]:
    profile = request.profile or collection.profile
    if collection.documents:  # of an empty collection no field is known yet, and every filter finds nothing
        check_fields(request.condition, collection.attributes)
    vector, why_none = await _query_vector(collection, embedder, request, profile)
    plan = make_plan(
        collection,
        profile,
        has_words=bool(request.query),
        vector_note=why_none,
        condition=request.condition,
        limit=request.limit,
    )
    return plan, vector


async def _query_vector(
    collection: StoredCollection, embedder: CachedEmbedder | None, request: SearchRequest, profile: Profile
) -> tuple[Vector | None, str | None]:
    """The vector to search with, or why there is none."""
    if request.vector is not None:
        if collection.space is None:
            raise InvalidRequestError(f"collection {collection.name!r} has no embedding space to search by vector")
        return check_vector(request.vector, collection.space.space), None
    if not profile.legs.get(LegName.DENSE):
        return None, "the dense leg is not part of this search"
    if collection.space is None:
        return None, NO_SPACE
    if embedder is None:
        return (
            None,
            f"the dense leg did not run: no embedder for the space {collection.space.space.name} is configured",
        )
    try:
        return await embedder.embed_query(request.query), None
    except EmbedderError as error:
        if not profile.legs.get(LegName.LEXICAL):
            raise
        return None, f"the dense leg did not run: {error}"


def _hits(best: Sequence[Fused], found: Mapping[str, Item], fusion: Fusion) -> tuple[Hit, ...]:
    """The hits in order; an item that was removed since its leg found it is left out."""
    present = [one for one in best if one.item_id in found]
    return tuple(_hit(one, found[one.item_id], rank, fusion) for rank, one in enumerate(present, 1))


def _hit(one: Fused, item: Item, rank: int, fusion: Fusion) -> Hit:
    return Hit(
        item_id=one.item_id,
        score=one.score,
        rank=rank,
        explanation=Explanation(fusion.kind.value, one.contributions),
        title=item.title,
        body=item.body,
        kind=item.kind,
        tags=item.tags,
        attributes=item.attributes,
        status=item.status,
        source=item.source,
        occurred_at=item.occurred_at,
    )
