"""The candidates of a recorded search in the order of another profile: its legs, weights and fusion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from retrieval.domain.profile import FusionKind, Profile
from retrieval.domain.recorded_pool import RecordedPool


def target_ranking(pool: RecordedPool, profile: Profile) -> list[tuple[str, float]] | None:
    """Items with their scores as ``retrieval.domain.fusion.fuse`` gives them, best first; None: a leg was not recorded.

    A candidate that the pool does not hold is not found, and a profile whose legs look deeper sees no deeper.
    """
    weights = {leg: weight for leg, weight in profile.legs.items() if weight}
    if not weights.keys() <= pool.scores.keys():
        return None
    totals: dict[str, float] = {}
    for leg, weight in weights.items():
        values = _alone(pool, leg) if len(weights) == 1 else _values(pool, leg, weight, sum(weights.values()), profile)
        for item_id, value in values.items():
            totals[item_id] = totals.get(item_id, 0.0) + value
    return sorted(totals.items(), key=lambda one: (-one[1], one[0]))


def _alone(pool: RecordedPool, leg: str) -> dict[str, float]:
    """A leg's own scores."""
    return {item_id: score for item_id, score in zip(pool.item_ids, pool.scores[leg], strict=True) if score is not None}


def _values(pool: RecordedPool, leg: str, weight: float, total: float, profile: Profile) -> Mapping[str, float]:
    """What the leg brings to each candidate's score."""
    if profile.fusion.kind is FusionKind.RRF:
        return {item_id: weight / (profile.fusion.k + rank) for item_id, rank in _ranks(pool, leg).items()}
    scores, share = _alone(pool, leg), weight / total
    cut, best = _bounds(pool, leg, list(scores.values()))
    if best <= cut:
        return dict.fromkeys(scores, share)
    return {item_id: share * (score - cut) / (best - cut) for item_id, score in scores.items()}


def _ranks(pool: RecordedPool, leg: str) -> dict[str, int]:
    if leg in pool.ranks:
        ranks = zip(pool.item_ids, pool.ranks[leg], strict=True)
        return {item_id: rank for item_id, rank in ranks if rank is not None}
    ordered = sorted(_alone(pool, leg).items(), key=lambda one: (-one[1], one[0]))
    return {item_id: rank for rank, (item_id, _) in enumerate(ordered, 1)}


def _bounds(pool: RecordedPool, leg: str, scores: Sequence[float]) -> tuple[float, float]:
    if leg in pool.bounds:
        cut, best = pool.bounds[leg]
        return cut, best
    return min(0.0, min(scores, default=0.0)), max(scores, default=0.0)
