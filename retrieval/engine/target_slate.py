"""What another profile would have shown for a recorded search, and how probably."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from retrieval.domain.exploration import PolicyName, Posterior
from retrieval.domain.learned import Learned
from retrieval.domain.profile import Profile
from retrieval.domain.recorded_pool import RecordedPool
from retrieval.engine.target_ranking import Candidate, by_relevance, in_order, with_learned
from retrieval.learning.ranked import Ranked
from retrieval.learning.slate import slate_probabilities


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
    candidates = by_relevance(pool, target.profile)
    if candidates is None:
        return Unanswerable.NO_LEG
    scored = with_learned(candidates, pool, target.profile.learned)
    return Unanswerable.LEARNED if scored is None else _slate(in_order(scored), pool, target.profile)


def _recorded(pool: RecordedPool) -> Mapping[str, float]:
    if not pool.propensity:
        return pool.shown
    candidates = zip(pool.item_ids, pool.propensity, strict=True)
    return {item_id: chance for item_id, chance in candidates if chance} | dict(pool.shown)


def _slate(ranked: list[Candidate], pool: RecordedPool, profile: Profile) -> Mapping[str, float] | Unanswerable:
    """The slate of a ranking under the profile's exploration; its posterior draws go by the search's own seed."""
    exploration = profile.exploration
    if exploration.policy is PolicyName.OFF:  # swaps change who stands where, not who is there
        return {one.item_id: 1.0 for one in ranked[: pool.limit]}
    if not _is_told(pool, profile):
        return Unanswerable.NO_ELIGIBLE
    chance = dict(zip(pool.item_ids, pool.propensity, strict=True)) if pool.propensity else {}
    candidates = [_explorable(one, profile.learned, chance.get(one.item_id)) for one in ranked]
    found = slate_probabilities(candidates, pool.limit, exploration, np.random.default_rng(pool.seed))
    return {item_id: probability for item_id, probability in found.items() if probability > 0}


def _is_told(pool: RecordedPool, profile: Profile) -> bool:
    """Whether the record says all that the policy goes by.

    A bonus needs the standard deviations of what was learned, where something was. Thompson slots leave a mark on those
    that compete for them, which is how the eligible are known again; raw counts are not in the record.
    """
    is_learned = bool(pool.learned and pool.learned_sd) and not profile.learned.is_off
    if profile.exploration.policy is PolicyName.UNCERTAINTY_BONUS:
        return is_learned or not pool.learned or profile.learned.is_off
    was_thompson = pool.policy.startswith(PolicyName.THOMPSON_SLOTS.value) and bool(pool.propensity)
    return is_learned and was_thompson and profile.exploration.posterior is Posterior.SHRUNK


def _explorable(one: Candidate, learned: Learned, chance: float | None) -> Ranked:
    """A candidate for exploration; its learned distribution is taken to the logit scale by first-order expansion."""
    eligible = chance is not None and 0 < chance < 1
    if one.learned is None or one.learned_sd is None or not 0 < one.learned < 1:
        return Ranked(item_id=one.item_id, score=one.relevance, relevance=one.relevance, eligible=eligible)
    return Ranked(
        item_id=one.item_id,
        score=one.score,
        relevance=one.relevance,
        learned_share=learned.share,
        eligible=eligible,
        logit_mean=math.log(one.learned / (1 - one.learned)),
        logit_sd=one.learned_sd / (one.learned * (1 - one.learned)),
        reward_sd=one.learned_sd,
    )
