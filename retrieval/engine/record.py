"""The record of a search: made of what answered it. Pure, and made behind the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from retrieval.adapters.store.records.recordings import written
from retrieval.adapters.store.search.candidate_request import Query
from retrieval.adapters.store.search.candidates import Found
from retrieval.domain.context import Context
from retrieval.domain.hit import Hit
from retrieval.domain.recorded import Impression, RecordedSearch
from retrieval.domain.retrieval_id import time_of
from retrieval.domain.slate import Placed
from retrieval.engine.plan import Plan
from retrieval.engine.ranking import ranked_scores
from retrieval.engine.recorded_request import recorded_request
from retrieval.engine.relevance import bests_of, on_unit_scale
from retrieval.engine.request import SearchRequest
from retrieval.engine.shown import score_spread, signals_of, top_score

NO_POLICY = "off/1"
"""The policy of a search that explores nothing."""


class Recordable(Protocol):
    """What the recorder keeps: something that was answered."""

    @property
    def retrieval_id(self) -> UUID:
        """Under which it is recorded."""

    @property
    def collection_id(self) -> int:
        """The collection that answered."""

    def record(self) -> RecordedSearch:
        """Everything that is kept; made behind the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What the learned and the exploring stage went by; as it stands, nothing was learned and nothing drawn."""

    model_version: int = 0
    policy: str = NO_POLICY
    statistics_at: datetime | None = None
    """The moment of the arms that were read; None: none were."""
    cluster: int | None = None
    eligible: int = 0
    pulls: Mapping[str, float] = field(default_factory=dict)
    """The decayed number of events by item id; one that is missing has none."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """The final score by item id, where it is not the relevance alone."""
    signals: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    """What is known of the pool's items beside relevance and legs, by name and item id."""

    def explored(self, policy: str, propensity: Mapping[str, float]) -> Decided:
        """The same with a slate drawn by a policy; ``propensity`` is the probability to be shown, by item id."""
        return replace(self, policy=policy, signals={**self.signals, "propensity": propensity})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A search that was answered, with all that its record is made of."""

    retrieval_id: UUID
    collection_id: int
    profile_version: int | None
    """None: the call brought its own."""
    request: SearchRequest
    context: Context
    plan: Plan
    query: Query
    found: Found
    """The candidates that the ranking was made of."""
    hits: Sequence[Hit]
    slate: Sequence[Placed] = ()
    """Why the hits stand where they stand; of one that it does not name, its score brought it there."""
    timings_ms: Mapping[str, float]
    seed: int
    decided: Decided = Decided()

    def without_texts(self) -> Answered:
        """All that the record is made of, and not what stands in the items: they may be large, and records wait."""
        hits = [
            Hit(item_id=hit.item_id, score=hit.score, rank=hit.rank, explanation=hit.explanation) for hit in self.hits
        ]
        return replace(self, hits=hits, found=replace(self.found, rows={}))

    def record(self) -> RecordedSearch:
        """Everything that is kept of the search."""
        return record(self)

    def written_down(self) -> Recordable | WrittenDown:
        """The same as text, which takes less room while it waits; itself, where it cannot be written down."""
        try:
            text = written(self.record())
        except Exception:  # noqa: BLE001 - who records it finds the same, and counts it
            return self.without_texts()
        return WrittenDown(self.retrieval_id, self.collection_id, text)


@dataclass(frozen=True, slots=True)
class WrittenDown:
    """A search whose record is text already."""

    retrieval_id: UUID
    collection_id: int
    text: str


def record(answered: Answered) -> RecordedSearch:
    """Everything that is kept of a search."""
    decided, context, found, hits = answered.decided, answered.context, answered.found, answered.hits
    retrieved_at = time_of(answered.retrieval_id)
    pool = ranked_scores(found, answered.plan.profile, answered.plan.profile.recording.pool)
    condition, request = recorded_request(answered.request)
    vector = answered.query.vector if answered.request.vector is not None else None
    return RecordedSearch(
        collection_id=answered.collection_id,
        retrieval_id=answered.retrieval_id,
        retrieved_at=retrieved_at,
        actor=context.actor,
        session=context.session,
        domain=context.domain,
        complexity=context.complexity,
        cluster=decided.cluster,
        query=answered.request.query,
        vector=None if vector is None else vector.tolist(),
        condition=condition,
        request=request,
        profile_version=answered.profile_version or 0,
        model_version=decided.model_version,
        policy=decided.policy,
        statistics_at=decided.statistics_at or retrieved_at,
        seed=answered.seed,
        eligible=decided.eligible,
        hits=len(hits),
        path=found.path.value,
        notes=answered.plan.notes,
        timings_ms=answered.timings_ms,
        retrieval_time_ms=answered.timings_ms["total"],
        top_score=top_score(hits),
        score_spread=score_spread(hits),
        generation_triggered=context.generated,
        backtrack_count=context.backtracks,
        pool_items=[item_id for item_id, _ in pool],
        pool_signals=pool_signals(pool, answered),
        impressions=_impressions(answered),
    )


def pool_signals(pool: Sequence[tuple[str, float]], answered: Answered) -> dict[str, Any]:
    """The signals of the pool's items by name, each in the order of the pool; see ``RecordedSearch.pool_signals``.

    ``pool``: item ids with their relevance.
    """
    decided, rankings = answered.decided, answered.found.rankings
    places = {item_id: place for place, (item_id, _) in enumerate(pool)}
    legs: dict[str, list[float | None]] = {leg: [None] * len(pool) for leg in rankings}
    ranks: dict[str, list[int | None]] = {leg: [None] * len(pool) for leg in rankings}
    for leg, candidates in rankings.items():
        scores_of, ranks_of, brought = legs[leg], ranks[leg], answered.found.brought.get(leg)
        for _, item_id, rank, score in candidates:
            place = places.get(item_id)
            if place is not None:
                scores_of[place] = score
                ranks_of[place] = rank if brought is None or rank <= brought else None
    relevance, bests = [score for _, score in pool], bests_of(answered.found)
    signals: dict[str, Any] = {
        "legs": legs,
        "ranks": ranks,
        "bests": bests,
        "relevance": relevance,
        "scaled": on_unit_scale(relevance, bests, answered.plan.profile),
        "score": [decided.scores.get(item_id, score) for item_id, score in pool],
    }
    for name, values in decided.signals.items():
        signals[name] = [values.get(item_id) for item_id, _ in pool]
    return signals


def _impressions(answered: Answered) -> list[Impression]:
    placed = {one.item_id: one for one in answered.slate}
    pulls = answered.decided.pulls
    return [_impression(hit, placed.get(hit.item_id) or Placed(hit.item_id), pulls) for hit in answered.hits]


def _impression(hit: Hit, placed: Placed, pulls: Mapping[str, float]) -> Impression:
    return Impression(
        item_id=hit.item_id,
        rank=hit.rank,
        score=hit.score,
        signals=signals_of(hit),
        slot=placed.slot,
        propensity=placed.propensity,
        rank_propensity=placed.rank_propensity,
        pulls=pulls.get(hit.item_id, 0.0),
    )
