"""Relevance on a scale from 0 to 1, whatever the legs and their fusion: what a learned reward can be added to. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from retrieval.adapters.store.candidates import Found
from retrieval.domain.fusion import Fused, bounds
from retrieval.domain.profile import FusionKind, Profile


def relevances(ranked: Sequence[Fused], found: Found, profile: Profile, depth: int) -> list[float]:
    """How well each candidate fits the query by itself, 0 to 1, in the order given and of the same order.

    A weighted sum is on that scale already. RRF: the share of what an item has that every leg puts first. One leg: the
    place of its score between the leg's cut and its best. ``depth`` is how many candidates each leg was asked for.
    """
    ends = {leg: bounds([one.score for one in candidates], depth) for leg, candidates in found.rankings.items()}
    return on_unit_scale([one.score for one in ranked], ends, profile)


def on_unit_scale(scores: Sequence[float], ends: Mapping[str, tuple[float, float]], profile: Profile) -> list[float]:
    """The scores of candidates as ``relevances``; ``ends`` are the ``bounds`` of each leg that ran, by leg."""
    if len(ends) == 1:
        (alone,) = ends.values()
        return [_place(score, alone) for score in scores]
    if profile.fusion.kind is FusionKind.RRF:
        best = sum(profile.legs.get(leg, 0.0) for leg in ends) / (profile.fusion.k + 1)
        return [min(1.0, score / best) for score in scores]
    return [min(1.0, max(0.0, score)) for score in scores]


def leg_features(ranked: Sequence[Fused], found: Found, depth: int) -> dict[str, list[float]]:
    """Each candidate's score in each leg, 0 (not brought, or at the cut) to 1 (the leg's best), by leg.

    None where there is one leg: relevance tells it.
    """
    if len(found.rankings) == 1:
        return {}
    features: dict[str, list[float]] = {}
    for leg, candidates in found.rankings.items():
        raw: Mapping[str, float] = {one.item_id: one.score for one in candidates}
        ends = bounds(list(raw.values()), depth)
        features[leg] = [_place(raw.get(one.item_id), ends) for one in ranked]
    return features


def leg_features_again(
    legs: Mapping[str, Sequence[float | None]], ends: Mapping[str, tuple[float, float]]
) -> dict[str, list[float]]:
    """``leg_features`` of candidates of which each leg's raw score is known: None where it did not bring one."""
    if len(legs) == 1:
        return {}
    return {leg: [_place(score, ends[leg]) for score in scores] for leg, scores in legs.items()}


def _place(score: float | None, ends: tuple[float, float]) -> float:
    """Where a score lies between the cut (0) and the best (1); what a leg did not bring has nothing from it."""
    cut, best = ends
    if score is None:
        return 0.0
    return min(1.0, max(0.0, (score - cut) / (best - cut))) if best > cut else 1.0
