"""The decisions of a search: its order by a learned model and clusters, and exploration.

Each version of a model, and of the clusters, is read once.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from retrieval.adapters.aside import LONG, aside
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace, Database
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.round_trip import Row
from retrieval.adapters.store.search.candidates import LegResults
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.embedding import Vector, Vectors
from retrieval.domain.learning.context import Context
from retrieval.domain.records.slate import Placed
from retrieval.domain.search.fusion import Fused
from retrieval.domain.search.profile import Profile
from retrieval.domain.search.profile_parts import Combination, Learned
from retrieval.engine.ranking import leg_features, relevances
from retrieval.engine.record import DecisionRecord

if TYPE_CHECKING:
    from retrieval.engine.scoring import Pool
    from retrieval.learning.learned_model import LearnedModel
    from retrieval.learning.slate import Ranked


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRequest:
    """A search whose candidates are ranked by relevance, for a decision on their order."""

    profile: Profile
    context: Context
    vector: Vector | None
    about: Vector | None
    """The vector that determines the cluster."""
    ranked: Sequence[Fused]
    """The candidates, the most relevant first."""
    leg_results: LegResults
    is_reranked: bool
    """True if the candidates' scores are their relevance already, from 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The candidates in their final order; all sequences have this order."""

    ranked: Sequence[Fused]
    candidates: Sequence[Ranked]
    """The candidates as exploration sees them; empty where it is off."""
    record: DecisionRecord
    explain: Callable[[str], Fused]
    """Returns the candidate with that item id and the parts of its score."""

    @property
    def is_open(self) -> bool:
        """True if the order may differ from that of relevance."""
        return bool(self.candidates) or self.record.model_version > 0


_ARMS, _STACK = "arms", "stack"
"""The names of the statements that a decision may need."""


@dataclass(frozen=True, slots=True)
class _Facts:
    cluster: int | None
    model: LearnedModel | None
    buckets: tuple[str, ...]


@dataclass(slots=True, eq=False)
class Decider:
    """Decides the order and the slots of hits by the models of one tenant's collections, which it caches."""

    database: Database
    tenant_id: int
    _models: OrderedDict[tuple[int, int], LearnedModel | None] = field(default_factory=OrderedDict, init=False)
    _centroids: OrderedDict[tuple[int, int, datetime], Vectors | None] = field(default_factory=OrderedDict, init=False)

    async def decide(
        self,
        collection: StoredCollection,
        requests: Sequence[DecisionRequest],
        now: datetime,
        settings: Mapping[str, str],
    ) -> list[Decision]:
        """The final order of each search's candidates; all facts about the candidates are read in one round trip.

        ``settings``: those of the statement that found the candidates, so that no setting has to change.
        """
        facts = [await self._facts(collection, request) for request in requests]
        statements_of = [self._statements(collection, *pair, now) for pair in zip(requests, facts, strict=True)]
        statements = [statement for some in statements_of for statement in some.values()]
        answers = iter(await self.database.read_each(self.tenant_id, statements, settings) if statements else [])
        return await aside(
            lambda: [
                _decide({name: next(answers) for name in some}, request, own_facts, now)
                for request, own_facts, some in zip(requests, facts, statements_of, strict=True)
            ],
            is_long=sum(len(request.ranked) for request in requests) >= LONG,
        )

    async def model(self, collection_id: int, version: int) -> LearnedModel | None:
        """That version of the model; None for version 0, or for a version that no longer exists."""
        if not version:
            return None
        from retrieval.adapters.store.learning.models import read_definition

        async def read() -> LearnedModel | None:
            stored = await read_definition(CollectionPlace(self.database, self.tenant_id, collection_id), version)
            return None if stored is None else readable_model(version, stored)

        return await _cached(self._models, (collection_id, version), read)

    async def serving(self, collection: StoredCollection, learned: Learned) -> LearnedModel | None:
        """The collection's model, if the profile uses it; None: relevance alone counts."""
        if learned.is_off:
            return None
        model = await self.model(collection.collection_id, collection.model_version)
        return model if model is not None and model.serves(learned) else None

    async def cluster(self, collection: StoredCollection, vector: Vector | None) -> int | None:
        """The cluster of a query's vector; None: the query has no vector, or there are no clusters."""
        if vector is None or collection.clustered_at is None or collection.space is None:
            return None
        from retrieval.adapters.store.learning.clusters import read_centroids
        from retrieval.learning.clusters import nearest

        place = CollectionPlace(self.database, self.tenant_id, collection.collection_id)
        key = (collection.collection_id, collection.space.space_id, collection.clustered_at)
        centroids = await _cached(self._centroids, key, partial(read_centroids, place, collection.space.space_id))
        return None if centroids is None else int(nearest(vector[None, :], centroids)[0])

    async def _facts(self, collection: StoredCollection, request: DecisionRequest) -> _Facts:
        cluster = await self.cluster(collection, request.about)
        model = await self.serving(collection, request.profile.learned)
        return _Facts(cluster, model, request.context.buckets(cluster))

    def _statements(
        self, collection: StoredCollection, request: DecisionRequest, facts: _Facts, now: datetime
    ) -> dict[str, Compiled]:
        """The statements that the decision needs: for the candidates' arms, and for the signals of a stack."""
        learned, exploration = request.profile.learned, request.profile.exploration
        if not request.ranked or (facts.model is None and exploration.is_off):
            return {}
        from retrieval.adapters.store.learning.arms import arms_statement
        from retrieval.adapters.store.learning.models import stack_statement
        from retrieval.engine.scoring import reads_arms

        number, item_ids = collection.collection_id, [candidate.item_id for candidate in request.ranked]
        statements = {}
        if reads_arms(facts.model, learned, exploration):
            statements[_ARMS] = arms_statement(number, item_ids=item_ids, buckets=facts.buckets, now=now)
        if facts.model is not None and learned.combination is Combination.LOGIT_STACK:
            vector = request.vector if facts.model.space_id == collection.space_id else None
            version = facts.model.version
            statements[_STACK] = stack_statement(number, version=version, item_ids=item_ids, vector=vector)
        return statements


def may_decide(collection: StoredCollection, profile: Profile) -> bool:
    """True if a model or exploration may change the order, so that a search reads more candidates than it shows."""
    return not profile.exploration.is_off or (collection.model_version > 0 and not profile.learned.is_off)


def slate(
    decision: Decision, order: Sequence[Fused], profile: Profile, limit: int, seed: int
) -> tuple[list[Placed], DecisionRecord]:
    """The places of a search whose candidates are final in that order; the same seed gives the same places.

    ``order`` holds some or all of the decision's candidates.
    """
    if profile.exploration.is_off or not decision.candidates:
        return [Placed(candidate.item_id) for candidate in order[:limit]], decision.record
    from retrieval.learning.slate import drawn_slate, policy_for

    by_id = {candidate.item_id: candidate for candidate in decision.candidates}
    candidates = [by_id[candidate.item_id] for candidate in order]
    placed, propensity = drawn_slate(candidates, limit, profile.exploration, np.random.default_rng(seed))
    return placed, decision.record.explored(policy_for(profile.exploration).recorded_as, propensity)


def _decide(rows: Mapping[str, Sequence[Row]], request: DecisionRequest, facts: _Facts, now: datetime) -> Decision:
    """The decision; ``rows``: the answers to the statements, of which there may be none, by their names."""
    unchanged = Decision(
        ranked=request.ranked,
        candidates=(),
        record=DecisionRecord(cluster=facts.cluster),
        explain={candidate.item_id: candidate for candidate in request.ranked}.__getitem__,
    )
    if not rows:
        return unchanged
    from retrieval.adapters.store.learning.arms import arms_from
    from retrieval.engine.scoring import Pool, combined, learned_signals, predictions, scored, unlearned
    from retrieval.learning.slate import is_eligible
    from retrieval.learning.stack import AFFINITY, LENGTH, affinity_signal, length_signal

    learned, exploration = request.profile.learned, request.profile.exploration
    arms = arms_from(rows[_ARMS]) if _ARMS in rows else {}
    stack_signals = {}
    if _STACK in rows:
        [(octets, cosines)] = rows[_STACK]
        stack_signals = {AFFINITY: affinity_signal(cosines), LENGTH: length_signal(octets)}
    relevance = [candidate.score for candidate in request.ranked]
    if not request.is_reranked:
        relevance = relevances(request.ranked, request.leg_results, request.profile)
    pool = Pool(
        ranked=request.ranked,
        relevance=relevance,
        legs=leg_features(request.ranked, request.leg_results),
        arms=[arms[candidate.item_id] for candidate in request.ranked] if arms else (),
        beside=stack_signals,
        buckets=facts.buckets,
    )
    eligible = [is_eligible(item.anywhere, item.created_at, now, exploration) for item in pool.arms]
    record = _record(facts, pool, eligible, now)
    if facts.model is None:
        return replace(unchanged, candidates=unlearned(pool, learned, eligible), record=record)
    predicted = predictions(pool, facts.model, learned.combination)
    rescored = combined(pool, facts.model.stack, learned, predicted)
    order = rescored.order(pool)
    contenders = [] if exploration.is_off else scored(pool, facts.model.stack, learned, predicted, eligible)
    item_ids = [candidate.item_id for candidate in pool.ranked]
    learned_values = learned_signals(pool, predicted).items()
    signals = {name: dict(zip(item_ids, values, strict=True)) for name, values in learned_values}
    record = replace(
        record,
        model_version=facts.model.version,
        scores=dict(zip(item_ids, rescored.scores, strict=True)),
        weights=facts.model.stack.weights if learned.combination is Combination.LOGIT_STACK else {},
        signals={**record.signals, **signals},
    )
    positions = dict(zip(item_ids, count(), strict=False))
    return Decision(
        ranked=[Fused(item_ids[position], rescored.scores[position], ()) for position in order],
        candidates=[contenders[position] for position in order] if contenders else (),
        record=record,
        explain=lambda item_id: rescored.fused(pool, positions[item_id]),
    )


def _record(facts: _Facts, pool: Pool, eligible: Sequence[bool], now: datetime) -> DecisionRecord:
    if not pool.arms:
        return DecisionRecord(cluster=facts.cluster)
    return DecisionRecord(
        statistics_at=now,
        cluster=facts.cluster,
        eligible=sum(eligible),
        pulls={item.item_id: item.anywhere.pulls for item in pool.arms},
        signals={
            "eligible": {item.item_id: float(may_be) for item, may_be in zip(pool.arms, eligible, strict=True)},
            "uses": {item.item_id: float(item.anywhere.uses) for item in pool.arms},
            "raw_successes": {item.item_id: float(item.anywhere.raw_successes) for item in pool.arms},
        },
    )


_log = logging.getLogger(__name__)

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

MOST_CACHED = 64
"""The most collections whose models and centroids a process caches."""


def readable_model(version: int, definition: Mapping[str, Any]) -> LearnedModel | None:
    """The model; None: another release made it, and searches rank by relevance alone."""
    from retrieval.learning.learned_model import LearnedModel

    try:
        return LearnedModel.from_dict(version, definition)
    except InvalidRequestError as error:
        _log.warning("%s", error)
        return None


async def _cached(cache: OrderedDict[_Key, _Value], key: _Key, read: Callable[[], Awaitable[_Value]]) -> _Value:
    if key not in cache:
        cache[key] = await read()
        while len(cache) > MOST_CACHED:
            cache.popitem(last=False)
    cache.move_to_end(key)
    return cache[key]
