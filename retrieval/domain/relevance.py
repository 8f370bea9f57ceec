"""Relevance on a scale from 0 to 1, whatever the legs and their fusion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from retrieval.domain.profile import FusionKind, Profile, leg_of
from retrieval.domain.refining import REFINING


def on_unit_scale(scores: Sequence[float], bests: Mapping[str, float], profile: Profile) -> list[float]:
    """The scores of candidates from 0 to 1; ``bests``: the best score of each leg that ran, by leg.

    See ``retrieval.engine.relevance.relevances``.
    """
    if profile.signals:
        most = sum(profile.weights.values())
        return [share_of(score, most) for score in scores]
    if len(bests) == 1:
        (alone,) = bests.values()
        return [share_of(score, alone) for score in scores]
    if profile.fusion.kind is FusionKind.RRF:
        best = sum(profile.weights_of(bests).values()) / (profile.fusion.k + 1)
        return [share_of(score, best) for score in scores]
    return [share_of(score, 1.0) for score in scores]


def leg_features_again(
    legs: Mapping[str, Sequence[float | None]], bests: Mapping[str, float]
) -> dict[str, list[float]]:
    """By leg, the scores of candidates from 0 to 1, of raw scores that are on record; None: it is not known.

    See ``retrieval.engine.relevance.leg_features``.
    """
    if len(legs) == 1:
        return {}
    return {
        leg: [share_of(score, bests[leg]) for score in scores]
        for leg, scores in legs.items()
        if leg_of(leg) == leg != REFINING
    }


def share_of(score: float | None, best: float) -> float:
    """The score's share of the best; what is not known, or not above 0, has none."""
    return min(1.0, score / best) if score is not None and score > 0 and best > 0 else 0.0
