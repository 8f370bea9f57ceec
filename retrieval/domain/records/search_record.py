"""A search as it is kept: what cannot be computed from the rest. Light to import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any
from uuid import UUID

from retrieval.domain.records.slate import Slot

Matrix = Sequence[Sequence[float | None]]
"""Rows of numbers; None: not known."""

TOTAL = "total"
"""The time of a whole search among those of its stages."""

SPREAD_HITS = 5
"""The spread of the scores is that of so many hits."""


def score_spread(scores: Sequence[float]) -> float | None:
    """The first score minus the fifth one, or the last where there are fewer; None without any. Best first."""
    return scores[0] - scores[:SPREAD_HITS][-1] if scores else None


USUAL: Mapping[str, Any] = MappingProxyType(
    {
        "group_by": None,
        "prefixes": [],
        "phrases": [],
        "excluded": [],
        "profile": None,
        "is_whole": True,
        "rewrites": [],
        "preferred": {},
        "entities": [],
        "tags": [],
        "as_of": None,
        "min_score": None,
        "min_relevance": None,
    }
)
"""The request's usual values, which are not kept; see ``retrieval.engine.record``."""


def unusual(request: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a request that differ from the usual ones: a record keeps these alone."""
    return {name: value for name, value in request.items() if name not in USUAL or value != USUAL[name]}


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRecord:
    """The record of a search. The names are those of the columns of ``retrievals``.

    A matrix has a row a leg (or a measure), each in the order of ``pool_items``.
    """

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
    """The filter as ``retrieval.domain.search.filters`` reads it; empty: none."""
    request: Mapping[str, Any]
    """The rest of what was asked: see ``retrieval.engine.record``; without what is as ``USUAL``."""
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
    """The milliseconds by stage, without the total."""
    retrieval_time_ms: float
    top_score: float | None
    """The first hit's score; None without hits."""
    score_spread: float | None
    """The first score minus the fifth, or the last where there are fewer; None without hits."""
    generation_triggered: bool
    backtrack_count: int
    legs: Sequence[str] = ()
    """The rankings that were fused, in that order."""
    bests: Sequence[float] = ()
    """The score that a weighted sum takes as 1, by leg."""
    brought: Sequence[int] = ()
    """The number of candidates that each leg brought: those ranked below were looked up. Empty: none was."""
    pool_items: Sequence[str] = ()
    """Candidates in the order of relevance, best first."""
    pool_scores: Matrix = ()
    """Raw scores by leg; None where the leg does not know the item."""
    pool_ranks: Sequence[Sequence[int]] = ()
    """Ranks by leg, from 1, among all whose score is known; 0 where it is not."""
    pool_likeness: Sequence[int] | None = None
    """Each candidate's likeness to the best, by ``retrieval.domain.search.refining.in_steps``; None: not refined."""
    measures: Sequence[str] = ()
    """Other facts about the candidates: where arms were read ``eligible`` (1 or 0), ``uses``, ``raw_successes``;
    where something was learned ``learned``, ``effective_sample_size``, ``logit_mean``, ``cosine`` (of the query and
    those that the item was rewarded for) and ``score``; where a policy drew ``propensity``. Of an answer that an
    application put together ``relevance`` and ``score``."""
    pool_values: Matrix = ()
    """The values of the pool's candidates, by measure."""
    shown_items: Sequence[str] = ()
    """The hits, by rank."""
    shown_scores: Sequence[float] = ()
    shown_slots: Sequence[str] | None = None
    """The slot of each item that was shown; None: all have their place for their scores."""
    propensities: Sequence[float] | None = None
    """The probability that each was in the slate, above 0 and at most 1; None: 1 for all."""
    rank_propensities: Sequence[float] | None = None
    """The probability that each stood at its rank, above 0 and at most its propensity; None: the propensities."""
    pulls: Sequence[float] | None = None
    """The decayed number of events known of each when it was shown; None: 0 for all."""
    shown_signals: Sequence[Mapping[str, Any]] | None = None
    """The parts of each score, by name; None: the score follows from the legs' scores and ranks."""

    @property
    def origin(self) -> str:
        """The part of an application that put the answer together; empty: a search."""
        return str(self.request.get("origin", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Impression:
    """A hit that was shown. The names are those of the columns of ``impressions``."""

    item_id: str
    rank: int
    """The rank, from 1."""
    score: float
    signals: Mapping[str, Any]
    """The parts of the score, by name: rank, raw, weight and value of each contribution."""
    slot: Slot
    propensity: float
    """The probability that the item was in the slate, above 0 and at most 1."""
    rank_propensity: float
    """The probability that it stood at this rank, above 0 and at most ``propensity``."""
    pulls: float
    """The decayed number of events known of the item when it was shown."""


def shown_columns(
    *,
    items: Sequence[str],
    scores: Sequence[float],
    slots: Sequence[Slot],
    propensities: Sequence[float],
    rank_propensities: Sequence[float],
    pulls: Sequence[float] = (),
) -> dict[str, Any]:
    """The columns of a record for the hits, without their signals: None where all is as usual."""
    return {
        "shown_items": items,
        "shown_scores": scores,
        "shown_slots": None if set(slots) <= {Slot.EXPLOIT} else [slot.value for slot in slots],
        "propensities": None if set(propensities) <= {1.0} else propensities,
        "rank_propensities": None if rank_propensities == propensities else rank_propensities,
        "pulls": pulls if any(pulls) else None,
    }
