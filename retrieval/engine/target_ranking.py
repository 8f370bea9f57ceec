"""The candidates of a recorded search in the order of another profile: its legs and fusion, and what was learned."""

from __future__ import annotations

from typing import NamedTuple

from retrieval.domain.fusion import fused_again
from retrieval.domain.learned import Combination, Learned
from retrieval.domain.profile import Profile
from retrieval.domain.recorded_pool import RecordedPool
from retrieval.engine.relevance import on_unit_scale


class Candidate(NamedTuple):
    """A candidate as the profile sees it."""

    item_id: str
    score: float
    """What it is ranked by."""
    relevance: float
    """0 to 1."""
    learned: float | None = None
    """The learned reward in its score; None: it has none."""
    learned_sd: float | None = None


def by_relevance(pool: RecordedPool, profile: Profile) -> list[Candidate] | None:
    """The candidates of the profile's legs as ``retrieval.domain.fusion.fuse`` scores them; None: a leg did not run.

    A candidate that the pool does not hold is not found, and a profile whose legs look deeper sees no deeper.
    """
    weights = {leg: weight for leg, weight in profile.legs.items() if weight}
    if not weights.keys() <= pool.scores.keys():
        return None
    legs, ranks = {leg: pool.scores[leg] for leg in weights}, {leg: pool.ranks[leg] for leg in weights}
    ends = {leg: pool.bounds[leg] for leg in weights}
    scores = fused_again(legs, ranks, ends, weights, profile.fusion)
    relevances = on_unit_scale(scores, ends, profile)
    candidates = [Candidate(*one) for one in zip(pool.item_ids, scores, relevances, strict=True)]
    return [one for place, one in enumerate(candidates) if any(column[place] is not None for column in legs.values())]


def with_learned(candidates: list[Candidate], pool: RecordedPool, learned: Learned) -> list[Candidate] | None:
    """The candidates with the learned reward in their scores, as the recorded search had it; None: that cannot be done.

    Where nothing learned counted in that search, nothing does. A sum can be worked out again, a logit stack cannot: its
    signals are not all recorded.
    """
    if learned.is_off or not pool.learned:
        return candidates
    if learned.combination is not Combination.SUM:
        return None
    means = dict(zip(pool.item_ids, pool.learned, strict=True))
    deviations = dict(zip(pool.item_ids, pool.learned_sd, strict=True)) if pool.learned_sd else {}
    return [_summed(one, learned.share, means[one.item_id], deviations.get(one.item_id)) for one in candidates]


def in_order(candidates: list[Candidate]) -> list[Candidate]:
    """The best first; equal scores are ordered by item id."""
    return sorted(candidates, key=lambda one: (-one.score, one.item_id))


def _summed(one: Candidate, share: float, mean: float | None, deviation: float | None) -> Candidate:
    if mean is None:
        return one._replace(score=one.relevance)
    return one._replace(score=(1 - share) * one.relevance + share * mean, learned=mean, learned_sd=deviation)
