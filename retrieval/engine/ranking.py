"""From the legs' candidates to one ranking: fused, or the only leg's own, and the best of each group. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from retrieval.adapters.store.candidates import Found
from retrieval.domain.fusion import Candidate, Fused, fuse
from retrieval.domain.hit import Contribution
from retrieval.domain.profile import Profile

ONE_LEG = "none"
"""The fusion of a search that one leg answers: its own scores are the hits'."""


def ranking(found: Found, profile: Profile, depth: int, limit: int | None = None) -> list[Fused]:
    """The candidates, best first, each score with its parts; at most ``limit`` of them."""
    if len(found.rankings) > 1:
        return fuse(found.rankings, profile.legs, profile.fusion, depth=depth, limit=limit)
    return [_alone(candidate) for candidates in found.rankings.values() for candidate in candidates[:limit]]


def fusion_name(found: Found, profile: Profile) -> str:
    """How the scores came about."""
    return profile.fusion.kind.value if len(found.rankings) > 1 else ONE_LEG


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


def _alone(candidate: Candidate) -> Fused:
    part = Contribution(candidate.leg, candidate.rank, candidate.score, 1.0, candidate.score)
    return Fused(candidate.item_id, candidate.score, (part,))
