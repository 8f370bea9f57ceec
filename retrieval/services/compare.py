"""Compares two profiles: on recorded searches, or by searches that showed the hits of both.

The hits that each profile would have shown follow from the recorded candidates; the database computes their reward.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

from retrieval.adapters.store.database import CollectionPlace, Database
from retrieval.adapters.store.items.collections import StoredCollection, stored_profile
from retrieval.adapters.store.learning import off_policy as store
from retrieval.adapters.store.learning.models import read_definition
from retrieval.adapters.store.learning.off_policy import RecordedTraffic, TargetComparison
from retrieval.adapters.store.records.retrievals import read_pools
from retrieval.adapters.store.search.vectors import read_pool_vectors
from retrieval.domain.checks import JSONTextError, checked_whole, json_of, written
from retrieval.domain.errors import InvalidProfileError, InvalidRequestError, NotFoundError
from retrieval.domain.frozen import Frozen
from retrieval.domain.learning.off_policy import Estimate, Estimator, TargetPolicy, Weighing
from retrieval.domain.records.recorded import RecordedPool
from retrieval.domain.search.diversity import NO_VECTORS, PoolVectors
from retrieval.domain.search.profile import Profile, version_of
from retrieval.domain.serialization import Serializable
from retrieval.engine.decide import readable_model
from retrieval.engine.profiles import unknown_profile
from retrieval.engine.target import NamedProfile, Unanswerable, needs_vectors, target_slate
from retrieval.learning.interleaving import Preference, preference
from retrieval.learning.learned_model import LearnedModel
from retrieval.learning.off_policy import RewardModel, Verdict, by_preference, judge

ACTIVE = "active"
"""The name of the profile that the collection searches with."""


async def named_profile(database: Database, tenant_id: int, collection: StoredCollection, name: str) -> NamedProfile:
    """The profile: ``active``, the number of a stored version, or the path of a JSON file with a profile.

    Raises ``NotFoundError`` for a missing version or file, ``InvalidProfileError`` for a file without a valid profile.
    """
    if name == ACTIVE:
        version = collection.profile_version
        return NamedProfile(name=f"profile {version}", profile=collection.profile, version=version)
    if name.isdecimal():
        place = CollectionPlace(database, tenant_id, collection.collection_id)
        wanted = version_of(name)
        stored = None if wanted is None else await stored_profile(place, wanted)
        if stored is None:
            raise unknown_profile(collection.name, name if wanted is None else wanted)
        return NamedProfile(name=f"profile {wanted}", profile=stored.profile, version=wanted)
    return NamedProfile(name=Path(name).name, profile=profile_in_file(name))


def profile_in_file(name: str) -> Profile:
    """The profile in a JSON file. Raises ``NotFoundError`` if the file is missing, else ``InvalidProfileError``."""
    path = Path(name)
    try:
        stored = json_of(path.read_bytes())
    except OSError as error:
        raise NotFoundError(
            f"there is no profile {str(path)!r}: name a stored version such as 3, 'active', or a JSON file "
            f"({error.strerror or error})"
        ) from error
    except JSONTextError as error:
        raise InvalidProfileError(f"{path} cannot be read: {error}; see docs/reference/profiles.md") from error
    if not isinstance(stored, dict):
        raise InvalidProfileError(f"{path} does not hold a JSON object; see docs/reference/profiles.md")
    return Profile.from_dict(stored)


MOST = 10_000
"""The number of searches that are compared by default, the latest ones."""

DECIDES = Estimator.SNIPS
"""The estimator whose unclipped interval decides the verdict: docs/decisions/0016-off-policy-evaluation.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileComparison(Serializable):
    """A comparison of two profiles on recorded searches."""

    serialized_names = MappingProxyType({"weighings": "weights"})

    collection: str
    profile: str
    """The name of the profile that is compared."""
    against: str
    since: datetime
    default_reward: float | None
    searches: int
    """The number of searches that could be replayed under both profiles."""
    left_out: Mapping[str, int]
    """The others, by reason."""
    changed: int
    """The number of searches for which the two profiles would show different hits."""
    weighings: tuple[Weighing, Weighing]
    estimates: tuple[TargetComparison, ...]
    """The estimates by estimator, plain and clipped; empty without a reward."""
    verdict: Verdict


@dataclass(slots=True)
class _Targets:
    """The two profiles' targets, search by search, with the searches that could not be replayed."""

    profiles: tuple[NamedProfile, NamedProfile]
    targets: tuple[TargetPolicy, TargetPolicy] = field(default_factory=lambda: (TargetPolicy(), TargetPolicy()))
    model: RewardModel = field(default_factory=RewardModel)
    left_out: Counter[str] = field(default_factory=Counter)
    searches: int = 0
    changed: int = 0

    def add(
        self, pool: RecordedPool, default_reward: float | None, model: LearnedModel | None, vectors: PoolVectors
    ) -> None:
        """Add both profiles' slates for one search; a search that one profile cannot answer counts for neither.

        ``model`` is the model that the search used; None: it used none, or the model was removed. ``vectors``: those of
        its candidates, if a profile needs them.
        """
        slates = []
        for profile in self.profiles:
            slate = target_slate(pool, profile, model, vectors)
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

    def with_expectations(self) -> tuple[TargetPolicy, TargetPolicy]:
        """The targets with the expected reward of each item."""
        for target in self.targets:
            entries = zip(target.retrieval_ids, target.item_ids, strict=True)
            target.modelled[:] = [self.model.predict(retrieval_id, item_id) for retrieval_id, item_id in entries]
        return self.targets


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
    """Estimate the rewards of the searches recorded since then under either profile.

    ``default_reward``: the reward of an impression without a verdict, 0 to 1; None leaves such impressions out, because
    missing feedback is not a failure. ``most``: the number of searches, the latest ones. Everything is read in one
    snapshot. Raises ``InvalidRequestError`` for a default reward or a number outside its range.
    """
    _check_since(since)
    if default_reward is not None and not 0 <= default_reward <= 1:
        raise InvalidRequestError(f"the default reward is {default_reward}; it must be 0 to 1, or None for none")
    checked_whole("most", most, 1)
    owner = collection.collection_id
    traffic = RecordedTraffic(collection_id=owner, since=since, default_reward=default_reward)
    comparison = _Targets((profile, against))
    models: dict[int, LearnedModel | None] = {0: None}
    async with database.snapshot(tenant_id) as connection:
        place = CollectionPlace(database, tenant_id, owner, connection)
        async for pool in read_pools(connection, owner, since=since, most=most):
            version = pool.model_version
            if version not in models:
                definition = await read_definition(place, version)
                models[version] = None if definition is None else readable_model(version, definition)
            vectors = NO_VECTORS
            if collection.space is not None and any(needs_vectors(pool, each) for each in comparison.profiles):
                vectors = await read_pool_vectors(place, collection.space, pool.item_ids)
            comparison.add(pool, default_reward, models[version], vectors)
        first, second = await asyncio.to_thread(comparison.with_expectations)
        weighings = await store.read_weighings(connection, traffic, first, second)
        estimates = await store.read_comparison(connection, traffic, first, second)
    deciding = estimates.get((DECIDES, False))
    difference = Estimate(value=math.nan, standard_error=math.nan) if deciding is None else deciding.difference
    return ProfileComparison(
        collection=collection.name,
        profile=profile.name,
        against=against.name,
        since=since,
        default_reward=default_reward,
        searches=comparison.searches,
        left_out=Frozen(comparison.left_out),
        changed=comparison.changed,
        weighings=weighings,
        estimates=tuple(estimates.values()),
        verdict=judge((profile.name, against.name), weighings, difference),
    )


def _check_since(since: datetime) -> None:
    if since.tzinfo is None:
        raise InvalidRequestError("since has no time zone; use datetime(..., tzinfo=UTC)")


@dataclass(frozen=True, slots=True, kw_only=True)
class InterleavedComparison(Serializable):
    """A comparison of two profiles by interleaved searches."""

    collection: str
    profile: str
    against: str
    since: datetime
    searches: int
    """The number of interleaved searches, with feedback or without, with hits or without."""
    preference: Preference
    verdict: Verdict


async def compare_interleaved(
    database: Database, tenant_id: int, collection: StoredCollection, first: str, second: str, *, since: datetime
) -> InterleavedComparison:
    """Count the wins of interleaved searches since then; the names are those of the profiles in the searches.

    Raises ``InvalidRequestError`` for twice the same name, profiles that no search interleaved, or a time without a
    zone.
    """
    if first == second:
        raise InvalidRequestError(f"both profiles are {first!r}; name two that were interleaved")
    _check_since(since)
    names = (first, second)
    place = CollectionPlace(database, tenant_id, collection.collection_id)
    results = await store.interleaved_results(place, names=names, since=since)
    if not results:
        pairs = await store.interleaved_pairs(place, since=since, most=_PAIRS_NAMED)
        raise _never_interleaved(names, since, pairs)
    outcome = preference((ours, theirs) for ours, theirs in results if ours is not None and theirs is not None)
    return InterleavedComparison(
        collection=collection.name,
        profile=first,
        against=second,
        since=since,
        searches=len(results),
        preference=outcome,
        verdict=by_preference(names, outcome),
    )


_PAIRS_NAMED = 3


def _never_interleaved(
    names: tuple[str, str], since: datetime, pairs: Sequence[tuple[str, str]]
) -> InvalidRequestError:
    if not pairs:
        return InvalidRequestError(
            f"no search since {since:%Y-%m-%d} was interleaved; interleave searches first (collection.interleave), or "
            "look further back (--since)"
        )
    asked, *others = (" and ".join(f"{written(name)}" for name in pair) for pair in (names, *pairs))
    return InvalidRequestError(
        f"no search since {since:%Y-%m-%d} interleaved {asked}; the latest interleaved {', or '.join(others)}: name "
        "both profiles of a pair (--profile, --against)"
    )
