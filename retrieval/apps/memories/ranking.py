"""The ranking of memories as profiles, and a memory as it was retrieved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from types import MappingProxyType
from typing import Any
from uuid import UUID

from retrieval.domain.items.memory import Memory
from retrieval.domain.search.hit import Explanation, Hit
from retrieval.domain.search.profile import Fusion, FusionKind, Profile
from retrieval.domain.search.profile_parts import Recording
from retrieval.domain.search.signal import Signal
from retrieval.domain.search.signals import (
    SIGNALS,
    BaseRelevance,
    EntityOverlap,
    KeywordOverlap,
    Popularity,
    Recency,
    VectorSimilarity,
)

MIN_SCORE = 0.3
"""The least score of a memory that is given, unless a call says otherwise."""

DECAY_DAYS = 14.0
"""The days by which recency decays: e^(-days / 14)."""


def _union(legs: tuple[str, ...], *signals: Signal, min_score: float | None = MIN_SCORE) -> Profile:
    return Profile(
        legs=MappingProxyType(dict.fromkeys(legs, 1.0)),
        depth=100,
        fusion=Fusion(kind=FusionKind.UNION),
        signals=signals,
        min_score=min_score,
    )


SEED_PROFILE = _union(
    ("lexical", "recent", "popular", "relevant", "linked"),
    BaseRelevance(weight=0.30),
    Recency(weight=0.25, decay_days=DECAY_DAYS),
    KeywordOverlap(weight=0.20),
    Popularity(weight=0.15),
    EntityOverlap(weight=0.10),
)
"""The hybrid profile: words, time, use, links and base relevance, without vectors."""

SEMANTIC_PROFILE = _union(
    ("dense", "lexical", "recent", "popular", "relevant", "linked"),
    BaseRelevance(weight=0.21),
    Recency(weight=0.175, decay_days=DECAY_DAYS),
    KeywordOverlap(weight=0.14),
    Popularity(weight=0.105),
    EntityOverlap(weight=0.07),
    VectorSimilarity(weight=0.30),
)
"""The hybrid's weights times .7, and .3 for the similarity of meaning."""

STRATEGIES: Mapping[str, Profile] = MappingProxyType(
    {
        "keyword": _union(("lexical",), KeywordOverlap(weight=1.0)),
        "entity": _union(("linked",), EntityOverlap(weight=1.0)),
        "recency": _union(("recent",), Recency(weight=1.0, decay_days=DECAY_DAYS)),
        "popularity": _union(("popular",), Popularity(weight=1.0)),
        "hybrid": SEED_PROFILE,
    }
)
"""The strategies by name; each of the first four is one signal alone."""

PROFILES: Mapping[str, Profile] = MappingProxyType({**STRATEGIES, "semantic": SEMANTIC_PROFILE})
"""The values of ``strategy``: the strategies, and the hybrid with meaning."""

TIMELINE_PROFILE = Profile(
    legs=MappingProxyType({"recent": 1.0}),
    fusion=Fusion(kind=FusionKind.UNION),
    signals=(Recency(weight=1.0, decay_days=DECAY_DAYS),),
    recording=Recording(rate=0.0),
)
"""The latest memories, unrecorded: there is no question that could be answered well or badly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelevantMemory(Memory):
    """One memory of an answer."""

    computed_relevance_score: float
    """The sum of the signals' contributions: 0 to 1 where the weights sum to 1. Higher is better."""
    rank: int
    """The rank, from 1."""
    explanation: Explanation
    """The signals with their values and weights, and the legs that brought it."""
    retrieval_id: UUID | None = None
    """Under which the answer is recorded, for feedback; None: it is not."""
    history: tuple[Memory, ...] = ()
    """The versions that were superseded, newest first; empty where the call did not ask for them."""

    @property
    def signals(self) -> dict[str, float]:
        """The value of each signal that counts, by its name, 0 to 1."""
        return {part.leg: part.raw_score for part in self.explanation.contributions if part.leg in SIGNALS}

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        given = {part.name: _plain(getattr(self, part.name)) for part in fields(self)}
        history = [version.as_dict() for version in self.history]
        return {**given, "explanation": self.explanation.as_dict(), "history": history}


def relevant(memory: Memory, hit: Hit, retrieval_id: UUID | None) -> RelevantMemory:
    """The memory with how it was found."""
    return RelevantMemory(
        **{part.name: getattr(memory, part.name) for part in fields(memory)},
        computed_relevance_score=hit.score,
        rank=hit.rank,
        explanation=hit.explanation,
        retrieval_id=retrieval_id,
    )


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return list(value) if isinstance(value, tuple) else value
