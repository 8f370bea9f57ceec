"""What another profile would have shown for a recorded search, and how probably."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from retrieval.domain.profile import Profile
from retrieval.domain.recorded_pool import RecordedPool
from retrieval.learning.target_ranking import target_ranking


class Unanswerable(StrEnum):
    """Why a recorded search cannot tell what a profile would have shown."""

    NO_POOL = "no candidates were recorded with it"
    GROUPED = "it showed the best of each group"
    DIVERSE = "near-duplicates are left out by vectors, which are not recorded"
    NO_LEG = "a leg of the profile did not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedProfile:
    """A profile with the name it was asked for by."""

    name: str
    profile: Profile
    version: int | None = None
    """Of the stored one; None: it is not stored."""


def target_slate(pool: RecordedPool, target: NamedProfile) -> Mapping[str, float] | Unanswerable:
    """The probability of each item to be shown, of those that might be.

    A search that this very version answered showed what it showed. Else its candidates are ranked again.
    """
    if target.version is not None and target.version == pool.profile_version:
        return _recorded(pool)
    if not pool.item_ids:
        return Unanswerable.NO_POOL
    if pool.is_grouped:
        return Unanswerable.GROUPED
    if not target.profile.diversity.is_off:
        return Unanswerable.DIVERSE
    ranked = target_ranking(pool, target.profile)
    return Unanswerable.NO_LEG if ranked is None else _slate(ranked, pool, target.profile)


def _recorded(pool: RecordedPool) -> Mapping[str, float]:
    if not pool.propensity:
        return pool.shown
    candidates = zip(pool.item_ids, pool.propensity, strict=True)
    return {item_id: chance for item_id, chance in candidates if chance} | dict(pool.shown)


def _slate(ranked: list[tuple[str, float]], pool: RecordedPool, profile: Profile) -> Mapping[str, float]:
    """The slate of a ranking: the first ones, for certain."""
    del profile
    return {item_id: 1.0 for item_id, _ in ranked[: pool.limit]}
