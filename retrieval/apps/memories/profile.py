"""How memories are ranked: the hybrid of five signals, one with meaning as a sixth, and each strategy by itself."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from retrieval.domain.profile import Fusion, FusionKind, Profile
from retrieval.domain.recording import Recording
from retrieval.domain.signals.base_relevance import BaseRelevance
from retrieval.domain.signals.entity import EntityOverlap
from retrieval.domain.signals.keyword import KeywordOverlap
from retrieval.domain.signals.popularity import Popularity
from retrieval.domain.signals.recency import Recency
from retrieval.domain.signals.signal import Signal
from retrieval.domain.signals.vector_similarity import VectorSimilarity

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
"""The hybrid: words, time, use, links and base relevance. It needs no vectors."""

SEMANTIC_PROFILE = _union(
    ("dense", "lexical", "recent", "popular", "relevant", "linked"),
    BaseRelevance(weight=0.21),
    Recency(weight=0.175, decay_days=DECAY_DAYS),
    KeywordOverlap(weight=0.14),
    Popularity(weight=0.105),
    EntityOverlap(weight=0.07),
    VectorSimilarity(weight=0.30),
)
"""The hybrid's weights times .7, and .3 for how near the meaning is."""

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
"""What ``strategy`` may name: the strategies, and the hybrid with meaning."""

TIMELINE_PROFILE = Profile(
    legs=MappingProxyType({"recent": 1.0}),
    fusion=Fusion(kind=FusionKind.UNION),
    signals=(Recency(weight=1.0, decay_days=DECAY_DAYS),),
    recording=Recording(rate=0.0),
)
"""The latest; nothing was asked that could be answered well or badly, so it is not recorded."""
