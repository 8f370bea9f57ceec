"""A recorded search as it is told to who asks for it: what was asked, in what situation, how it was answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from retrieval.domain.context import Context
from retrieval.domain.recorded import RecordedSearch
from retrieval.domain.search_record import Impression


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalSummary:
    """A recorded search in a list."""

    retrieval_id: UUID
    retrieved_at: datetime
    query: str
    origin: str
    """What put the answer together, where that was an application; empty: a search."""
    actor: str
    session: str
    domain: str
    profile_version: int
    """0: the call brought its own, or an application put the answer together."""
    path: str
    hits: int
    top_score: float | None
    """The first hit's score; None without hits."""
    retrieval_time_ms: float

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values; times are ISO 8601."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {**values, "retrieval_id": str(self.retrieval_id), "retrieved_at": self.retrieved_at.isoformat()}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRetrieval:
    """A recorded search with its impressions."""

    retrieval_id: UUID
    retrieved_at: datetime
    collection: str
    origin: str
    """What put the answer together, where that was an application; empty: a search."""
    query: str
    is_by_vector: bool
    """Whether the caller gave a vector; otherwise the words were embedded."""
    where: Mapping[str, Any]
    """The filter; empty: none."""
    request: Mapping[str, Any]
    """The rest of what was asked, such as ``limit``, ``group_by`` and the call's own ``profile``."""
    context: Context
    profile_version: int
    """0: the call brought its own, or an application put the answer together."""
    model_version: int
    """Of the learned reward; 0: nothing learned counted."""
    policy: str
    """Name and version of the exploration policy, such as ``off/1``."""
    path: str
    notes: Sequence[str]
    timings_ms: Mapping[str, float]
    retrieval_time_ms: float
    candidates: int
    """How many are on record, for replay and comparisons."""
    impressions: Sequence[Impression]
    """What was shown, by rank."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values; times are ISO 8601."""
        return {
            "retrieval_id": str(self.retrieval_id),
            "retrieved_at": self.retrieved_at.isoformat(),
            "collection": self.collection,
            "origin": self.origin,
            "query": self.query,
            "is_by_vector": self.is_by_vector,
            "where": dict(self.where),
            "request": dict(self.request),
            "context": {name: getattr(self.context, name) for name in Context.__slots__},
            "profile_version": self.profile_version,
            "model_version": self.model_version,
            "policy": self.policy,
            "path": self.path,
            "notes": list(self.notes),
            "timings_ms": dict(self.timings_ms),
            "retrieval_time_ms": self.retrieval_time_ms,
            "candidates": self.candidates,
            "impressions": [_shown(one) for one in self.impressions],
        }


def retrieval_of(recorded: RecordedSearch, collection: str) -> RecordedRetrieval:
    """The record as callers see it; ``collection`` is the name of its collection."""
    return RecordedRetrieval(
        retrieval_id=recorded.retrieval_id,
        retrieved_at=recorded.retrieved_at,
        collection=collection,
        origin=recorded.origin,
        query=recorded.query,
        is_by_vector=recorded.vector is not None,
        where=recorded.condition,
        request=recorded.request,
        context=context_of(recorded),
        profile_version=recorded.profile_version,
        model_version=recorded.model_version,
        policy=recorded.policy,
        path=recorded.path,
        notes=recorded.notes,
        timings_ms=recorded.timings_ms,
        retrieval_time_ms=recorded.retrieval_time_ms,
        candidates=len(recorded.pool_items),
        impressions=recorded.impressions,
    )


def context_of(recorded: RecordedSearch) -> Context:
    """The situation that the search was recorded with."""
    return Context(
        domain=recorded.domain,
        complexity=recorded.complexity,
        actor=recorded.actor,
        session=recorded.session,
        backtracks=recorded.backtrack_count,
        generated=recorded.generation_triggered,
    )


def _shown(one: Impression) -> dict[str, Any]:
    values = {name: getattr(one, name) for name in Impression.__slots__}
    return {**values, "signals": dict(one.signals), "slot": one.slot.value}
