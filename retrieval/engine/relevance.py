"""Relevance on a scale from 0 to 1, whatever the legs and their fusion: what a learned reward can be added to. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter

from retrieval.adapters.store.search.candidates import Found
from retrieval.domain.fusion import Fused, best_of
from retrieval.domain.profile import Profile, leg_of
from retrieval.domain.refining import REFINING
from retrieval.domain.relevance import on_unit_scale, share_of
from retrieval.domain.signals.catalogue import SIGNALS

SIGNAL_BEST = 1.0
_SCORE = itemgetter(3)


def relevances(ranked: Sequence[Fused], found: Found, profile: Profile) -> list[float]:
    """How well each candidate fits the query by itself, 0 to 1, in the order given and of the same order.

    A weighted sum is on that scale already. RRF: the share of what an item has that every leg puts first. One leg: the
    share of the leg's best score. Union: the share of the most that its signals can give.
    """
    return on_unit_scale([one.score for one in ranked], bests_of(found), profile)


def bests_of(found: Found) -> dict[str, float]:
    """By ranking, the score that counts as 1: the leg's best, and the most that a signal can be."""
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
            raw: Mapping[str, float] = {one.item_id: one.score for one in candidates}
            features[name] = [share_of(raw.get(one.item_id), bests[name]) for one in ranked]
    return features
