"""The stored record of a search, without computable values, and of an application's answer. Light to import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import UUID

from retrieval.domain.learning.context import Context
from retrieval.domain.records.retrieval_id import time_of
from retrieval.domain.records.slate import ShownItem, Slot

if TYPE_CHECKING:
    from retrieval.domain.items.embedding import Vector

Matrix = Sequence[Sequence[float | None]]
"""Rows of numbers; None: not known."""

TOTAL = "total"
"""The key of the time of a whole search, beside those of its stages."""


def score_spread(scores: Sequence[float]) -> float | None:
    """The first score minus the fifth one, or the last where there are fewer; None without any. Best first."""
    return scores[0] - scores[:5][-1] if scores else None


PLAIN = ("min_score", "min_relevance")
"""Optional numbers and texts of a request, which are recorded as they are; usually None."""

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
        "continued": 0,
        **dict.fromkeys(PLAIN),
    }
)
"""The request's usual values, which are not stored; see ``retrieval.engine.record``."""


def unusual(request: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a request that differ from the usual ones; a record stores only these."""
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
    cluster: int | None = None
    query: str
    """The words that were ranked by."""
    vector: Sequence[float] | None
    """The vector that the caller gave, at unit length; None: the words were embedded."""
    condition: Mapping[str, Any]
    """The filter as ``retrieval.domain.search.filters`` reads it; empty: none."""
    request: Mapping[str, Any]
    """The rest of the request (see ``retrieval.engine.record``), without the values of ``USUAL``."""
    profile_version: int = 0
    """0: the call brought its own profile, which is in ``request``, or an application composed the answer."""
    model_version: int = 0
    policy: str
    """Name and version of the exploration policy, such as ``off/1``."""
    statistics_at: datetime
    """The moment of the arms that were read; the search's own where none were."""
    seed: int
    eligible: int = 0
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
    """The number of candidates that each leg returned; those ranked below were looked up. Empty: none was looked up."""
    pool_items: Sequence[str] = ()
    """Candidates in the order of relevance, best first."""
    pool_scores: Matrix = ()
    """Raw scores by leg; None where the leg does not know the item."""
    pool_ranks: Sequence[Sequence[int]] = ()
    """Ranks by leg, from 1, among all whose score is known; 0 where it is not."""
    pool_likeness: Sequence[int] | None = None
    """Each candidate's likeness to the best, by ``retrieval.domain.search.diversity.in_steps``; None: not refined."""
    measures: Sequence[str] = ()
    """The names of other facts about the candidates.

    - If a reranker answered: ``rerank`` (its score; None: it was not sent the candidate) and ``score``.
    - If arms were read: ``eligible`` (1 or 0), ``uses`` and ``raw_successes``.
    - If a model counted: ``score``; with a logit stack also ``affinity`` and ``length``; with learned rewards also
      ``learned``, ``effective_sample_size`` and ``logit_mean``.
    - If a policy drew: ``propensity``.
    - If an application composed the answer: ``relevance`` and ``score``."""
    pool_values: Matrix = ()
    shown_items: Sequence[str] = ()
    shown_scores: Sequence[float] = ()
    shown_slots: Sequence[str] | None = None
    """The slot of each item that was shown; None: all have their places by their scores."""
    propensities: Sequence[float] | None = None
    """The probability that each was in the slate, above 0 and at most 1; None: 1 for all."""
    rank_propensities: Sequence[float] | None = None
    """The probability that each stood at its rank, above 0 and at most its propensity; None: the propensities."""
    pulls: Sequence[float] | None = None
    """The decayed number of events known of each when it was shown; None: 0 for all."""
    shown_signals: Sequence[Mapping[str, Any]] | Mapping[str, float] | None = None
    """The parts of each score, by name; a mapping: the weights of a logit stack, whose parts follow from the pool's
    signals; None: the score follows from the legs' scores and ranks."""

    @property
    def origin(self) -> str:
        """The part of an application that composed the answer; empty: a search."""
        return str(self.request.get("origin", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedHit:
    """An item that was shown."""

    item_id: str
    rank: int
    """The rank, from 1."""
    score: float
    slot: Slot
    propensity: float
    """The probability that it was shown, above 0 and at most 1."""
    rank_propensity: float
    """The probability that it was shown at this rank, above 0 and at most ``propensity``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Impression(RecordedHit):
    """A hit that was shown. The names are those of the columns of ``impressions``."""

    signals: Mapping[str, Any]
    """The parts of the score, by name: rank, raw, weight and value of each contribution."""
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
        "hits": len(items),
        "top_score": scores[0] if scores else None,
        "score_spread": score_spread(scores),
        "shown_items": items,
        "shown_scores": scores,
        "shown_slots": None if set(slots) <= {Slot.EXPLOIT} else [slot.value for slot in slots],
        "propensities": None if set(propensities) <= {1.0} else propensities,
        "rank_propensities": None if rank_propensities == propensities else rank_propensities,
        "pulls": pulls if any(pulls) else None,
    }


def context_columns(context: Context) -> dict[str, Any]:
    """The columns of the context of a search."""
    return {
        "actor": context.actor,
        "session": context.session,
        "domain": context.domain,
        "complexity": context.complexity,
        "generation_triggered": context.generated,
        "backtrack_count": context.backtracks,
    }


NO_POLICY = "off/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedAnswer:
    """An answer that an application composed, with all parts of its record."""

    retrieval_id: UUID
    collection_id: int
    query: str
    vector: Vector | None
    space_id: int | None = None
    shown: Sequence[ShownItem]
    context: Context
    origin: str
    retrieval_time_ms: float
    notes: Sequence[str] = ()
    cluster: int | None = None
    model_version: int = 0
    seed: int = 0
    """The seed of the application's chance; 0: it is not known."""
    eligible: int = 0
    """The number of items that competed to be explored; 0: it is not known."""

    def record(self) -> SearchRecord:
        """Everything that is stored. No legs ran, so only the shown items can be learned from."""
        retrieved_at = time_of(self.retrieval_id)
        # The policy is the application's own if it showed any item by chance.
        is_certain = all(
            item.slot is Slot.EXPLOIT and item.propensity == 1 and item.rank_propensity in (None, 1)
            for item in self.shown
        )
        pool = sorted(self.shown, key=lambda candidate: (-candidate.relevance, candidate.item_id))
        return SearchRecord(
            collection_id=self.collection_id,
            retrieval_id=self.retrieval_id,
            retrieved_at=retrieved_at,
            cluster=self.cluster,
            query=self.query,
            vector=None if self.vector is None else self.vector.tolist(),
            condition={},
            request={
                "limit": max(len(self.shown), 1),
                "origin": self.origin,
                **({} if self.vector is None else {"space_id": self.space_id}),
            },
            model_version=self.model_version,
            policy=NO_POLICY if is_certain else f"{self.origin}/1",
            statistics_at=retrieved_at,
            seed=self.seed,
            eligible=self.eligible,
            path="none",
            notes=tuple(self.notes),
            timings_ms={},
            retrieval_time_ms=self.retrieval_time_ms,
            **context_columns(self.context),
            pool_items=[candidate.item_id for candidate in pool],
            measures=("relevance", "score"),
            pool_values=([candidate.relevance for candidate in pool], [candidate.score for candidate in pool]),
            **shown_columns(
                items=[item.item_id for item in self.shown],
                scores=[item.score for item in self.shown],
                slots=[item.slot for item in self.shown],
                propensities=[item.propensity for item in self.shown],
                rank_propensities=[
                    item.propensity if item.rank_propensity is None else item.rank_propensity for item in self.shown
                ],
            ),
            shown_signals=[{name: {"raw": value} for name, value in item.signals.items()} for item in self.shown],
        )
