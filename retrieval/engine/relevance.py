"""Relevance on a scale from 0 to 1, whatever the legs and their fusion: what a learned reward can be added to. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from retrieval.adapters.store.search.candidates import Found
from retrieval.domain.fusion import Fused, bounds
from retrieval.domain.profile import FusionKind, Profile, leg_of
from retrieval.domain.signals.catalogue import SIGNALS

SIGNAL_ENDS = (0.0, 1.0)


def relevances(ranked: Sequence[Fused], found: Found, profile: Profile, depth: int) -> list[float]:
    """How well each candidate fits the query by itself, 0 to 1, in the order given and of the same order.

    A weighted sum is on that scale already. RRF: the share of what an item has that every leg puts first. One leg: the
    place of its score between the leg's cut and its best. Union: the share of the most that its signals can give.
    ``depth`` is how many candidates each leg was asked for.
    """
    return on_unit_scale([one.score for one in ranked], ends_of(found, depth), profile)


def ends_of(found: Found, depth: int) -> dict[str, tuple[float, float]]:
    """By ranking, the scores that count as 0 and as 1: a leg's ``bounds``, and all that a signal can be."""
    return {
        name: SIGNAL_ENDS if name in SIGNALS else bounds([one.score for one in candidates], depth)
        for name, candidates in found.rankings.items()
    }


def on_unit_scale(scores: Sequence[float], ends: Mapping[str, tuple[float, float]], profile: Profile) -> list[float]:
    """The scores of candidates as ``relevances``; ``ends`` are the ``bounds`` of each leg that ran, by leg."""
    if profile.signals:
        most = sum(profile.weights.values())
        return [min(1.0, max(0.0, score / most)) for score in scores]
    if len(ends) == 1:
        (alone,) = ends.values()
        return [_place(score, alone) for score in scores]
    if profile.fusion.kind is FusionKind.RRF:
        best = sum(profile.weights_of(ends).values()) / (profile.fusion.k + 1)
        return [min(1.0, score / best) for score in scores]
    return [min(1.0, max(0.0, score)) for score in scores]


def leg_features(ranked: Sequence[Fused], found: Found, depth: int) -> dict[str, list[float]]:
    """Each candidate's score in each leg, 0 (not brought, or at the cut) to 1 (the leg's best), and its signals.

    None where there is one leg: relevance tells it. Nor of rewritten queries: few searches have them.
    """
    if len(found.rankings) == 1:
        return {}
    features: dict[str, list[float]] = {}
    ends = ends_of(found, depth)
    for name, candidates in found.rankings.items():
        if leg_of(name) == name:
            raw: Mapping[str, float] = {one.item_id: one.score for one in candidates}
            features[name] = [_place(raw.get(one.item_id), ends[name]) for one in ranked]
    return features


def leg_features_again(
    legs: Mapping[str, Sequence[float | None]], ends: Mapping[str, tuple[float, float]]
) -> dict[str, list[float]]:
    """``leg_features`` of candidates of which each leg's raw score is known: None where it did not bring one."""
    if len(legs) == 1:
        return {}
    return {leg: [_place(score, ends[leg]) for score in scores] for leg, scores in legs.items() if leg_of(leg) == leg}


def _place(score: float | None, ends: tuple[float, float]) -> float:
    """Where a score lies between the cut (0) and the best (1); what a leg did not bring has nothing from it."""
    cut, best = ends
    if score is None:
        return 0.0
    return min(1.0, max(0.0, (score - cut) / (best - cut))) if best > cut else 1.0
