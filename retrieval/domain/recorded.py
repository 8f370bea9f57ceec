"""A search as it is kept: what was asked, how it was answered, and everything needed to answer it so again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from retrieval.domain.slate import Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class Impression:
    """A hit that was shown. The names are those of the columns."""

    item_id: str
    rank: int
    """From 1."""
    score: float
    signals: Mapping[str, Any]
    """What made the score, by name: rank, raw, weight and value of each contribution."""
    slot: Slot
    propensity: float
    """The probability that the item was in the slate, above 0 and at most 1."""
    rank_propensity: float
    """The probability that it stood at this rank, above 0 and at most ``propensity``."""
    pulls: float
    """The decayed number of events known of the item when it was shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSearch:
    """A recorded search with its impressions. The names are those of the columns."""

    collection_id: int
    retrieval_id: UUID
    retrieved_at: datetime
    """The identifier's time, to the millisecond."""
    actor: str
    session: str
    domain: str
    complexity: float | None
    cluster: int | None
    """The embedding cluster of the query; None: not known."""
    query: str
    """The words that were ranked by."""
    vector: Sequence[float] | None
    """The vector that the caller gave, at unit length; None: the words were embedded."""
    condition: Mapping[str, Any]
    """The filter as ``retrieval.domain.filters`` reads it; empty: none."""
    request: Mapping[str, Any]
    """The rest of what was asked: see ``retrieval.engine.recorded_request``."""
    profile_version: int
    """0: the call brought its own, which stands in ``request``, or an application put the answer together."""
    model_version: int
    """0: nothing learned counted."""
    policy: str
    """Name and version of the exploration policy, such as ``off/1``."""
    statistics_at: datetime
    """The moment of the arms that were read; the search's own where none were."""
    seed: int
    """63 bits: what chance went by."""
    eligible: int
    """Items among which exploration drew."""
    hits: int
    path: str
    notes: Sequence[str]
    timings_ms: Mapping[str, float]
    retrieval_time_ms: float
    top_score: float | None
    """The first hit's score; None without hits."""
    score_spread: float | None
    """The first score minus the fifth, or the last where there are fewer; None without hits."""
    generation_triggered: bool
    backtrack_count: int
    pool_items: Sequence[str]
    """Candidates in the order of relevance, best first."""
    pool_signals: Mapping[str, Any]
    """By name, in the order of ``pool_items``: ``legs`` (raw scores by leg, None where the leg did not bring the item),
    ``ranks`` (the same of its ranks), ``relevance``, ``scaled`` (that from 0 to 1), ``score``; where arms were read
    ``eligible`` (1 or 0), ``uses``, ``raw_successes``; where something was learned ``learned``,
    ``effective_sample_size``, ``logit_mean``, ``cosine`` (of the query and those that the item was rewarded for);
    where a policy drew ``propensity``. And ``bests``: by leg, the score that a weighted sum takes as 1."""
    impressions: Sequence[Impression]

    @property
    def origin(self) -> str:
        """What put the answer together, where that was an application; empty: a search."""
        return str(self.request.get("origin", ""))
