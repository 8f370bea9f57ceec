"""Ranking: merges the candidates of legs and signals to one ranking, and makes hits of it."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import Any

import numpy as np

from retrieval.adapters.aside import LONG, aside
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.items.memories import read_expiries
from retrieval.adapters.store.search.candidate_request import Query
from retrieval.adapters.store.search.candidates import LegResults
from retrieval.adapters.store.search.facts import Candidates, ItemFacts, read_facts
from retrieval.adapters.store.search.vectors import StoredSpace
from retrieval.domain.errors import Advice, InvalidRequestError
from retrieval.domain.records.slate import BY_SCORE, Placed
from retrieval.domain.search import fusion
from retrieval.domain.search.diversity import NO_VECTORS, REFINING, PoolVectors
from retrieval.domain.search.fusion import Candidate, Fused
from retrieval.domain.search.hit import Contribution, Explanation, Hit
from retrieval.domain.search.profile import PREFERRED, LegName, Profile, leg_of
from retrieval.domain.search.relevance import evidence_of, most_by_words
from retrieval.domain.search.reranking import RERANK, Rerank, reranked_scores
from retrieval.domain.search.signals import SIGNALS, EntityOverlap, Question, Signal, VectorSimilarity
from retrieval.engine.plan import SearchPlan, calibration_of
from retrieval.engine.request import SearchRequest


async def add_signals(
    place: CollectionPlace,
    each: Sequence[LegResults],
    profile: Profile,
    queries: Sequence[Query],
    *,
    space: StoredSpace | None,
    now: datetime,
) -> list[LegResults]:
    """The candidates of several searches of a collection in that space by one profile, with their signals' rankings.

    A signal that does not depend on the query is added whatever its weight: then the record can show the effect of
    a profile that weighs it. ``now`` is the time by the clock, even if a query has another ``as_of``: items that
    were removed, or have expired by ``now``, are left out.
    """
    weighing = [signal for signal in profile.signals if signal.weight]
    needs_entities = any(isinstance(signal, EntityOverlap) for signal in weighing)
    needs_vectors = any(isinstance(signal, VectorSimilarity) for signal in weighing)
    questions = [_question(query, now) for query in queries]
    facts = await read_facts(
        place,
        [Candidates(_ids(results), query.vector) for results, query in zip(each, queries, strict=True)],
        names=frozenset().union(*(signal.reads for signal in weighing)),
        with_entities=needs_entities and any(query.entities for query in queries),
        space=space if needs_vectors else None,
    )
    return await aside(
        lambda: [_with_signals(*own, profile.signals, now) for own in zip(each, facts, questions, strict=True)],
        is_long=sum(map(len, facts)) >= LONG,
    )


async def remove_expired(place: CollectionPlace, each: Sequence[LegResults], now: datetime) -> list[LegResults]:
    """The candidates of several searches, without those that have expired by ``now``."""
    all_ids = list(dict.fromkeys(item_id for results in each for item_id in _ids(results)))
    expiries = await read_expiries(place, all_ids)
    if not expiries:
        return list(each)
    expired = {item_id for item_id, at in expiries.items() if at <= now}
    return [only(results, set(_ids(results)) - expired) for results in each]


def _with_signals(
    results: LegResults, items: Mapping[str, ItemFacts], question: Question, signals: Sequence[Signal], now: datetime
) -> LegResults:
    """The candidates with facts, and a ranking for each signal, best first; equal values by item id. Pure."""
    alive = {key: item for key, item in items.items() if item.expires_at is None or item.expires_at > now}
    existing = only(results, alive)
    rankings = dict(existing.rankings)
    for signal in signals:
        if signal.weight or not signal.compares(question):
            values = sorted((-signal.value(item.facts, question), item_id) for item_id, item in alive.items())
            rankings[signal.key] = [
                Candidate(signal.key, item_id, rank, -value) for rank, (value, item_id) in enumerate(values, 1)
            ]
    return replace(existing, rankings=rankings)


def only(results: LegResults, item_ids: Container[str]) -> LegResults:
    """The candidates among these items, with new ranks from 1. Pure."""
    kept = {name: [hit for hit in found if hit.item_id in item_ids] for name, found in results.rankings.items()}
    rankings = {name: [hit._replace(rank=rank) for rank, hit in enumerate(found, 1)] for name, found in kept.items()}
    brought = {name: len(candidates) for name, candidates in results.rankings.items()}
    return replace(results, rankings=rankings, brought=brought)


def _question(query: Query, now: datetime) -> Question:
    return Question(
        now=query.as_of or now,
        words=query.words,
        entities=frozenset(query.entities),
        tags=frozenset(query.tags),
        has_vector=query.vector is not None,
    )


def _ids(results: LegResults) -> list[str]:
    return list(dict.fromkeys(hit.item_id for candidates in results.rankings.values() for hit in candidates))


_FUSED_ID, _ITEM_ID, _SCORE = itemgetter(0), itemgetter(1), itemgetter(3)
"""The item id of a fused candidate, and the item id and the score of a candidate."""


def relevances(ranked: Sequence[Fused], results: LegResults, profile: Profile) -> list[float]:
    """Each candidate's relevance to the query, 0 to 1, in the order of ``ranked``.

    A weighted sum is on that scale already. RRF: the share of the score of an item that is first in every leg. One leg:
    the share of the leg's best score. Union: the share of the highest possible sum of its signals.
    """
    return fusion.on_unit_scale([candidate.score for candidate in ranked], bests_of(results), profile)


def bests_of(results: LegResults) -> dict[str, float]:
    """The score that counts as 1 in each ranking: the leg's best score, or a signal's maximum."""
    return {
        name: 1.0 if name in SIGNALS or name == REFINING else fusion.best_of(list(map(_SCORE, candidates)))
        for name, candidates in results.rankings.items()
    }


def leg_features(ranked: Sequence[Fused], results: LegResults) -> dict[str, list[float]]:
    """Each candidate's score in each leg, 0 (unknown, or not above 0) to 1 (the leg's best), and its signals.

    Empty where there is only one leg, because relevance already covers it. Rewrites are left out because few searches
    have them, and refining because it does not depend on item and query alone.
    """
    if len(results.rankings) == 1:
        return {}
    features: dict[str, list[float]] = {}
    bests = bests_of(results)
    for name, candidates in results.rankings.items():
        if leg_of(name) == name != REFINING:
            raw = dict(zip(map(_ITEM_ID, candidates), map(_SCORE, candidates), strict=True))
            features[name] = fusion.shares_of(map(raw.get, map(_FUSED_ID, ranked)), bests[name])
    return features


ONE_LEG = "none"
"""The fusion of a search with a single leg, whose scores are the hits' scores."""

ROUNDING = 1e-12
"""The largest rounding error of a sum: a score within it of the least score counts."""


def with_refining(results: LegResults, profile: Profile) -> LegResults:
    """The candidates, with a ranking by likeness where the profile refines and several rankings are fused."""
    if not results.vectors.row_of or len(results.rankings) <= 1 or profile.refining.is_off:
        return results
    weights = profile.weights_of(results.rankings)
    rankings = fusion.refined(results.rankings, weights, profile.fusion, profile.depth, results.vectors)
    return replace(results, rankings=rankings)


def ranking(
    results: LegResults, profile: Profile, limit: int | None = None, explained: int | None = None
) -> list[Fused]:
    """The candidates, best first, at most ``limit`` of them; the first ``explained`` (None: all) with their parts."""
    if len(results.rankings) > 1 or profile.signals:
        weights = profile.weights_of(results.rankings)
        least = profile.min_score
        fused = fusion.fuse(results.rankings, weights, profile.fusion, limit=limit, explained=explained)
        return fused if least is None else [candidate for candidate in fused if candidate.score >= least - ROUNDING]
    [candidates] = results.rankings.values()
    return _alone(candidates[:limit])


def reranked(
    ranked: Sequence[Fused], results: LegResults, profile: Profile, rerank: Rerank, scores: Mapping[str, float]
) -> list[Fused]:
    """The candidates in the order of ``reranked_scores``; equal scores keep their former order.

    ``scores``: the reranker's, by item id. Every score has the parts of the legs, and that of the reranker.
    """
    scaled = relevances(ranked, results, profile)
    totals = reranked_scores(scaled, (scores.get(candidate.item_id) for candidate in ranked), rerank.weight)
    ranks = {item_id: rank for rank, item_id in enumerate(sorted(scores, key=lambda item_id: -scores[item_id]), 1)}
    candidates = []
    for candidate, relevance, total in zip(ranked, scaled, totals, strict=True):
        parts = fusion.scaled_parts(candidate, (1 - rerank.weight) * relevance)
        if (score := scores.get(candidate.item_id)) is not None:
            rank = ranks[candidate.item_id]
            parts = (*parts, Contribution(RERANK, rank, score, rerank.weight, rerank.weight * score))
        candidates.append(Fused(candidate.item_id, total, parts))
    return sorted(candidates, key=lambda hit: -hit.score)


def merged(each: Sequence[LegResults], *preferred: Sequence[LegResults]) -> LegResults:
    """Merge the candidates of a query and its rewrites, and those of each preferred filter.

    The rankings of the first rewrite have names such as ``lexical:1``. Those of the first preferred filter are
    ``lexical:preferred`` and ``lexical:1:preferred``; those of the second, ``lexical:preferred:2`` and
    ``lexical:1:preferred:2``.
    """
    if not preferred and len(each) == 1:
        return each[0]
    first, *others = each
    named = [(f":{number}", legs) for number, legs in enumerate(others, 1)]
    for order, narrowed in enumerate(preferred, 1):
        suffix = PREFERRED if order == 1 else f"{PREFERRED}:{order}"
        named += [(f":{number}{suffix}" if number else suffix, part) for number, part in enumerate(narrowed)]
    rankings = dict(first.rankings)
    for suffix, legs in named:
        for leg, candidates in legs.rankings.items():
            name = f"{leg}{suffix}"
            rankings[name] = [candidate._replace(leg=name) for candidate in candidates]
    each = [*each, *(part for narrowed in preferred for part in narrowed)]
    named = [("", first), *named]
    return replace(
        first,
        rankings=rankings,
        brought={f"{leg}{suffix}": count for suffix, legs in named for leg, count in legs.brought.items()},
        weighed=sum(legs.weighed for legs in each),
        fell_short=any(legs.fell_short for legs in each),
        dropped_score=max((legs.dropped_score for legs in each if legs.dropped_score is not None), default=None),
        rows={item_id: row for legs in each for item_id, row in legs.rows.items()},
        vectors=_all_vectors(each),
        unranked={f"{leg}{suffix}": scores for suffix, legs in named for leg, scores in legs.unranked.items()},
    )


def _all_vectors(each: Sequence[LegResults]) -> PoolVectors:
    parts = [legs.vectors for legs in each if legs.vectors.row_of]
    if not parts:
        return NO_VECTORS
    item_ids = [item_id for vectors in parts for item_id in vectors.row_of]
    rows = np.concatenate([vectors.rows for vectors in parts])
    return PoolVectors(rows, {item_id: row for row, item_id in enumerate(item_ids)})


def best_of_groups(ranked: Sequence[Fused], group_of: Mapping[str, Any]) -> list[Fused]:
    """The best candidate of each group, in order. ``group_of``: the groups by item id."""
    best: dict[str, Fused] = {}
    for candidate in ranked:
        best.setdefault(group_key(candidate.item_id, group_of.get(candidate.item_id)), candidate)
    return list(best.values())


def group_key(item_id: str, group: Any) -> str:
    """The text that identifies an item's group. An item without a group (None) is a group by itself.

    Groups are JSON values: 1 and 1.0 are one group, as are [1] and [1.0], and true is another.
    """
    if group is None:
        return f"item {item_id}"
    return repr(_without_zeros(group))


def _without_zeros(value: Any) -> Any:
    """The JSON value with whole numbers as integers, also within lists and objects."""
    match value:
        case float():
            return int(value) if value.is_integer() else value
        case list():
            return list(map(_without_zeros, value))
        case dict():
            return {name: _without_zeros(part) for name, part in value.items()}
    return value


def _alone(candidates: Sequence[Candidate]) -> list[Fused]:
    """The candidates of the only leg with their scores, without a line of Python for each candidate."""
    if not candidates:
        return []
    legs, item_ids, ranks, scores = zip(*candidates, strict=True)
    parts = map(_contribution, zip(legs, ranks, scores, repeat(1.0), scores, strict=False))
    return list(map(_fused, zip(item_ids, scores, zip(parts, strict=True), strict=True)))


_contribution: Callable[[tuple[Any, ...]], Contribution] = partial(tuple.__new__, Contribution)
_fused: Callable[[tuple[Any, ...]], Fused] = partial(tuple.__new__, Fused)

Columns = Mapping[str, tuple[Any, ...]]
"""The columns of a hit by item id, in the order of ``retrieval.adapters.store.items.conditions.HIT_COLUMNS``."""


def hits(
    ranked: Sequence[Fused],
    columns: Columns,
    results: LegResults,
    profile: Profile,
    *,
    slate: Sequence[Placed],
    relevance: Mapping[str, float | None],
    later: Sequence[str],
) -> tuple[Hit, ...]:
    """The hits in order, for candidates that all exist.

    ``results``, ``profile``: those of the ranking; ``later``: what changed the scores after the fusion.
    ``slate``: the reasons for the items' places; an item without one is placed by its score.
    ``relevance``: the probability of being relevant by item id, where it is known.
    """
    is_fused = len(results.rankings) > 1 or profile.signals
    fused_by = ", ".join((profile.fusion.kind.value if is_fused else ONE_LEG, *later))
    placed_by_id = {placed.item_id: placed for placed in slate}
    rows = []
    for rank, (item_id, score, contributions) in enumerate(ranked, 1):
        _, slot, propensity, _ = placed_by_id.get(item_id, BY_SCORE)
        explanation = Explanation(fused_by, contributions)
        # A hit gets its snippet later, if the search requests one.
        place = (score, rank, relevance.get(item_id), slot, propensity, None, explanation)
        rows.append((item_id, *columns[item_id], *place))
    return Hit.of_rows(rows)


def check_calibrated(collection: StoredCollection, request: SearchRequest) -> None:
    """Raise ``InvalidRequestError`` if there is no calibration for the request's ``min_relevance``."""
    if calibration_of(collection, request.profile or collection.profile) is not None:
        return
    about = "has no embedding space" if collection.space is None else f"searches by {collection.space.space.name}"
    raise (
        InvalidRequestError(f"collection {collection.name!r} {about}, for which no relevance is calibrated")
        .at("min_relevance")
        .advising(Advice.CALIBRATE, name=collection.name)
    )


def relevance_by_id(
    collection: StoredCollection, plan: SearchPlan, query: str, results: LegResults, shown: Sequence[Fused]
) -> Mapping[str, float | None]:
    """The probability of being relevant by item id; empty without a calibration."""
    calibration = calibration_of(collection, plan.profile)
    if calibration is None:
        return {}
    item_ids = [hit.item_id for hit in shown]
    by_words = results.rankings.get(LegName.LEXICAL, ())
    knows_all_words = plan.request.with_both_scores or len(by_words) < plan.request.depth
    # Another process may have added items since the collection was read, so legs may find more than it had then.
    most = most_by_words(query, max([collection.documents, *map(len, results.rankings.values())]))
    known = {**results.rankings, **{f"{name}:unranked": scores for name, scores in results.unranked.items()}}
    evidence = evidence_of(item_ids, known, most, knows_all_words=knows_all_words)
    return dict(zip(item_ids, calibration.relevances(evidence), strict=True))


def good_enough(
    request: SearchRequest, shown: Sequence[Fused], relevance: Mapping[str, float | None]
) -> tuple[list[Fused], tuple[str, ...]]:
    """The hits that reach the request's least score and relevance, and why there are none.

    A hit of unknown relevance does not reach any.
    """
    min_score, min_relevance = request.min_score, request.min_relevance
    enough = [
        hit
        for hit in shown
        if (min_score is None or hit.score >= min_score - ROUNDING)
        and (min_relevance is None or (relevance.get(hit.item_id) or 0.0) >= min_relevance)
    ]
    return enough, () if enough or not shown else _why_none(request, shown, relevance)


def _why_none(request: SearchRequest, shown: Sequence[Fused], relevance: Mapping[str, float | None]) -> tuple[str, ...]:
    reasons = []
    if request.min_relevance is not None:
        best = max((value for value in relevance.values() if value is not None), default=None)
        highest = "none of them is known" if best is None else f"the highest is {best:.3f}"
        reasons.append(f"relevance {request.min_relevance:g}: {highest}")
    if request.min_score is not None:
        reasons.append(f"score {request.min_score:g}: the highest is {max(hit.score for hit in shown):.4f}")
    subject = f"none of the best {len(shown)} items has" if len(shown) > 1 else "the only item found does not have"
    return (f"nothing found: {subject} {' and '.join(reasons)}",)


def signals_of(contributions: Sequence[Contribution]) -> dict[str, Any]:
    """The parts of the score by name: rank, raw, weight and value of each contribution."""
    return {
        part.leg: {"rank": part.rank, "raw": part.raw_score, "weight": part.weight, "value": part.value}
        for part in contributions
    }
