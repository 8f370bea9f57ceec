"""Relevance on a scale from 0 to 1, whatever the legs and their fusion: what a learned reward can be added to. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from retrieval.adapters.store.search.candidates import Found
from retrieval.domain.fusion import Fused, best_of
from retrieval.domain.profile import FusionKind, Profile, leg_of
from retrieval.domain.signals.catalogue import SIGNALS

SIGNAL_BEST = 1.0


def relevances(ranked: Sequence[Fused], found: Found, profile: Profile) -> list[float]:
    """How well each candidate fits the query by itself, 0 to 1, in the order given and of the same order.

    A weighted sum is on that scale already. RRF: the share of what an item has that every leg puts first. One leg: the
    share of the leg's best score. Union: the share of the most that its signals can give.
    """
    return on_unit_scale([one.score for one in ranked], bests_of(found), profile)


def bests_of(found: Found) -> dict[str, float]:
    """By ranking, the score that counts as 1: the leg's best, and the most that a signal can be."""
    return {
        name: SIGNAL_BEST if name in SIGNALS else best_of([one.score for one in candidates])
        for name, candidates in found.rankings.items()
    }


def on_unit_scale(scores: Sequence[float], bests: Mapping[str, float], profile: Profile) -> list[float]:
    """The scores of candidates as ``relevances``; ``bests``: the best score of each leg that ran, by leg."""
    if profile.signals:
        most = sum(profile.weights.values())
        return [_share(score, most) for score in scores]
    if len(bests) == 1:
        (alone,) = bests.values()
        return [_share(score, alone) for score in scores]
    if profile.fusion.kind is FusionKind.RRF:
        best = sum(profile.weights_of(bests).values()) / (profile.fusion.k + 1)
        return [_share(score, best) for score in scores]
    return [_share(score, 1.0) for score in scores]


def leg_features(ranked: Sequence[Fused], found: Found) -> dict[str, list[float]]:
    """Each candidate's score in each leg, 0 (not known, or not above 0) to 1 (the leg's best), and its signals.

    None where there is one leg: relevance tells it. Nor of rewritten queries: few searches have them.
    """
    if len(found.rankings) == 1:
        return {}
    features: dict[str, list[float]] = {}
    bests = bests_of(found)
    for name, candidates in found.rankings.items():
        if leg_of(name) == name:
            raw: Mapping[str, float] = {one.item_id: one.score for one in candidates}
            features[name] = [_share(raw.get(one.item_id), bests[name]) for one in ranked]
    return features


def leg_features_again(
    legs: Mapping[str, Sequence[float | None]], bests: Mapping[str, float]
) -> dict[str, list[float]]:
    """``leg_features`` of candidates of which each leg's raw score is on record; None: it is not known."""
    if len(legs) == 1:
        return {}
    return {leg: [_share(score, bests[leg]) for score in scores] for leg, scores in legs.items() if leg_of(leg) == leg}


def _share(score: float | None, best: float) -> float:
    """The score's share of the best; what is not known, or not above 0, has none."""
    return min(1.0, score / best) if score is not None and score > 0 and best > 0 else 0.0
