"""From the legs' candidates to one ranking: fused, or the only leg's own, and the best of each group. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from retrieval.adapters.store.search.candidates import Found
from retrieval.domain.fusion import Candidate, Fused, fuse, fused_scores, refined
from retrieval.domain.hit import Contribution
from retrieval.domain.profile import PREFERRED, Profile
from retrieval.domain.refining import NO_VECTORS, PoolVectors

ONE_LEG = "none"
"""The fusion of a search that one leg answers: its own scores are the hits'."""

_SEVERAL = 2

_ROUNDING = 1e-12
"""What adding up may take from a score that is exactly the least."""


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
        return scored if least is None else [one for one in scored if one[1] >= least - _ROUNDING]
    return [(one.item_id, one.score) for candidates in found.rankings.values() for one in candidates[:limit]]


def merged(each: Sequence[Found], *preferred: Sequence[Found]) -> Found:
    """What a query and its rewritten ones brought, as one, and what they brought of each thing that is preferred.

    The rankings of the rewritten ones are named by their number, such as ``lexical:1``; those of what is preferred are
    ``lexical:preferred``, ``lexical:1:preferred``, and of what is preferred in the second place
    ``lexical:preferred:2``, ``lexical:1:preferred:2``.
    """
    first, *others = each
    named = [(f":{number}", one) for number, one in enumerate(others, 1)]
    for place, brought in enumerate(preferred, 1):
        suffix = PREFERRED if place == 1 else f"{PREFERRED}:{place}"
        named += [(f":{number}{suffix}" if number else suffix, one) for number, one in enumerate(brought)]
    if not named:
        return first
    rankings = dict(first.rankings)
    for suffix, one in named:
        for leg, candidates in one.rankings.items():
            name = f"{leg}{suffix}"
            rankings[name] = [candidate._replace(leg=name) for candidate in candidates]
    each = [*each, *(one for brought in preferred for one in brought)]
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
    item_ids = [item_id for one in some for item_id in one.places]
    rows = np.concatenate([one.rows for one in some])
    return PoolVectors(rows, {item_id: place for place, item_id in enumerate(item_ids)})


def fusion_name(found: Found, profile: Profile) -> str:
    """How the scores came about."""
    return profile.fusion.kind.value if len(found.rankings) > 1 or profile.signals else ONE_LEG


def best_of_groups(ranked: Sequence[Fused], group_of: Mapping[str, Any]) -> list[Fused]:
    """The best of each group, in order. An item without a group is one of its own."""
    seen: set[str] = set()
    kept = []
    for one in ranked:
        group = group_of.get(one.item_id)
        name = f"group {group!r}" if group is not None else f"item {one.item_id}"
        if name not in seen:
            seen.add(name)
            kept.append(one)
    return kept


def _good_enough(ranked: list[Fused], profile: Profile) -> list[Fused]:
    least = profile.min_score
    return ranked if least is None else [one for one in ranked if one.score >= least - _ROUNDING]


def _alone(candidate: Candidate) -> Fused:
    part = Contribution(candidate.leg, candidate.rank, candidate.score, 1.0, candidate.score)
    return Fused(candidate.item_id, candidate.score, (part,))
