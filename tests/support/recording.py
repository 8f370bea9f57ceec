"""Answered searches, without a database."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

from retrieval.adapters.store.search.candidate_request import CandidateRequest, Query
from retrieval.adapters.store.search.candidates import LegResults
from retrieval.domain.learning.context import Context
from retrieval.domain.records.retrieval_id import uuid7
from retrieval.domain.search.fusion import Candidate
from retrieval.domain.search.hit import Path
from retrieval.domain.search.profile import LegName, Profile
from retrieval.engine.plan import SearchPlan
from retrieval.engine.ranking import ranking
from retrieval.engine.record import AnsweredSearch
from retrieval.engine.request import SearchRequest

MOMENT = datetime(2026, 2, 3, 4, 5, 6, 789000, tzinfo=UTC)
SCORES = {"dense": {"a": 0.9, "b": 0.8, "c": 0.5}, "lexical": {"c": 7.0, "d": 3.0}}


def leg_results_of(scores: dict[str, dict[str, float]], path: Path = Path.EXACT) -> LegResults:
    """The candidates with those scores, by leg."""
    rankings = {
        leg: [Candidate(leg, item_id, rank, score) for rank, (item_id, score) in enumerate(of.items(), 1)]
        for leg, of in scores.items()
    }
    return LegResults(rankings=rankings, path=path, weighed=0)


def answered_search(
    *,
    profile: Profile | None = None,
    request: SearchRequest | None = None,
    context: Context | None = None,
    scores: dict[str, dict[str, float]] | None = None,
    chance: random.Random | None = None,
    ms: int | None = None,
    **more: Any,
) -> AnsweredSearch:
    """A search that found items a to d, or those of ``scores``."""
    used_profile = profile or Profile()
    search_request = request or SearchRequest(query="some words", vector=None, limit=3, condition=None, profile=None)
    leg_results = leg_results_of(SCORES if scores is None else scores)
    hits = ranking(leg_results, used_profile, search_request.limit)
    legs = tuple(map(LegName, leg_results.rankings))
    values: dict[str, Any] = {
        "collection_id": 1,
        "profile_version": 1,
        "ranked": ranking(leg_results, used_profile, used_profile.recording.pool),
        "shown": hits,
        "timings_ms": {"candidates": 1.5, "total": 2.5},
        "seed": 42,
        **more,
    }
    return AnsweredSearch(
        retrieval_id=uuid7(int(MOMENT.timestamp() * 1000) if ms is None else ms, chance or random.Random(1)),
        request=search_request,
        context=context or Context(),
        plan=SearchPlan(
            request=CandidateRequest(collection_id=1, legs=legs, depth=100), profile=used_profile, notes=("a note",)
        ),
        query=Query(search_request.query, search_request.vector),
        leg_results=leg_results,
        **values,
    )
