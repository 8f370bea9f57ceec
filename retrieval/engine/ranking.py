"""Ranking: the candidates of legs and signals become one ranking, and the ranking becomes hits."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import repeat
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from retrieval.adapters.aside import LONG, aside
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.items.conditions import HIT_COLUMNS
from retrieval.adapters.store.items.memories import read_expiries
from retrieval.adapters.store.search.candidate_request import Query
from retrieval.adapters.store.search.candidates import Found
from retrieval.adapters.store.search.facts import Candidates, FactsRequest, Known, read_facts
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.records.slate import Placed, Slot
from retrieval.domain.search.diversity import NO_VECTORS, REFINING, PoolVectors
from retrieval.domain.search.fusion import (
    Candidate,
    Fused,
    best_of,
    fuse,
    fused_scores,
    on_unit_scale,
    refined,
    scaled_parts,
    shares_of,
)
from retrieval.domain.search.hit import Contribution, Explanation, Hit
from retrieval.domain.search.profile import PREFERRED, LegName, Profile, leg_of
from retrieval.domain.search.relevance import SHIPPED, Calibration, evidence_of, most_by_words
from retrieval.domain.search.reranking import RERANK, Rerank, reranked_scores
from retrieval.domain.search.signals import SIGNALS, EntityOverlap, Question, Signal, VectorSimilarity
from retrieval.engine.plan import SearchPlan
from retrieval.engine.request import SearchRequest


@dataclass(frozen=True, slots=True)
class Signaller:
    """Reads the facts about the candidates of one collection."""

    database: Database
    tenant_id: int
    collection: StoredCollection

    async def signalled(
        self, each: Sequence[Found], profile: Profile, queries: Sequence[Query], now: datetime
    ) -> list[Found]:
        """The candidates of several searches by one profile, with their signals' rankings.

        A signal that a query gives nothing to compare is told too, whatever it weighs: by the record, another profile
        can be judged that weighs it. ``now`` is the clock's: an item that is gone, or has expired by then, is a
        candidate no more, whatever moment a query is asked as of.
        """
        weighing = [signal for signal in profile.signals if signal.weight]
        needs_entities = any(isinstance(signal, EntityOverlap) for signal in weighing)
        needs_vectors = any(isinstance(signal, VectorSimilarity) for signal in weighing)
        questions = [_question(query, now) for query in queries]
        request = FactsRequest(
            collection_id=self.collection.collection_id,
            searches=[Candidates(_ids(found), query.vector) for found, query in zip(each, queries, strict=True)],
            read=frozenset().union(*(signal.reads for signal in weighing)),
            with_entities=needs_entities and any(query.entities for query in queries),
            space=self.collection.space if needs_vectors else None,
        )
        facts = await read_facts(self.database, self.tenant_id, request)
        return await aside(
            lambda: [
                signalled(
                    found,
                    [signal for signal in profile.signals if signal.weight or not signal.compares(question)],
                    {item_id: candidate for item_id, candidate in known.items() if not _has_expired(candidate, now)},
                    question,
                )
                for found, known, question in zip(each, facts, questions, strict=True)
            ],
            is_long=sum(map(len, facts)) >= LONG,
        )

    async def unexpired(self, each: Sequence[Found], now: datetime) -> list[Found]:
        """The candidates of several searches that have not expired by ``now``."""
        all_ids = list(dict.fromkeys(item_id for found in each for item_id in _ids(found)))
        expiries = await read_expiries(self.database, self.tenant_id, self.collection.collection_id, all_ids)
        if not expiries:
            return list(each)
        over = {item_id for item_id, at in expiries.items() if at <= now}
        return [only(found, set(_ids(found)) - over) for found in each]


def signalled(found: Found, signals: Sequence[Signal], known: Mapping[str, Known], question: Question) -> Found:
    """The candidates that are known, with a ranking for each signal, best first; equal values by item id. Pure."""
    kept = only(found, known)
    rankings = dict(kept.rankings)
    for signal in signals:
        values = sorted((-signal.value(candidate.facts, question), item_id) for item_id, candidate in known.items())
        rankings[signal.key] = [
            Candidate(signal.key, item_id, rank, -value) for rank, (value, item_id) in enumerate(values, 1)
        ]
    return replace(kept, rankings=rankings)


def only(found: Found, item_ids: Container[str]) -> Found:
    """The candidates that are among these items, ranked from 1 again. Pure."""
    rankings = {
        name: [
            candidate._replace(rank=rank)
            for rank, candidate in enumerate((c for c in candidates if c.item_id in item_ids), 1)
        ]
        for name, candidates in found.rankings.items()
    }
    return replace(found, rankings=rankings, brought={name: len(some) for name, some in found.rankings.items()})


def _question(query: Query, now: datetime) -> Question:
    return Question(
        now=query.as_of or now,
        words=query.words,
        entities=frozenset(query.entities),
        tags=frozenset(query.tags),
        has_vector=query.vector is not None,
    )


def _ids(found: Found) -> list[str]:
    return list(dict.fromkeys(candidate.item_id for candidates in found.rankings.values() for candidate in candidates))


def _has_expired(known: Known, now: datetime) -> bool:
    return known.expires_at is not None and known.expires_at <= now


SIGNAL_BEST = 1.0
_FUSED, _CANDIDATE, _SCORE = itemgetter(0), itemgetter(1), itemgetter(3)
"""The item id of either, and the score of a candidate."""


def relevances(ranked: Sequence[Fused], found: Found, profile: Profile) -> list[float]:
    """Each candidate's own relevance to the query, 0 to 1, in the given order, which it keeps.

    A weighted sum is on that scale already. RRF: the share of what an item has that every leg puts first. One leg: the
    share of the leg's best score. Union: the share of the most that its signals can give.
    """
    return on_unit_scale([candidate.score for candidate in ranked], bests_of(found), profile)


def bests_of(found: Found) -> dict[str, float]:
    """The score that counts as 1 in each ranking: the leg's best, or the maximum of a signal."""
    return {
        name: SIGNAL_BEST if name in SIGNALS or name == REFINING else best_of(list(map(_SCORE, candidates)))
        for name, candidates in found.rankings.items()
    }


def leg_features(ranked: Sequence[Fused], found: Found) -> dict[str, list[float]]:
    """Each candidate's score in each leg, 0 (not known, or not above 0) to 1 (the leg's best), and its signals.

    Empty where there is one leg, which relevance already covers. Rewritten queries are left out because few searches
    have them, and refining because it does not depend on the item and the query alone.
    """
    if len(found.rankings) == 1:
        return {}
    features: dict[str, list[float]] = {}
    bests = bests_of(found)
    for name, candidates in found.rankings.items():
        if leg_of(name) == name != REFINING:
            raw = dict(zip(map(_CANDIDATE, candidates), map(_SCORE, candidates), strict=True))
            features[name] = shares_of(map(raw.get, map(_FUSED, ranked)), bests[name])
    return features


ONE_LEG = "none"
"""The fusion of a search that one leg answers: its own scores are the hits'."""

_SEVERAL = 2

_ROUNDING = 1e-12
"""The most that rounding takes from a sum that is exactly the least score."""


def with_refining(found: Found, profile: Profile) -> Found:
    """The candidates with their ranking by likeness, where the profile refines and several rankings are fused."""
    if not found.vectors.places or len(found.rankings) < _SEVERAL or profile.refining.is_off:
        return found
    weights = profile.weights_of(found.rankings)
    return replace(found, rankings=refined(found.rankings, weights, profile.fusion, profile.depth, found.vectors))


def ranking(found: Found, profile: Profile, limit: int | None = None, explained: int | None = None) -> list[Fused]:
    """The candidates, best first, at most ``limit`` of them; the first ``explained`` (None: all) with their parts."""
    if len(found.rankings) > 1 or profile.signals:
        weights = profile.weights_of(found.rankings)
        fused = fuse(found.rankings, weights, profile.fusion, limit=limit, explained=explained)
        return _good_enough(fused, profile)
    return [candidate for candidates in found.rankings.values() for candidate in _alone(candidates[:limit])]


def reranked(
    ranked: Sequence[Fused], found: Found, profile: Profile, wanted: Rerank, scores: Mapping[str, float]
) -> list[Fused]:
    """The candidates in the order of ``reranked_scores``; where these are equal, in the order given.

    ``scores``: the reranker's by item id. Every score has its parts: the legs', and that of the reranker.
    """
    own = relevances(ranked, found, profile)
    totals = reranked_scores(own, (scores.get(candidate.item_id) for candidate in ranked), wanted.weight)
    ranks = {item_id: rank for rank, item_id in enumerate(sorted(scores, key=lambda item_id: -scores[item_id]), 1)}
    made = []
    for candidate, relevance, total in zip(ranked, own, totals, strict=True):
        parts = scaled_parts(candidate, (1 - wanted.weight) * relevance)
        if (score := scores.get(candidate.item_id)) is not None:
            parts = (
                *parts,
                Contribution(RERANK, ranks[candidate.item_id], score, wanted.weight, wanted.weight * score),
            )
        made.append(Fused(candidate.item_id, total, parts))
    return sorted(made, key=lambda hit: -hit.score)


def ranked_scores(found: Found, profile: Profile, limit: int) -> list[tuple[str, float]]:
    """Item ids and scores as in ``ranking``, but without the parts of the scores, which is several times as fast."""
    if len(found.rankings) > 1 or profile.signals:
        weights, least = profile.weights_of(found.rankings), profile.min_score
        scored = fused_scores(found.rankings, weights, profile.fusion)[:limit]
        return scored if least is None else [candidate for candidate in scored if candidate[1] >= least - _ROUNDING]
    return [
        (candidate.item_id, candidate.score)
        for candidates in found.rankings.values()
        for candidate in candidates[:limit]
    ]


def merged(each: Sequence[Found], *preferred: Sequence[Found]) -> Found:
    """Merges the candidates of a query and its rewrites, and those of each preferred filter.

    The rankings of the rewritten ones are named by their number, such as ``lexical:1``; those of what is preferred are
    ``lexical:preferred``, ``lexical:1:preferred``, and of what is preferred in the second place
    ``lexical:preferred:2``, ``lexical:1:preferred:2``.
    """
    if not preferred and len(each) == 1:
        return each[0]
    first, *others = each
    named = [(f":{number}", legs) for number, legs in enumerate(others, 1)]
    for place, brought in enumerate(preferred, 1):
        suffix = PREFERRED if place == 1 else f"{PREFERRED}:{place}"
        named += [(f":{number}{suffix}" if number else suffix, part) for number, part in enumerate(brought)]
    rankings = dict(first.rankings)
    for suffix, legs in named:
        for leg, candidates in legs.rankings.items():
            name = f"{leg}{suffix}"
            rankings[name] = [candidate._replace(leg=name) for candidate in candidates]
    each = [*each, *(part for brought in preferred for part in brought)]
    return replace(
        first,
        rankings=rankings,
        brought={
            **first.brought,
            **{f"{leg}{suffix}": some for suffix, legs in named for leg, some in legs.brought.items()},
        },
        weighed=sum(legs.weighed for legs in each),
        fell_short=any(legs.fell_short for legs in each),
        left_out=max((legs.left_out for legs in each if legs.left_out is not None), default=None),
        rows={item_id: row for legs in each for item_id, row in legs.rows.items()},
        vectors=_all_vectors(each),
    )


def _all_vectors(each: Sequence[Found]) -> PoolVectors:
    some = [legs.vectors for legs in each if legs.vectors.places]
    if not some:
        return NO_VECTORS
    item_ids = [item_id for vectors in some for item_id in vectors.places]
    rows = np.concatenate([vectors.rows for vectors in some])
    return PoolVectors(rows, {item_id: place for place, item_id in enumerate(item_ids)})


def fusion_name(found: Found, profile: Profile) -> str:
    """Names how the scores were computed."""
    return profile.fusion.kind.value if len(found.rankings) > 1 or profile.signals else ONE_LEG


def best_of_groups(ranked: Sequence[Fused], group_of: Mapping[str, Any]) -> list[Fused]:
    """The best of each group, in order. An item without a group forms a group of its own."""
    seen: set[str] = set()
    kept = []
    for candidate in ranked:
        group = group_of.get(candidate.item_id)
        name = f"group {group!r}" if group is not None else f"item {candidate.item_id}"
        if name not in seen:
            seen.add(name)
            kept.append(candidate)
    return kept


def _good_enough(ranked: list[Fused], profile: Profile) -> list[Fused]:
    least = profile.min_score
    return ranked if least is None else [candidate for candidate in ranked if candidate.score >= least - _ROUNDING]


def _alone(candidates: Sequence[Candidate]) -> list[Fused]:
    """The candidates of the only leg, each with its own score. No line of Python runs for each of them."""
    if not candidates:
        return []
    legs, item_ids, ranks, scores = zip(*candidates, strict=True)
    parts = map(_contribution, zip(legs, ranks, scores, repeat(1.0), scores, strict=False))
    return list(map(_fused, zip(item_ids, scores, zip(parts, strict=True), strict=True)))


_contribution: Callable[[tuple[Any, ...]], Contribution] = partial(tuple.__new__, Contribution)
_fused: Callable[[tuple[Any, ...]], Fused] = partial(tuple.__new__, Fused)


Columns = Mapping[str, tuple[Any, ...]]
"""The columns of a hit by item id, in the order of ``retrieval.adapters.store.items.conditions.HIT_COLUMNS``."""


def present(ranked: Sequence[Fused], columns: Columns) -> list[Fused]:
    """The candidates that still exist; others were removed since their leg found them."""
    return [candidate for candidate in ranked if columns.get(candidate.item_id, (None,))[0] is not None]


def hits(
    ranked: Sequence[Fused],
    columns: Columns,
    fusion: str,
    slate: Sequence[Placed] = (),
    relevance: Mapping[str, float | None] = MappingProxyType({}),
) -> tuple[Hit, ...]:
    """The hits in order, of candidates that all exist.

    ``slate`` has the reasons for the items' places; an item that it does not name has its place for its score.
    ``relevance``: the probability by item id that it is relevant, where it is told.
    """
    placed = {place.item_id: (place.slot, place.propensity) for place in slate}
    made = []
    for rank, (item_id, score, contributions) in enumerate(ranked, 1):
        values = dict(zip(HIT_COLUMNS, columns[item_id], strict=True))
        values["tags"] = tuple(values["tags"])
        slot, propensity = placed.get(item_id, _AS_USUAL)
        made.append(
            Hit(
                item_id=item_id,
                score=score,
                rank=rank,
                relevance=relevance.get(item_id),
                slot=slot,
                propensity=propensity,
                explanation=Explanation(fusion, contributions),
                **values,
            )
        )
    return tuple(made)


_AS_USUAL = (Slot.EXPLOIT, 1.0)
"""Slot and propensity of a hit whose place follows from its score alone."""


def calibration_of(collection: StoredCollection, profile: Profile) -> Calibration | None:
    """The profile's calibration if it is of the active space, else the collection's, else the shipped one."""
    space = None if collection.space is None else collection.space.space
    own = profile.calibration or collection.profile.calibration
    if own is not None and own.space == (space.name if space else ""):
        return own
    return SHIPPED.get((space.provider, space.model)) if space else None


def check_calibrated(collection: StoredCollection, request: SearchRequest) -> None:
    """Raise ``InvalidRequestError`` where ``min_relevance`` is given and there is no calibration."""
    if request.min_relevance is None or calibration_of(collection, request.profile or collection.profile) is not None:
        return
    about = "has no embedding space" if collection.space is None else f"searches by {collection.space.space.name}"
    error = InvalidRequestError(
        f"collection {collection.name!r} {about}, for which no relevance is calibrated: fit it with retrieval "
        f"calibrate {collection.name}, or give min_score instead of min_relevance"
    )
    error.place = ("min_relevance",)
    raise error


def relevance_by_id(
    collection: StoredCollection, plan: SearchPlan, query: str, found: Found, shown: Sequence[Fused]
) -> Mapping[str, float | None]:
    """The probability of each item to be relevant; empty without a calibration."""
    calibration = calibration_of(collection, plan.profile)
    if calibration is None:
        return {}
    item_ids = [hit.item_id for hit in shown]
    brought = found.rankings.get(LegName.LEXICAL, ())
    knows_all_words = plan.request.with_both_scores or len(brought) < plan.request.depth
    # Another process may have added items since the collection was read: of fewer than were found it never has.
    most = most_by_words(query, max([collection.documents, *map(len, found.rankings.values())]))
    evidence = evidence_of(item_ids, found.rankings, most, knows_all_words=knows_all_words)
    return dict(zip(item_ids, calibration.relevances(evidence), strict=True))


def good_enough(
    request: SearchRequest, shown: Sequence[Fused], relevance: Mapping[str, float | None]
) -> tuple[Sequence[int] | None, tuple[str, ...]]:
    """The places from 0 of the hits with the least score and relevance (None: all), and why there are none.

    A hit of unknown relevance counts as below the least one.
    """
    least, surest = request.min_score, request.min_relevance
    if least is None and surest is None:
        return None, ()
    places = [
        place
        for place, hit in enumerate(shown)
        if (least is None or hit.score >= least - _ROUNDING)
        and (surest is None or (relevance.get(hit.item_id) or 0.0) >= surest)
    ]
    return places, () if places or not shown else _why_none(request, shown, relevance)


def _why_none(request: SearchRequest, shown: Sequence[Fused], relevance: Mapping[str, float | None]) -> tuple[str, ...]:
    said = []
    if request.min_relevance is not None:
        best = max((value for value in relevance.values() if value is not None), default=None)
        found = "none of them is known" if best is None else f"the highest is {best:.3f}"
        said.append(f"relevance {request.min_relevance:g}: {found}")
    if request.min_score is not None:
        said.append(f"score {request.min_score:g}: the highest is {max(hit.score for hit in shown):.4f}")
    whose = f"none of the best {len(shown)} items has" if len(shown) > 1 else "the only item found does not have"
    return (f"nothing found: {whose} {' and '.join(said)}",)


class WithScore(Protocol):
    """An item that was shown, with its score."""

    @property
    def score(self) -> float:
        """Higher is better."""


def top_score(hits: Sequence[WithScore]) -> float | None:
    """The first score; None without hits."""
    return hits[0].score if hits else None


def signals_of(contributions: Sequence[Contribution]) -> dict[str, Any]:
    """The parts of the score by name: rank, raw, weight and value of each contribution."""
    return {
        part.leg: {"rank": part.rank, "raw": part.raw_score, "weight": part.weight, "value": part.value}
        for part in contributions
    }
