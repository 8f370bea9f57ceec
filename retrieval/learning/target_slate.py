"""What another profile would have shown for a recorded search, and how probably."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from retrieval.domain.exploration import Exploration, PolicyName, Posterior
from retrieval.domain.profile import Profile
from retrieval.domain.recorded_pool import RecordedPool
from retrieval.learning.ranked import Ranked
from retrieval.learning.slate import slate_probabilities
from retrieval.learning.target_ranking import target_ranking


class Unanswerable(StrEnum):
    """Why a recorded search cannot tell what a profile would have shown."""

    NO_POOL = "no candidates were recorded with it"
    GROUPED = "it showed the best of each group"
    DIVERSE = "near-duplicates are left out by vectors, which are not recorded"
    NO_LEG = "a leg of the profile did not run"
    LEARNED = "what was learned then is not weighed again"
    NO_ELIGIBLE = "whom the profile would explore was not recorded"


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
    if ranked is None:
        return Unanswerable.NO_LEG
    scored = rescored(ranked, pool, target.profile)
    return Unanswerable.LEARNED if scored is None else _slate(scored, pool, target.profile.exploration)


def rescored(ranked: list[tuple[str, float]], pool: RecordedPool, profile: Profile) -> list[tuple[str, float]] | None:
    """The ranking with the learned reward in its scores, best first; None: it counts and cannot be worked out."""
    return ranked if profile.learned.is_off or not pool.learned else None


def _recorded(pool: RecordedPool) -> Mapping[str, float]:
    if not pool.propensity:
        return pool.shown
    candidates = zip(pool.item_ids, pool.propensity, strict=True)
    return {item_id: chance for item_id, chance in candidates if chance} | dict(pool.shown)


def _slate(
    ranked: list[tuple[str, float]], pool: RecordedPool, exploration: Exploration
) -> Mapping[str, float] | Unanswerable:
    """The slate of a ranking under the profile's exploration; its posterior draws go by the search's own seed."""
    if exploration.policy is PolicyName.OFF:  # swaps change who stands where, not who is there
        return {item_id: 1.0 for item_id, _ in ranked[: pool.limit]}
    if not _tells_eligible(pool, exploration):
        return Unanswerable.NO_ELIGIBLE
    rng = np.random.default_rng(pool.seed)
    chances = slate_probabilities(_candidates(ranked, pool), pool.limit, exploration, rng)
    return {item_id: chance for item_id, chance in chances.items() if chance > 0}


def _tells_eligible(pool: RecordedPool, exploration: Exploration) -> bool:
    """Whether the record says all that the policy goes by: what is learned, and of Thompson slots who is eligible.

    Only Thompson slots leave their mark on the eligible; the raw counts of a Beta posterior are not in the pool.
    """
    if not pool.learned_sd or not pool.learned:
        return False
    if exploration.policy is PolicyName.UNCERTAINTY_BONUS:
        return True
    was_thompson = pool.policy.startswith(PolicyName.THOMPSON_SLOTS.value)
    return was_thompson and bool(pool.propensity) and exploration.posterior is Posterior.SHRUNK


def _candidates(ranked: list[tuple[str, float]], pool: RecordedPool) -> list[Ranked]:
    """The ranking as exploration sees it."""
    learned, spread, chance = (
        dict(zip(pool.item_ids, column, strict=False)) for column in (pool.learned, pool.learned_sd, pool.propensity)
    )
    return [
        _candidate(item_id, score, learned.get(item_id), spread.get(item_id), chance.get(item_id))
        for item_id, score in ranked
    ]


def _candidate(item_id: str, score: float, mean: float | None, spread: float | None, chance: float | None) -> Ranked:
    """A learned mean and standard deviation on the logit scale are those of the first-order expansion."""
    eligible = chance is not None and 0 < chance < 1
    if mean is None or spread is None or not 0 < mean < 1:
        return Ranked(item_id=item_id, score=score, eligible=eligible)
    return Ranked(
        item_id=item_id,
        score=score,
        eligible=eligible,
        logit_mean=math.log(mean / (1 - mean)),
        logit_sd=spread / (mean * (1 - mean)),
        reward_sd=spread,
    )
