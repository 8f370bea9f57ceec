"""What was learned and drawn in a recorded search, computed again from its record, its model and the feedback. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from retrieval.domain.arm import ItemArms
from retrieval.domain.context import Context
from retrieval.domain.fusion import Fused
from retrieval.domain.profile import Profile
from retrieval.domain.recorded import RecordedSearch
from retrieval.domain.recorded_pool import RecordedPool, columns_of
from retrieval.domain.relevance import leg_features_again
from retrieval.domain.slate import Placed
from retrieval.engine.decide import Decision, slate
from retrieval.engine.record import Decided
from retrieval.engine.scoring import Pool, predictions
from retrieval.engine.target_ranking import Candidate, by_relevance, with_learned
from retrieval.learning.learned_model import LearnedModel
from retrieval.learning.policies.choice import policy_for

_EQUAL = 1e-9
"""Scores and probabilities that differ by less, relative to the larger, are equal."""

_ALIKE = 1e-6
"""The same for learned rewards, whose arms are sums in another order."""


def looked_at(recorded: RecordedSearch) -> list[str]:
    """The candidates whose arms the search read."""
    uses = recorded.pool_signals.get("uses", ())
    return [item_id for item_id, one in zip(recorded.pool_items, uses, strict=False) if one is not None]


def buckets_of(recorded: RecordedSearch) -> tuple[str, ...]:
    """The context buckets of the search."""
    return Context(domain=recorded.domain, complexity=recorded.complexity).buckets(recorded.cluster)


def candidates_again(recorded: RecordedSearch, profile: Profile, model: LearnedModel | None) -> list[Candidate] | None:
    """The candidates of the record, in its order, with their final scores; None: they cannot be had."""
    pool = _pool_of(recorded, profile)
    ran = replace(profile, legs={leg: weight for leg, weight in profile.legs.items() if leg in pool.scores})
    found = by_relevance(pool, ran)
    return None if found is None else with_learned(found, pool, ran.learned, model)


def drawn_otherwise(recorded: RecordedSearch, profile: Profile, model: LearnedModel | None) -> tuple[str, ...]:
    """Where the policy of the profile, with the recorded seed and candidates, does not draw what was shown.

    Nothing: it does, or nothing was drawn. Diverse pages are not drawn again: their order comes from vectors.
    """
    signals = recorded.pool_signals
    if "propensity" not in signals or not profile.diversity.is_off:
        return ()
    policy = policy_for(profile.exploration).recorded_as
    if policy != recorded.policy:
        return (f"{recorded.policy} drew then, which the profile does not ask for, or not any more: it says {policy}",)
    candidates = candidates_again(recorded, profile, model)
    chances = [one or 0.0 for one in signals["propensity"]]
    is_whole = math.isclose(sum(chances), recorded.hits, abs_tol=1e-6)
    if candidates is None or not is_whole or sum(one or 0 for one in signals["eligible"]) != recorded.eligible:
        return ("not all that exploration drew among was kept: recording.pool is too small, or a hit was removed",)
    return _compared(recorded, _drawn(recorded, profile, candidates))


def _drawn(
    recorded: RecordedSearch, profile: Profile, candidates: Sequence[Candidate]
) -> tuple[list[Placed], Mapping[str, float | None]]:
    signals, is_learned = recorded.pool_signals, "learned" in recorded.pool_signals
    known = [one for one in candidates if signals["eligible"][one.place] is not None]
    if is_learned:
        known.sort(key=lambda one: (-signals["score"][one.place], one.item_id))
    order = [Fused(one.item_id, one.score, ()) for one in known]
    by_id = {one.item_id: one for one in order}
    decision = Decision(
        ranked=order,
        candidates=[one.contender for one in known],
        decided=Decided(),
        explained=by_id.__getitem__,
    )
    placed, decided = slate(decision, order, profile, recorded.request["limit"], recorded.seed)
    return placed, decided.signals["propensity"]


def _compared(recorded: RecordedSearch, drawn: tuple[list[Placed], Mapping[str, float | None]]) -> tuple[str, ...]:
    placed, chances = drawn
    for one, again in zip(recorded.impressions, placed, strict=False):
        if (one.item_id, one.slot) != (again.item_id, again.slot):
            shown = f"{one.item_id} ({one.slot}) was shown at rank {one.rank}"
            return (f"{shown}, where the policy with seed {recorded.seed} puts {again.item_id} ({again.slot})",)
        if not _are_equal((one.propensity, one.rank_propensity), (again.propensity, again.rank_propensity)):
            return (f"the propensity of {one.item_id} was {one.propensity:.9g} and is {again.propensity:.9g}",)
    for item_id, was in zip(recorded.pool_items, recorded.pool_signals["propensity"], strict=True):
        if was is not None and not _are_equal((was,), (chances.get(item_id) or 0.0,)):
            return (f"the propensity of {item_id} was {was:.9g} and is {chances.get(item_id) or 0.0:.9g}",)
    return ()


def statistics_moved(
    recorded: RecordedSearch, profile: Profile, model: LearnedModel | None, arms: Mapping[str, ItemArms]
) -> tuple[str, ...]:
    """Where what was known of the candidates does not follow from the feedback that counts today, as it was then.

    ``arms`` are those of ``looked_at`` in ``buckets_of``, as of the moment of the statistics, by item id.
    """
    signals = recorded.pool_signals
    places = {item_id: recorded.pool_items.index(item_id) for item_id in looked_at(recorded)}
    found = [_said("uses", len(moved), len(places), moved[0])] if (moved := _recounted(recorded, places, arms)) else []
    if "learned" not in signals or not places:
        return tuple(found)
    if model is None:
        return (*found, f"model v{recorded.model_version} is not stored any more: its predictions are as recorded")
    predicted = predictions(_scoring_pool(recorded, places, arms), model, profile.learned.combination)
    others = [
        f"{one.item_id} was {was:.4f} and is {one.mean:.4f}"
        for one in predicted
        if not math.isclose(was := signals["learned"][places[one.item_id]], one.mean, rel_tol=_ALIKE)
    ]
    return (*found, _said("learned rewards", len(others), len(places), others[0])) if others else tuple(found)


def _recounted(recorded: RecordedSearch, places: Mapping[str, int], arms: Mapping[str, ItemArms]) -> list[str]:
    signals, found = recorded.pool_signals, []
    for item_id, place in places.items():
        was = round(signals["uses"][place]), round(signals["raw_successes"][place])
        arm = arms[item_id].anywhere
        if was != (arm.uses, arm.raw_successes):
            found.append(f"{item_id} had {was[1]} successes in {was[0]} and has {arm.raw_successes} in {arm.uses}")
    return found


def _said(what: str, differing: int, of: int, example: str) -> str:
    return (
        f"the {what} of {differing} of {of} candidates do not follow from the feedback that counts today ({example}): "
        "verdicts were withdrawn, quarantined or retired since, or half-life or clusters changed"
    )


def _scoring_pool(recorded: RecordedSearch, places: Mapping[str, int], arms: Mapping[str, ItemArms]) -> Pool:
    signals = recorded.pool_signals
    return Pool(
        ranked=[Fused(item_id, 0.0, ()) for item_id in places],
        relevance=[signals["scaled"][place] for place in places.values()],
        legs={
            leg: [values[place] for place in places.values()]
            for leg, values in leg_features_again(signals["legs"], signals["bests"]).items()
        },
        arms=[arms[item_id] for item_id in places],
        cosines=[signals["cosine"][place] for place in places.values()],
        buckets=buckets_of(recorded),
    )


def _pool_of(recorded: RecordedSearch, profile: Profile) -> RecordedPool:
    return RecordedPool(
        retrieval_id=recorded.retrieval_id,
        retrieved_at=recorded.retrieved_at,
        limit=recorded.request["limit"],
        profile_version=recorded.profile_version,
        is_grouped=recorded.request["group_by"] is not None,
        policy=recorded.policy,
        seed=recorded.seed,
        item_ids=recorded.pool_items,
        model_version=recorded.model_version,
        combination=profile.learned.combination,
        exploration=profile.exploration,
        **columns_of(recorded.pool_signals),
    )


def _are_equal(some: tuple[float, ...], others: tuple[float, ...]) -> bool:
    return all(math.isclose(one, other, rel_tol=_EQUAL, abs_tol=1e-12) for one, other in zip(some, others, strict=True))
