"""The replay of a recorded search: whether its ranking follows from its record, and differences today. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import zip_longest
from typing import Any
from uuid import UUID

import numpy as np

from retrieval.adapters.store.items.items import ARCHIVED
from retrieval.domain.items.item import StoredItem
from retrieval.domain.learning.arm import ItemArms
from retrieval.domain.records.recorded import RecordedPool, RecordedSearch, columns_of, context_of
from retrieval.domain.records.search_record import Impression
from retrieval.domain.records.slate import Placed, Slot
from retrieval.domain.search.fusion import Fused, leg_features_again
from retrieval.domain.search.profile import Profile
from retrieval.domain.serialization import Serializable
from retrieval.engine.scoring import Pool, predictions
from retrieval.engine.target import TargetCandidate, by_relevance, with_learned
from retrieval.learning.learned_model import LearnedModel
from retrieval.learning.slate import drawn_slate, policy_for
from retrieval.learning.stack import LENGTH

TOLERANCE = 1e-9
"""Scores and probabilities that differ by less, relative to the larger, are equal."""

ROUNDED = 1e-3
"""The same for searches by a caller's vector, which is stored with three digits."""

_ALIKE = 1e-6
"""The same for learned rewards, whose arms are added up in another order."""


def items_with_arms(recorded: RecordedSearch) -> list[str]:
    """The recorded candidates whose arms the search read."""
    uses = recorded.pool_signals.get("uses", ())
    return [item_id for item_id, use in zip(recorded.pool_items, uses, strict=False) if use is not None]


def _draw_differences(
    recorded: RecordedSearch, profile: Profile, candidates: Sequence[TargetCandidate]
) -> tuple[str, ...]:
    """The first difference between the slate shown and the slate that the profile's policy draws from the record.

    Empty: no difference, or no slate was drawn. Diverse pages are not drawn again: their order depends on vectors.
    """
    signals = recorded.pool_signals
    if "propensity" not in signals or not profile.diversity.is_off:
        return ()
    policy = policy_for(profile.exploration).recorded_as
    if policy != recorded.policy:
        return (f"{recorded.policy} drew then; the profile's policy is {policy}",)
    places = sum(chance or 0.0 for chance in signals["propensity"])
    # A least score or relevance shows fewer hits than were drawn.
    eligible = sum(flag is not None for flag in signals["eligible"])
    expected = min(recorded.request["limit"], eligible) if _has_least(recorded) else recorded.hits
    is_whole = math.isclose(places, expected, abs_tol=1e-6)
    if not is_whole or sum(flag or 0 for flag in signals["eligible"]) != recorded.eligible:
        return ("the record lacks candidates of exploration: recording.pool is too small, or a hit was removed",)
    contenders = [candidate for candidate in candidates if signals["eligible"][candidate.position] is not None]
    if recorded.model_version:
        contenders.sort(key=lambda candidate: (-signals["score"][candidate.position], candidate.item_id))
    drawn = [candidate.contender for candidate in contenders]
    chance = np.random.default_rng(recorded.seed)
    return _draw_difference(recorded, *drawn_slate(drawn, recorded.request["limit"], profile.exploration, chance))


def _has_least(recorded: RecordedSearch) -> bool:
    """True if the request has a least score or relevance."""
    return any(recorded.request[name] is not None for name in ("min_score", "min_relevance"))


def _draw_difference(recorded: RecordedSearch, placed: list[Placed], chances: Mapping[str, float]) -> tuple[str, ...]:
    if _has_least(recorded):
        shown = {impression.item_id for impression in recorded.impressions}
        placed = [place for place in placed if place.item_id in shown]
    for impression, again in zip_longest(recorded.impressions, placed[: recorded.hits]):
        if again is None or (impression.item_id, impression.slot) != (again.item_id, again.slot):
            was = f"{impression.item_id} ({impression.slot}) was shown at rank {impression.rank}"
            instead = "another item" if again is None else f"{again.item_id} ({again.slot})"
            return (f"{was}, where the policy with seed {recorded.seed} puts {instead}",)
        old, new = impression.propensity, again.propensity
        if not (_is_equal(old, new) and _is_equal(impression.rank_propensity, again.rank_propensity)):
            return (f"the propensity of {impression.item_id} was {old:.9g} and is {new:.9g}",)
    for item_id, was in zip(recorded.pool_items, recorded.pool_signals["propensity"], strict=True):
        if was is not None and not _is_equal(was, now := chances.get(item_id, 0.0)):
            return (f"the propensity of {item_id} was {was:.9g} and is {now:.9g}",)
    return ()


def statistics_moved(
    recorded: RecordedSearch, profile: Profile, model: LearnedModel | None, arms: Mapping[str, ItemArms]
) -> tuple[str, ...]:
    """The recorded statistics that differ from those of today's valid feedback as of the recorded time.

    Removed items are left out, because their cluster and age are no longer known. ``arms``: the arms of
    ``items_with_arms`` in the buckets of the search by item id, as of the time of the statistics.
    """
    signals = recorded.pool_signals
    stored = [item_id for item_id in items_with_arms(recorded) if arms[item_id].created_at is not None]
    positions = {item_id: recorded.pool_items.index(item_id) for item_id in stored}
    recounts = _recounts(recorded, positions, arms)
    counts = [_change("uses", len(recounts), len(positions), recounts[0])] if recounts else []
    if "learned" not in signals or not positions:
        return tuple(counts)
    if model is None:
        return (*counts, f"model v{recorded.model_version} is no longer stored: its predictions are as recorded")
    predicted = predictions(_scoring_pool(recorded, positions, arms), model, profile.learned.combination)
    others = [
        f"{item_id} was {was:.4f} and is {mean:.4f}"
        for (item_id, position), mean in zip(positions.items(), predicted.mean.tolist(), strict=True)
        if not math.isclose(was := signals["learned"][position], mean, rel_tol=_ALIKE)
    ]
    return (*counts, _change("learned rewards", len(others), len(positions), others[0])) if others else tuple(counts)


def _recounts(recorded: RecordedSearch, positions: Mapping[str, int], arms: Mapping[str, ItemArms]) -> list[str]:
    signals, texts = recorded.pool_signals, []
    for item_id, position in positions.items():
        was = round(signals["uses"][position]), round(signals["raw_successes"][position])
        arm = arms[item_id].anywhere
        if was != (arm.uses, arm.raw_successes):
            texts.append(f"{item_id} had {was[1]} successes in {was[0]} and has {arm.raw_successes} in {arm.uses}")
    return texts


def _change(signal: str, differing: int, candidates: int, example: str) -> str:
    return (
        f"the {signal} of {differing} of {candidates} candidates do not follow from the feedback that counts today "
        f"({example}): verdicts were withdrawn, quarantined or retired since, or half-life or clusters changed"
    )


def _scoring_pool(recorded: RecordedSearch, positions: Mapping[str, int], arms: Mapping[str, ItemArms]) -> Pool:
    signals = recorded.pool_signals
    return Pool(
        ranked=[Fused(item_id, 0.0, ()) for item_id in positions],
        relevance=[signals["scaled"][position] for position in positions.values()],
        legs={
            leg: [values[position] for position in positions.values()]
            for leg, values in leg_features_again(signals["legs"], signals["bests"]).items()
        },
        arms=[arms[item_id] for item_id in positions],
        buckets=context_of(recorded).buckets(recorded.cluster),
    )


def _pool_of(recorded: RecordedSearch, profile: Profile) -> RecordedPool:
    return RecordedPool(
        retrieval_id=recorded.retrieval_id,
        limit=recorded.request["limit"],
        profile_version=recorded.profile_version,
        is_grouped=recorded.request["group_by"] is not None,
        seed=recorded.seed,
        reranker=recorded.request.get("reranker", ""),
        item_ids=recorded.pool_items,
        model_version=recorded.model_version,
        profile=profile,
        **columns_of(recorded.pool_signals),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """An item that has another place or score today."""

    item_id: str
    rank_then: int | None
    """None: the item was not among the recorded hits."""
    rank_now: int | None
    """None: the item is not among today's hits."""
    score_then: float | None
    score_now: float | None
    why: tuple[str, ...]
    """The reasons, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay(Serializable):
    """The result of a replay."""

    serialized_properties = ("is_same_today",)

    retrieval_id: UUID
    retrieved_at: datetime
    collection: str
    query: str
    is_reproduced: bool
    """True if the recorded ranking follows from the record."""
    why_not: tuple[str, ...]
    """The places where it does not follow, in words."""
    changes: tuple[str, ...]
    """The changes since then that affect the whole search: profile, path, model, statistics."""
    differences: tuple[Difference, ...]
    """The changes by item: first today's hits in order, then those that are no longer hits."""

    @property
    def is_same_today(self) -> bool:
        """True if today's answer has the same items at the same places with the same scores."""
        return not self.differences


def why_not_reproduced(
    recorded: RecordedSearch, profile: Profile | None, model: LearnedModel | None = None
) -> tuple[str, ...]:
    """The reasons why the recorded ranking does not follow from its own record; empty: it follows.

    ``profile``: the one that answered; None: it is no longer stored. ``model``: that of the recorded version.
    """
    if recorded.origin:
        return (f"an application composed it ({recorded.origin}): there is no ranking to compute again",)
    if recorded.policy.startswith("team_draft"):
        return ("it shows the hits of two profiles, whose mixture cannot be ranked again",)
    if profile is None:
        return (f"profile v{recorded.profile_version} is no longer stored",)
    pool = recorded.pool_items
    if len(pool) < min(recorded.hits, 1) or any(hit.item_id not in set(pool) for hit in _exploits(recorded)):
        return (f"{len(pool)} candidates were kept, and not all hits are among them: recording.pool is too small",)
    columns = _pool_of(recorded, profile)
    used_profile = replace(profile, legs={leg: weight for leg, weight in profile.legs.items() if leg in columns.scores})
    candidates = by_relevance(columns, used_profile) or []
    learned = with_learned(candidates, columns, profile.learned, model)
    if learned is None:
        return (f"model v{recorded.model_version} is no longer stored: its scores cannot be computed",)
    # A model reorders only the most relevant candidates; the others keep their scores.
    scores = dict.fromkeys(pool, 0.0) | {candidate.item_id: candidate.score for candidate in [*candidates, *learned]}
    drawn = _draw_differences(recorded, profile, learned)
    return (*_score_differences(recorded, scores), *_out_of_order(recorded, profile, scores), *drawn)


def differences(
    then: RecordedSearch, now: RecordedSearch, items: Mapping[str, StoredItem]
) -> tuple[tuple[str, ...], tuple[Difference, ...]]:
    """The changes of the whole search, and the items whose place or score differs, each with the reason.

    ``items``: the items of both that exist today, by id.
    """
    tolerance = TOLERANCE if then.vector is None else ROUNDED
    shown_then = {impression.item_id: impression for impression in then.impressions}
    shown_now = {impression.item_id: impression for impression in now.impressions}
    differing = []
    for item_id in dict.fromkeys([*shown_now, *shown_then]):
        old, new = shown_then.get(item_id), shown_now.get(item_id)
        if old and new and old.rank == new.rank and _is_equal(old.score, new.score, tolerance):
            continue
        differing.append(
            Difference(
                item_id=item_id,
                rank_then=None if old is None else old.rank,
                rank_now=None if new is None else new.rank,
                score_then=_score_of(then, item_id, old),
                score_now=_score_of(now, item_id, new),
                why=tuple(_reasons(item_id, then, now, items.get(item_id), tolerance)),
            )
        )
    return tuple(_changes(then, now)), tuple(differing)


def _changes(then: RecordedSearch, now: RecordedSearch) -> list[str]:
    changes = []
    if then.profile_version != now.profile_version:
        changes.append(f"profile v{then.profile_version} answered then, v{now.profile_version} does now")
    if then.model_version != now.model_version:
        changes.append(f"learned model v{then.model_version} counted then, v{now.model_version} does now")
    if then.policy != now.policy:
        changes.append(f"exploration was {then.policy}, and is {now.policy}")
    if then.path != now.path:
        changes.append(f"the dense leg took another path: {then.path} then, {now.path} now")
    legs_then, legs_now = set(then.pool_signals["legs"]), set(now.pool_signals["legs"])
    if legs_then:  # a search that showed the hits of two profiles has no legs of its own
        changes += [f"the {leg} leg did not run then" for leg in sorted(legs_now - legs_then)]
        changes += [f"the {leg} leg does not run now" for leg in sorted(legs_then - legs_now)]
    return changes


def _reasons(
    item_id: str, then: RecordedSearch, now: RecordedSearch, stored: StoredItem | None, tolerance: float
) -> list[str]:
    if stored is None:
        return ["the item was removed"]
    reasons = []
    if stored.created_at > then.retrieved_at:
        reasons.append("the item is new")
    elif stored.updated_at > then.retrieved_at:
        reasons.append("the item was archived" if stored.item.status == ARCHIVED else "the item was changed")
    reasons += _draw_changes(item_id, then, now)
    reasons += _leg_changes(item_id, then, now, tolerance)
    if not reasons and then.profile_version != now.profile_version:
        reasons.append("the profile was changed")
    if not reasons and then.statistics_at != now.statistics_at and now.model_version:
        reasons.append("its learned reward has changed")
    return reasons or ["other items moved"]


def _draw_changes(item_id: str, then: RecordedSearch, now: RecordedSearch) -> list[str]:
    return [
        f"exploration {'swapped' if impression.slot is Slot.SWAP else 'drew'} it {name}"
        for name, search in (("then", then), ("now", now))
        for impression in search.impressions
        if impression.item_id == item_id and impression.slot is not Slot.EXPLOIT
    ]


def _leg_changes(item_id: str, then: RecordedSearch, now: RecordedSearch, tolerance: float) -> list[str]:
    """The changes of the item's raw score or rank, by leg."""
    changes = []
    for leg in then.pool_signals["legs"].keys() & now.pool_signals["legs"].keys():
        raw_then, raw_now = _signal(then, "legs", leg, item_id), _signal(now, "legs", leg, item_id)
        rank_then, rank_now = _signal(then, "ranks", leg, item_id), _signal(now, "ranks", leg, item_id)
        if raw_then is not None and raw_now is not None and not _is_equal(raw_then, raw_now, tolerance):
            changes.append(f"{leg} score {raw_then:.4f} then, {raw_now:.4f} now")
        elif rank_then != rank_now:
            changes.append(f"{leg} rank {rank_then or 'beyond the pool'} then, {rank_now or 'beyond the pool'} now")
    return sorted(changes)


def _signal(search: RecordedSearch, name: str, leg: str, item_id: str) -> Any:
    try:
        return search.pool_signals[name][leg][search.pool_items.index(item_id)]
    except ValueError:
        return None


def _score_of(search: RecordedSearch, item_id: str, shown: Impression | None) -> float | None:
    """The score that was shown, else the score in the pool."""
    if shown is not None:
        return shown.score
    try:
        score: float = search.pool_signals["score"][search.pool_items.index(item_id)]
    except (KeyError, ValueError):  # the profile is no longer stored, or the item is not in the pool
        return None
    return score


def _exploits(recorded: RecordedSearch) -> list[Impression]:
    return [impression for impression in recorded.impressions if impression.slot is Slot.EXPLOIT]


def _score_differences(recorded: RecordedSearch, scores: Mapping[str, float]) -> list[str]:
    """The first item whose score differs from its recorded score."""
    for item_id, was in zip(recorded.pool_items, recorded.pool_signals["score"], strict=True):
        if not _is_equal(was, scores[item_id]):
            return [f"the score of {item_id} was recorded as {was:.9g} and is computed as {scores[item_id]:.9g}"]
    return []


def _out_of_order(recorded: RecordedSearch, profile: Profile, scores: Mapping[str, float]) -> list[str]:
    """The first hit placed by score that is not in the order of the scores."""
    shown = _exploits(recorded)
    wrong = [hit for hit in shown if not _is_equal(hit.score, scores[hit.item_id])]
    faults = [f"the score of hit {hit.item_id} is not that of its candidate" for hit in wrong[:1]]
    if profile.diversity.relevance_share is not None or "propensity" in recorded.pool_signals:
        return faults  # diverse and drawn hits have other orders
    shown = [hit for hit in shown if hit.rank > recorded.request["continued"]]
    ordered = sorted(shown, key=lambda candidate: (-scores[candidate.item_id], candidate.item_id))
    for was, again in zip(shown, ordered, strict=True):
        if was.item_id != again.item_id and not _is_equal(scores[was.item_id], scores[again.item_id]):
            return [*faults, f"{was.item_id} was shown at rank {was.rank}, where {again.item_id} belongs"]
    return [*faults, *_skipped_candidates(recorded, profile, scores)]


def _skipped_candidates(recorded: RecordedSearch, profile: Profile, scores: Mapping[str, float]) -> list[str]:
    """A candidate that was not shown although it is better than the last hit, where no setting allows that."""
    may_skip = recorded.request["group_by"] is not None or not profile.diversity.is_off
    has_drawn = any(impression.slot is not Slot.EXPLOIT for impression in recorded.impressions)
    if may_skip or has_drawn or recorded.hits < recorded.request["limit"]:
        return []
    shown = {impression.item_id for impression in recorded.impressions}
    own = recorded.impressions[recorded.request["continued"] :]
    lowest = min((impression.score for impression in own), default=math.inf)
    # The model ranked only the most relevant candidates; the rest of the pool was left out.
    signals = recorded.pool_signals
    learned_values = signals.get(LENGTH) or signals.get("learned") or [0.0] * len(recorded.pool_items)
    candidates = [item for item, value in zip(recorded.pool_items, learned_values, strict=True) if value is not None]
    others = [item_id for item_id in candidates if item_id not in shown]
    better = [item_id for item_id in others if scores[item_id] > lowest and not _is_equal(scores[item_id], lowest)]
    return [f"{better[0]} was skipped: it was removed while the search ran"] if better else []


def _is_equal(score: float, other: float, tolerance: float = TOLERANCE) -> bool:
    return math.isclose(score, other, rel_tol=tolerance, abs_tol=1e-12)
