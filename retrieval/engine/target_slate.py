"""What another profile would have shown for a recorded search, and how probably."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from retrieval.domain.exploration import Exploration, PolicyName, Posterior
from retrieval.domain.profile import Profile
from retrieval.domain.recorded_pool import RecordedPool
from retrieval.engine.target_ranking import Candidate, by_relevance, in_order, knows_likeness, with_learned
from retrieval.learning.learned_model import LearnedModel
from retrieval.learning.ranked import Ranked
from retrieval.learning.slate import slate_probabilities


class Unanswerable(StrEnum):
    """Why a recorded search cannot tell what a profile would have shown."""

    COMPOSED = "an application put it together itself"
    NO_POOL = "no candidates were recorded with it"
    GROUPED = "it showed the best of each group"
    DIVERSE = "near-duplicates are left out by vectors, which are not recorded"
    REFINED = "how like its best candidate the others are is known for the weights that answered alone"
    NO_LEG = "a leg of the profile did not run"
    LEARNED = "what was learned then does not tell what this combination would have made of it"
    NO_ELIGIBLE = "whom the profile would explore was not recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedProfile:
    """A profile with the name it was asked for by."""

    name: str
    profile: Profile
    version: int | None = None
    """Of the stored one; None: it is not stored."""


def target_slate(
    pool: RecordedPool, target: NamedProfile, model: LearnedModel | None = None
) -> Mapping[str, float] | Unanswerable:
    """The probability of each item to be shown, of those that might be.

    A search that this very version answered showed what it showed. Else its candidates are ranked again. ``model`` is
    the one that counted in the search; None: none did, or it is gone.
    """
    if pool.origin:
        return Unanswerable.COMPOSED
    if target.version is not None and target.version == pool.profile_version:
        return _recorded(pool)
    if not pool.item_ids:
        return Unanswerable.NO_POOL
    if pool.is_grouped:
        return Unanswerable.GROUPED
    if not target.profile.diversity.is_off:
        return Unanswerable.DIVERSE
    if not knows_likeness(pool, target.profile):
        return Unanswerable.REFINED
    candidates = by_relevance(pool, target.profile)
    if candidates is None:
        return Unanswerable.NO_LEG
    scored = with_learned(candidates, pool, target.profile.learned, model)
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
    contenders = _contenders(ranked, pool, profile)
    if contenders is None:
        return Unanswerable.NO_ELIGIBLE
    found = slate_probabilities(contenders, pool.limit, exploration, np.random.default_rng(pool.seed))
    return {item_id: probability for item_id, probability in found.items() if probability > 0}


def _contenders(ranked: list[Candidate], pool: RecordedPool, profile: Profile) -> list[Ranked] | None:
    """The candidates as the profile's policy sees them; None: the record does not tell all that it goes by."""
    exploration, found = profile.exploration, []
    for one in ranked:
        contender = one.contender
        if exploration.policy is PolicyName.THOMPSON_SLOTS:
            eligible = _is_eligible(one.place, pool, exploration)
            if eligible is None:
                return None
            contender = replace(contender, eligible=eligible)
        if not _is_uncertainty_told(one, pool, exploration):
            return None
        found.append(contender)
    return found


def _is_uncertainty_told(one: Candidate, pool: RecordedPool, exploration: Exploration) -> bool:
    """Whether the record has how uncertain the candidate was: the model's word, or without one its uses."""
    is_thompson = exploration.policy is PolicyName.THOMPSON_SLOTS
    if one.contender.reward_mean is None or (is_thompson and exploration.posterior is Posterior.BETA):
        return bool(pool.uses) and pool.uses[one.place] is not None
    return bool(pool.effective_sample_size)


def _is_eligible(place: int, pool: RecordedPool, wanted: Exploration) -> bool | None:
    """Whether the profile might explore the candidate; None: how old it was is not known.

    What was recorded is whether it was used less, or younger, than the profile of the search asked for.
    """
    eligible, uses = (column[place] if column else None for column in (pool.eligible, pool.uses))
    then = pool.exploration
    if eligible is None or uses is None:
        return None
    if uses < wanted.fewer_uses_than:
        return True
    if wanted.younger_than_days == 0:
        return False
    if then is None:
        return None
    if eligible and uses >= then.fewer_uses_than and wanted.younger_than_days >= then.younger_than_days:
        return True
    if not eligible and wanted.younger_than_days <= then.younger_than_days:
        return False
    is_asked_alike = (wanted.fewer_uses_than, wanted.younger_than_days) == (
        then.fewer_uses_than,
        then.younger_than_days,
    )
    return bool(eligible) if is_asked_alike else None
