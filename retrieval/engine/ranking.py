"""Ranking: the legs' candidates become one ranking, and the ranking becomes hits. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, Protocol

import numpy as np

from retrieval.adapters.store.items.conditions import HIT_COLUMNS
from retrieval.adapters.store.search.candidates import Found
from retrieval.domain.records.slate import Placed
from retrieval.domain.search.fusion import (
    Candidate,
    Fused,
    best_of,
    fuse,
    fused_scores,
    on_unit_scale,
    refined,
    share_of,
)
from retrieval.domain.search.hit import Contribution, Explanation, Hit
from retrieval.domain.search.profile import PREFERRED, Profile, leg_of
from retrieval.domain.search.refining import NO_VECTORS, REFINING, PoolVectors
from retrieval.domain.search.signals import SIGNALS

SIGNAL_BEST = 1.0
_SCORE = itemgetter(3)


def relevances(ranked: Sequence[Fused], found: Found, profile: Profile) -> list[float]:
    """Gives each candidate's own relevance to the query, 0 to 1, in the order given and of the same order.

    A weighted sum is on that scale already. RRF: the share of what an item has that every leg puts first. One leg: the
    share of the leg's best score. Union: the share of the most that its signals can give.
    """
    return on_unit_scale([candidate.score for candidate in ranked], bests_of(found), profile)


def bests_of(found: Found) -> dict[str, float]:
    """Gives the score that counts as 1 of each ranking: the leg's best, or the maximum of a signal."""
    return {
        name: SIGNAL_BEST if name in SIGNALS or name == REFINING else best_of(list(map(_SCORE, candidates)))
        for name, candidates in found.rankings.items()
    }


def leg_features(ranked: Sequence[Fused], found: Found) -> dict[str, list[float]]:
    """Each candidate's score in each leg, 0 (not known, or not above 0) to 1 (the leg's best), and its signals.

    None where there is one leg: relevance tells it. Nor of rewritten queries: few searches have them; nor of refining,
    which is not of an item and the query alone.
    """
    if len(found.rankings) == 1:
        return {}
    features: dict[str, list[float]] = {}
    bests = bests_of(found)
    for name, candidates in found.rankings.items():
        if leg_of(name) == name != REFINING:
            raw: Mapping[str, float] = {candidate.item_id: candidate.score for candidate in candidates}
            features[name] = [share_of(raw.get(candidate.item_id), bests[name]) for candidate in ranked]
    return features


ONE_LEG = "none"
"""The fusion of a search that one leg answers: its own scores are the hits'."""

_SEVERAL = 2

_ROUNDING = 1e-12
"""The most that rounding takes from a sum that is exactly the least score."""


def with_refining(found: Found, profile: Profile) -> Found:
    """The candidates with their ranking by likeness, where the profile refines and several rankings are fused."""
    if profile.refining.is_off or len(found.rankings) < _SEVERAL or not found.vectors.places:
        return found
    weights = profile.weights_of(found.rankings)
    return replace(found, rankings=refined(found.rankings, weights, profile.fusion, profile.depth, found.vectors))


def ranking(found: Found, profile: Profile, limit: int | None = None) -> list[Fused]:
    """The candidates, best first, each score with its parts; at most ``limit`` of them."""
    if len(found.rankings) > 1 or profile.signals:
        weights = profile.weights_of(found.rankings)
        return _good_enough(fuse(found.rankings, weights, profile.fusion, limit=limit), profile)
    return [_alone(candidate) for candidates in found.rankings.values() for candidate in candidates[:limit]]


def ranked_scores(found: Found, profile: Profile, limit: int) -> list[tuple[str, float]]:
    """Item ids and scores as ``ranking`` has them, several times as fast: without the parts of the scores."""
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
    first, *others = each
    named = [(f":{number}", one) for number, one in enumerate(others, 1)]
    for place, brought in enumerate(preferred, 1):
        suffix = PREFERRED if place == 1 else f"{PREFERRED}:{place}"
        named += [(f":{number}{suffix}" if number else suffix, part) for number, part in enumerate(brought)]
    if not named:
        return first
    rankings = dict(first.rankings)
    for suffix, one in named:
        for leg, candidates in one.rankings.items():
            name = f"{leg}{suffix}"
            rankings[name] = [candidate._replace(leg=name) for candidate in candidates]
    each = [*each, *(part for brought in preferred for part in brought)]
    return replace(
        first,
        rankings=rankings,
        brought={
            **first.brought,
            **{f"{leg}{suffix}": some for suffix, one in named for leg, some in one.brought.items()},
        },
        weighed=sum(one.weighed for one in each),
        fell_short=any(one.fell_short for one in each),
        left_out=max((one.left_out for one in each if one.left_out is not None), default=None),
        rows={item_id: row for one in each for item_id, row in one.rows.items()},
        vectors=_all_vectors(each),
    )


def _all_vectors(each: Sequence[Found]) -> PoolVectors:
    some = [one.vectors for one in each if one.vectors.places]
    if not some:
        return NO_VECTORS
    item_ids = [item_id for vectors in some for item_id in vectors.places]
    rows = np.concatenate([vectors.rows for vectors in some])
    return PoolVectors(rows, {item_id: place for place, item_id in enumerate(item_ids)})


def fusion_name(found: Found, profile: Profile) -> str:
    """Names how the scores were computed."""
    return profile.fusion.kind.value if len(found.rankings) > 1 or profile.signals else ONE_LEG


def best_of_groups(ranked: Sequence[Fused], group_of: Mapping[str, Any]) -> list[Fused]:
    """The best of each group, in order. An item without a group is one of its own."""
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


def _alone(candidate: Candidate) -> Fused:
    part = Contribution(candidate.leg, candidate.rank, candidate.score, 1.0, candidate.score)
    return Fused(candidate.item_id, candidate.score, (part,))


Columns = Mapping[str, tuple[Any, ...]]
"""The columns of a hit by item id, in the order of ``retrieval.adapters.store.items.conditions.HIT_COLUMNS``."""


def present(ranked: Sequence[Fused], columns: Columns) -> list[Fused]:
    """The candidates that are still there; others were removed since their leg found them."""
    return [candidate for candidate in ranked if columns.get(candidate.item_id, (None,))[0] is not None]


def hits(ranked: Sequence[Fused], columns: Columns, fusion: str, slate: Sequence[Placed] = ()) -> tuple[Hit, ...]:
    """The hits in order, of candidates that are all there.

    ``slate`` says why items stand where they stand; of one that it does not name, the score alone brought it there.
    """
    placed = {place.item_id: place for place in slate}
    return tuple(
        _hit(
            candidate,
            columns[candidate.item_id],
            rank,
            fusion,
            placed.get(candidate.item_id) or Placed(candidate.item_id),
        )
        for rank, candidate in enumerate(ranked, 1)
    )


def _hit(one: Fused, columns: tuple[Any, ...], rank: int, fusion: str, placed: Placed) -> Hit:
    parts = dict(zip(HIT_COLUMNS, columns, strict=True))
    return Hit(
        item_id=one.item_id,
        score=one.score,
        rank=rank,
        explanation=Explanation(fusion, one.contributions),
        slot=placed.slot,
        propensity=placed.propensity,
        **{**parts, "tags": tuple(parts["tags"])},
    )


SPREAD_HITS = 5
"""The spread of the scores is that of so many hits."""


class WithScore(Protocol):
    """An item that was shown, with its score."""

    @property
    def score(self) -> float:
        """Higher is better."""


def top_score(hits: Sequence[WithScore]) -> float | None:
    """The first score; None without hits."""
    return hits[0].score if hits else None


def score_spread(hits: Sequence[WithScore]) -> float | None:
    """The first score minus the fifth one, or the last where there are fewer; None without hits."""
    return hits[0].score - hits[:SPREAD_HITS][-1].score if hits else None


def signals_of(contributions: Sequence[Contribution]) -> dict[str, Any]:
    """The parts of the score by name: rank, raw, weight and value of each contribution."""
    return {
        part.leg: {"rank": part.rank, "raw": part.raw_score, "weight": part.weight, "value": part.value}
        for part in contributions
    }
