"""Comparing two profiles on recorded searches, before anybody is switched over.

What each would have shown is worked out from the recorded candidates; what that would have earned, and how sure it is,
the database computes (``sql/learning/off_policy.sql``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

from retrieval.adapters.store.database import Connection, Database
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.learning.models import definition_within
from retrieval.adapters.store.learning.off_policy import Compared, RecordedTraffic, read_comparison, read_weighing
from retrieval.adapters.store.records.retrievals import read_pools
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.estimate import Estimate, Estimator
from retrieval.domain.recorded_pool import RecordedPool
from retrieval.domain.target import Target
from retrieval.domain.weighing import Weighing
from retrieval.engine.target_slate import NamedProfile, Unanswerable, target_slate
from retrieval.learning.learned_model import LearnedModel
from retrieval.learning.reward_model import RewardModel
from retrieval.learning.verdict import Verdict, judge

MOST = 10_000
"""Searches that are looked at unless more are asked for: the latest."""

DECIDES = Estimator.SNIPS
"""The estimator whose interval, unclipped, the verdict goes by: docs/decisions/0016-off-policy-evaluation.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileComparison:
    """What recorded searches say about two profiles."""

    collection: str
    names: tuple[str, str]
    since: datetime
    default_reward: float | None
    searches: int
    """Those that could be answered again under both profiles."""
    left_out: Mapping[str, int]
    """The others, by reason."""
    changed: int
    """Of the searches, those for which the two would show something else."""
    weighings: tuple[Weighing, Weighing]
    estimates: tuple[Compared, ...]
    """By estimator, plain and clipped; empty without a reward."""
    verdict: Verdict

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "collection": self.collection,
            "profile": self.names[0],
            "against": self.names[1],
            "since": self.since.isoformat(),
            "default_reward": self.default_reward,
            "searches": self.searches,
            "left_out": dict(self.left_out),
            "changed": self.changed,
            "weights": [weighing.as_dict() for weighing in self.weighings],
            "estimates": [estimate.as_dict() for estimate in self.estimates],
            "verdict": self.verdict.as_dict(),
        }


@dataclass(slots=True)
class _Targets:
    """The two targets, search by search, and what was found on the way."""

    profiles: tuple[NamedProfile, NamedProfile]
    targets: tuple[Target, Target] = field(default_factory=lambda: (Target(), Target()))
    model: RewardModel = field(default_factory=RewardModel)
    left_out: Counter[str] = field(default_factory=Counter)
    searches: int = 0
    changed: int = 0

    def add(self, pool: RecordedPool, default_reward: float | None, model: LearnedModel | None) -> None:
        """Both profiles' slates for one search; a search that one of them cannot answer counts for neither.

        ``model`` is the one that counted in it; None: none did, or it is gone.
        """
        slates = []
        for profile in self.profiles:
            slate = target_slate(pool, profile, model)
            if isinstance(slate, Unanswerable):
                self.left_out[slate.value] += 1
                return
            slates.append(slate)
        self.searches += 1
        self.changed += slates[0] != slates[1]
        for target, slate in zip(self.targets, slates, strict=True):
            target.add(pool.retrieval_id, slate)
        unrated = {} if default_reward is None else dict.fromkeys(pool.shown, default_reward)
        self.model.add(pool.retrieval_id, unrated | dict(pool.rewards))

    def modelled(self) -> tuple[Target, Target]:
        """The targets with what the model expects of each item."""
        for target in self.targets:
            entries = zip(target.retrieval_ids, target.item_ids, strict=True)
            target.modelled[:] = [self.model.predict(retrieval_id, item_id) for retrieval_id, item_id in entries]
        return self.targets


@dataclass(slots=True)
class _Models:
    """The models of the recorded versions, each read once, on the connection of the snapshot."""

    connection: Connection
    collection_id: int
    known: dict[int, LearnedModel | None] = field(default_factory=lambda: {0: None})

    async def of(self, version: int) -> LearnedModel | None:
        """That version; None for 0, or one that is gone."""
        if version not in self.known:
            stored = await definition_within(self.connection, self.collection_id, version)
            self.known[version] = None if stored is None else LearnedModel.from_dict(version, stored)
        return self.known[version]


async def compare_profiles(
    database: Database,
    tenant_id: int,
    collection: StoredCollection,
    profile: NamedProfile,
    against: NamedProfile,
    *,
    since: datetime,
    default_reward: float | None = None,
    most: int = MOST,
) -> ProfileComparison:
    """What the searches recorded since then would have earned under either profile.

    ``default_reward``: what an impression counts that nobody rated, 0 to 1; None: it is left out, for missing feedback
    is no failure. ``most``: the latest so many searches. Everything is read in one snapshot. Raises
    ``InvalidRequestError`` for a default reward or a number outside its range.
    """
    _check(since, default_reward, most)
    traffic = RecordedTraffic(collection_id=collection.collection_id, since=since, default_reward=default_reward)
    made = _Targets((profile, against))
    async with database.snapshot(tenant_id) as connection:
        models = _Models(connection, collection.collection_id)
        async for pool in read_pools(connection, collection.collection_id, since=since, most=most):
            made.add(pool, default_reward, await models.of(pool.model_version))
        weighings, estimates = await _estimated(connection, traffic, made.modelled())
    names = (profile.name, against.name)
    return ProfileComparison(
        collection=collection.name,
        names=names,
        since=since,
        default_reward=default_reward,
        searches=made.searches,
        left_out=MappingProxyType(dict(made.left_out)),
        changed=made.changed,
        weighings=weighings,
        estimates=tuple(estimates.values()),
        verdict=judge(names, weighings, _deciding(estimates)),
    )


async def _estimated(
    connection: Connection, traffic: RecordedTraffic, targets: tuple[Target, Target]
) -> tuple[tuple[Weighing, Weighing], dict[tuple[Estimator, bool], Compared]]:
    first, second = targets
    weighings = (
        await read_weighing(connection, traffic, first),
        await read_weighing(connection, traffic, second),
    )
    found = await read_comparison(connection, traffic, first, second)
    order = sorted(found, key=lambda key: (list(Estimator).index(key[0]), key[1]))
    return weighings, {key: found[key] for key in order}


def _deciding(estimates: Mapping[tuple[Estimator, bool], Compared]) -> Estimate:
    found = estimates.get((DECIDES, False))
    return found.difference if found is not None else Estimate(value=math.nan, standard_error=math.nan)


def _check(since: datetime, default_reward: float | None, most: int) -> None:
    if since.tzinfo is None:
        raise InvalidRequestError("since has no time zone; use datetime(..., tzinfo=UTC)")
    if default_reward is not None and not 0 <= default_reward <= 1:
        raise InvalidRequestError(f"the default reward is {default_reward}; it must be 0 to 1, or None for none")
    if most < 1:
        raise InvalidRequestError(f"{most} searches were asked for; ask for at least 1")
