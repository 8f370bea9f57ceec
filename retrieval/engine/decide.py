"""The decisions of a search: its order by what was learned, with published models and clusters, and exploration.

Models and clusters are read once for each version.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from retrieval.adapters.aside import LONG, aside
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.round_trip import Row
from retrieval.adapters.store.search.candidates import Found
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.embedding import Vector, Vectors
from retrieval.domain.learning.context import Context
from retrieval.domain.records.slate import Placed
from retrieval.domain.search.fusion import Fused
from retrieval.domain.search.profile import Profile
from retrieval.domain.search.profile_parts import Combination, Exploration, Learned
from retrieval.engine.ranking import leg_features, relevances
from retrieval.engine.record import Decided

if TYPE_CHECKING:
    from retrieval.domain.learning.arm import ItemArms
    from retrieval.engine.scoring import Pool
    from retrieval.learning.learned_model import LearnedModel
    from retrieval.learning.propensity import Ranked


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided:
    """A search after its candidates are ranked by relevance."""

    profile: Profile
    context: Context
    vector: Vector | None
    about: Vector | None
    """The vector that tells the cluster."""
    ranked: Sequence[Fused]
    """The candidates, the most relevant first."""
    found: Found
    is_reranked: bool = False
    """True if their scores are their relevance already, from 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The candidates in their final order, with what is known of each; sequences in one order."""

    ranked: Sequence[Fused]
    candidates: Sequence[Ranked]
    """The candidates as exploration sees them; empty where it is off."""
    decided: Decided
    explained: Callable[[str], Fused]
    """The candidate of that item id with the parts of its score."""

    @property
    def is_open(self) -> bool:
        """True if the order may differ from that of relevance."""
        return bool(self.candidates) or self.decided.model_version > 0


@dataclass(frozen=True, slots=True)
class _Known:
    cluster: int | None
    model: LearnedModel | None
    buckets: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decider:
    """Decides the order and the slots of hits by what one tenant's collections have learned."""

    database: Database
    tenant_id: int
    models: Models

    async def decide(
        self, collection: StoredCollection, each: Sequence[Undecided], now: datetime, settings: Mapping[str, str]
    ) -> list[Decision]:
        """The final order of each search's candidates; what is read of these comes in one round trip for all of them.

        ``settings``: those of the search that found them, so that none has to change in between.
        """
        known = [await self._known(collection, found) for found in each]
        asked = [self._statements(collection, *pair, now) for pair in zip(each, known, strict=True)]
        statements = [statement for own in asked for statement in own]
        answers = iter(await self.database.read_each(self.tenant_id, statements, settings) if statements else [])
        return await aside(
            lambda: [
                _decided_by([next(answers) for _ in own], found, facts, now)
                for found, facts, own in zip(each, known, asked, strict=True)
            ],
            is_long=sum(len(found.ranked) for found in each) >= LONG,
        )

    async def _known(self, collection: StoredCollection, undecided: Undecided) -> _Known:
        cluster = await self.models.cluster(collection, undecided.about)
        model = await self.models.serving(collection, undecided.profile.learned)
        return _Known(cluster, model, undecided.context.buckets(cluster))

    def _statements(
        self, collection: StoredCollection, undecided: Undecided, facts: _Known, now: datetime
    ) -> list[Compiled]:
        """The statements that read what the decision needs: the candidates' arms, and what a stack asks of items."""
        learned, exploration = undecided.profile.learned, undecided.profile.exploration
        if not undecided.ranked or (facts.model is None and exploration.is_off):
            return []
        from retrieval.adapters.store.learning.arms import arms_statement
        from retrieval.adapters.store.learning.models import stack_statement
        from retrieval.engine.scoring import reads_arms

        item_ids = [candidate.item_id for candidate in undecided.ranked]
        statements = []
        if reads_arms(facts.model, learned, exploration):
            statements = [arms_statement(collection.collection_id, item_ids=item_ids, buckets=facts.buckets, now=now)]
        if facts.model is not None and learned.combination is Combination.LOGIT_STACK:
            space_id = collection.space.space_id if collection.space else None
            vector = undecided.vector if facts.model.space_id == space_id else None
            version = facts.model.version
            statements.append(
                stack_statement(collection.collection_id, version=version, item_ids=item_ids, vector=vector)
            )
        return statements


def may_decide(collection: StoredCollection, profile: Profile) -> bool:
    """True if more candidates than the hits of a search have to be read."""
    return not profile.exploration.is_off or (collection.model_version > 0 and not profile.learned.is_off)


def slate(
    decision: Decision, order: Sequence[Fused], profile: Profile, limit: int, seed: int
) -> tuple[list[Placed], Decided]:
    """The places of a search whose candidates are final in that order; the same seed gives the same places.

    ``order`` holds some or all of the decision's candidates.
    """
    if profile.exploration.is_off or not decision.candidates:
        return [Placed(candidate.item_id) for candidate in order[:limit]], decision.decided
    from retrieval.learning.slate import drawn_slate, policy_for

    by_id = {candidate.item_id: candidate for candidate in decision.candidates}
    candidates = [by_id[candidate.item_id] for candidate in order]
    placed, propensity = drawn_slate(candidates, limit, profile.exploration, np.random.default_rng(seed))
    return placed, decision.decided.explored(policy_for(profile.exploration).recorded_as, propensity)


def _decided_by(rows: Sequence[Sequence[Row]], undecided: Undecided, facts: _Known, now: datetime) -> Decision:
    """The decision by what was read of the candidates, if anything was."""
    if not rows:
        decided = Decided(cluster=facts.cluster)
        return Decision(ranked=undecided.ranked, candidates=(), decided=decided, explained=_as_it_is(undecided.ranked))
    from retrieval.adapters.store.learning.arms import arms_from
    from retrieval.engine.scoring import reads_arms

    learned, exploration = undecided.profile.learned, undecided.profile.exploration
    answers = iter(rows)
    arms = arms_from(next(answers)) if reads_arms(facts.model, learned, exploration) else {}
    return _decision(undecided, facts, arms, next(answers, None), now)


def _decision(
    undecided: Undecided,
    facts: _Known,
    arms: Mapping[str, ItemArms],
    asked_by_stack: Sequence[Row] | None,
    now: datetime,
) -> Decision:
    from retrieval.engine.scoring import Pool, combined, learned_signals, predictions, scored, unlearned
    from retrieval.learning.stack import AFFINITY, LENGTH, affinity_signal, length_signal

    beside = {}
    if asked_by_stack is not None:
        [(octets, cosines)] = asked_by_stack
        beside = {AFFINITY: affinity_signal(cosines), LENGTH: length_signal(octets)}
    pool = Pool(
        ranked=undecided.ranked,
        relevance=(
            [candidate.score for candidate in undecided.ranked]
            if undecided.is_reranked
            else relevances(undecided.ranked, undecided.found, undecided.profile)
        ),
        legs=leg_features(undecided.ranked, undecided.found),
        arms=[arms[candidate.item_id] for candidate in undecided.ranked] if arms else (),
        beside=beside,
        buckets=facts.buckets,
    )
    if facts.model is None:
        candidates = unlearned(pool, undecided.profile.learned, undecided.profile.exploration, now)
        decided = _decided(facts, pool, undecided.profile.exploration, now)
        return Decision(
            ranked=undecided.ranked, candidates=candidates, decided=decided, explained=_as_it_is(undecided.ranked)
        )
    learned = undecided.profile.learned
    predicted = predictions(pool, facts.model, learned.combination)
    rescored = combined(pool, facts.model, learned, predicted)
    order = rescored.order(pool)
    exploration = undecided.profile.exploration
    contenders = (
        [] if exploration.is_off else scored(pool, facts.model, learned, predicted, exploration=exploration, now=now)
    )
    decided = _decided(facts, pool, exploration, now)
    item_ids = [candidate.item_id for candidate in pool.ranked]
    own = {name: dict(zip(item_ids, values, strict=True)) for name, values in learned_signals(pool, predicted).items()}
    decided = replace(
        decided,
        model_version=facts.model.version,
        scores=dict(zip(item_ids, rescored.scores, strict=True)),
        weights=facts.model.stack.weights if learned.combination is Combination.LOGIT_STACK else {},
        signals={**decided.signals, **own},
    )
    places = dict(zip(item_ids, count(), strict=False))
    return Decision(
        ranked=[Fused(item_ids[place], rescored.scores[place], ()) for place in order],
        candidates=[contenders[place] for place in order] if contenders else (),
        decided=decided,
        explained=lambda item_id: rescored.fused(pool, places[item_id]),
    )


def _as_it_is(ranked: Sequence[Fused]) -> Callable[[str], Fused]:
    by_id = {candidate.item_id: candidate for candidate in ranked}
    return lambda item_id: by_id[item_id]


def _decided(facts: _Known, pool: Pool, exploration: Exploration, now: datetime) -> Decided:
    from retrieval.learning.propensity import is_eligible

    if not pool.arms:
        return Decided(cluster=facts.cluster)
    eligible = {
        item.item_id: float(is_eligible(item.anywhere, item.created_at, now, exploration)) for item in pool.arms
    }
    return Decided(
        statistics_at=now,
        cluster=facts.cluster,
        eligible=round(sum(eligible.values())),
        pulls={item.item_id: item.anywhere.pulls for item in pool.arms},
        signals={
            "eligible": eligible,
            "uses": {item.item_id: float(item.anywhere.uses) for item in pool.arms},
            "raw_successes": {item.item_id: float(item.anywhere.raw_successes) for item in pool.arms},
        },
    )


def moment(seconds: float) -> datetime:
    """The time so many seconds after 1970."""
    return datetime.fromtimestamp(seconds, UTC)


_log = logging.getLogger(__name__)

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

MOST_KEPT = 64
"""The most collections whose models and centroids a process keeps."""


@dataclass(slots=True)
class Models:
    """The models and centroids of a tenant's collections."""

    database: Database
    tenant_id: int
    _models: OrderedDict[tuple[int, int], LearnedModel | None] = field(default_factory=OrderedDict)
    _centroids: OrderedDict[tuple[int, int, datetime], Vectors | None] = field(default_factory=OrderedDict)

    async def model(self, collection_id: int, version: int) -> LearnedModel | None:
        """That version of the model; None for version 0, or for a version that is gone."""
        if not version:
            return None
        from retrieval.adapters.store.learning.models import read_definition

        key = (collection_id, version)
        if key not in self._models:
            stored = await read_definition(self.database, self.tenant_id, collection_id, version)
            _keep(self._models, key, None if stored is None else _read(version, stored[0]))
        self._models.move_to_end(key)
        return self._models[key]

    async def serving(self, collection: StoredCollection, learned: Learned) -> LearnedModel | None:
        """The collection's model, if the profile allows it; None: relevance alone counts."""
        if learned.is_off:
            return None
        model = await self.model(collection.collection_id, collection.model_version)
        return model if model is not None and model.serves(learned) else None

    async def cluster(self, collection: StoredCollection, vector: Vector | None) -> int | None:
        """The cluster that a query lies in; None: it has no vector, or there are no clusters."""
        if vector is None or collection.clustered_at is None or collection.space is None:
            return None
        from retrieval.adapters.store.learning.clusters import read_centroids
        from retrieval.learning.clusters import nearest

        key = (collection.collection_id, collection.space.space_id, collection.clustered_at)
        if key not in self._centroids:
            _keep(
                self._centroids,
                key,
                await read_centroids(
                    self.database, self.tenant_id, collection.collection_id, collection.space.space_id
                ),
            )
        self._centroids.move_to_end(key)
        centroids = self._centroids[key]
        return None if centroids is None else int(nearest(vector[None, :], centroids)[0])


def _read(version: int, definition: Mapping[str, Any]) -> LearnedModel | None:
    from retrieval.learning.learned_model import LearnedModel

    try:
        return LearnedModel.from_dict(version, definition)
    except InvalidRequestError as error:
        # Relevance alone can answer; the search goes on without the model.
        _log.warning("%s", error)
        return None


def _keep(kept: OrderedDict[_Key, _Value], key: _Key, value: _Value) -> None:
    kept[key] = value
    while len(kept) > MOST_KEPT:
        kept.popitem(last=False)
