"""Replays a recorded search: reads it with the profile that answered it, and repeats it today."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

from retrieval.adapters.store.database import CollectionPlace, Database
from retrieval.adapters.store.items.collections import StoredCollection, collection_by_id, stored_profile
from retrieval.adapters.store.items.items import read_stored
from retrieval.adapters.store.learning.arms import arms_from, past_arms_statement
from retrieval.adapters.store.records.recordings import find_recorded
from retrieval.adapters.store.search.candidates import SpaceMovedError
from retrieval.domain.checks import written
from retrieval.domain.errors import RetrievalError, UnknownRetrievalError
from retrieval.domain.records import recorded as records
from retrieval.domain.records.recorded import RecordedRetrieval, RecordedSearch
from retrieval.domain.records.retrieval_id import checked_id
from retrieval.domain.search.profile import Profile
from retrieval.domain.search.profile_parts import Recording
from retrieval.domain.search.reranking import RERANK, Rerank, Scored
from retrieval.engine import replay as again
from retrieval.engine.decide import Decider
from retrieval.engine.record import AnsweredSearch, Recordable, request_of
from retrieval.engine.recorder import Recorder
from retrieval.engine.replay import Difference, Replay
from retrieval.engine.search import Searcher
from retrieval.learning.learned_model import LearnedModel
from retrieval.services.workplace import Workplace

_LEAST_POOL = 100
"""The number of candidates of today's search that are compared."""


async def replay(
    workplace: Workplace, tenant_id: int, retrieval_id: UUID | str | None, collection: str | None = None
) -> Replay:
    """Check whether a recorded ranking follows from its record, and where and why today's answer differs.

    Raises ``InvalidRequestError`` for a value that is not an identifier, and ``UnknownRetrievalError`` for one of which
    the tenant, or its collection of that name, has no record.
    """
    database = workplace.database
    then, stored = await _read_recorded(database, tenant_id, retrieval_id, collection)
    profile = await _profile_of(database, tenant_id, then)
    model = await Decider(database, tenant_id).model(then.collection_id, then.model_version)
    changes, differing = await _today(workplace, tenant_id, stored, then)
    moved = () if profile is None else await _moved_statistics(database, tenant_id, then, profile, model)
    return Replay(
        retrieval_id=then.retrieval_id,
        retrieved_at=then.retrieved_at,
        collection=stored.name,
        query=then.query,
        is_reproduced=not (why_not := again.why_not_reproduced(then, profile, model)),
        why_not=why_not,
        changes=(*moved, *changes),
        differences=differing,
    )


async def read_retrieval(
    database: Database, tenant_id: int, retrieval_id: UUID | str | None, collection: str | None = None
) -> RecordedRetrieval:
    """Read the record of a search. Raises what ``replay`` raises."""
    recorded, stored = await _read_recorded(database, tenant_id, retrieval_id, collection)
    return records.retrieval_of(recorded, stored.name)


async def _read_recorded(
    database: Database, tenant_id: int, retrieval_id: UUID | str | None, collection: str | None
) -> tuple[RecordedSearch, StoredCollection]:
    recorded = await find_recorded(database, tenant_id, checked_id(retrieval_id))
    stored = None
    if recorded is not None:
        stored = await collection_by_id(CollectionPlace(database, tenant_id, recorded.collection_id))
    if recorded is None or stored is None or collection not in (None, stored.name):
        where = "" if collection is None else f" in collection {written(collection)}"
        raise UnknownRetrievalError(
            f"there is no recorded search {retrieval_id}{where}; it was not recorded, or was removed meanwhile "
            "(see docs/how-to/recording.md)"
        )
    return recorded, stored


async def _profile_of(database: Database, tenant_id: int, recorded: RecordedSearch) -> Profile | None:
    """The profile that answered."""
    own = recorded.request["profile"]
    if own is not None:
        return Profile.from_dict(own)
    place = CollectionPlace(database, tenant_id, recorded.collection_id)
    stored = await stored_profile(place, recorded.profile_version)
    return None if stored is None else stored.profile


async def _moved_statistics(
    database: Database, tenant_id: int, then: RecordedSearch, profile: Profile, model: LearnedModel | None
) -> tuple[str, ...]:
    """Find the recorded statistics that do not follow from the feedback that counts today."""
    item_ids = again.items_with_arms(then)
    if not item_ids:
        return ()
    whose = {"item_ids": item_ids, "buckets": records.context_of(then).buckets(then.cluster)}
    statement = past_arms_statement(then.collection_id, **whose, moment=then.statistics_at)
    return again.statistics_moved(then, profile, model, arms_from(await database.read(tenant_id, statement)))


async def _today(
    workplace: Workplace, tenant_id: int, stored: StoredCollection, then: RecordedSearch
) -> tuple[tuple[str, ...], tuple[Difference, ...]]:
    if (space_id := then.request.get("space_id")) is not None and stored.space and space_id != stored.space.space_id:
        return ("it was asked by a vector of an embedding space that the collection has left",), ()
    if then.origin:
        return (f"an application composed it ({then.origin}), so it cannot be asked again",), ()
    try:
        now = await _repeat(workplace, tenant_id, stored, then)
    except RetrievalError as error:
        return (f"it cannot be answered today: {error}",), ()
    except SpaceMovedError:
        return ("the collection moved to another embedding space meanwhile: replay it again",), ()
    if now is None:
        return ("its filter could not be recorded, so it cannot be asked again",), ()
    shown = dict.fromkeys(impression.item_id for impression in [*then.impressions, *now.impressions])
    items = await read_stored(CollectionPlace(workplace.database, tenant_id, stored.collection_id), list(shown))
    return again.differences(then, now, items)


async def _repeat(
    workplace: Workplace, tenant_id: int, stored: StoredCollection, then: RecordedSearch
) -> RecordedSearch | None:
    """The record of the same search asked today; it is not stored."""
    request = request_of(then)
    if request is None:
        return None
    profile = request.profile or stored.profile
    recording = Recording(rate=1.0, pool=max(profile.recording.pool, _LEAST_POOL))
    catcher = _Catcher(workplace.database, tenant_id)
    searcher = Searcher(
        database=workplace.database,
        tenant_id=tenant_id,
        collection=stored,
        embedder=None if stored.space is None else workplace.embedder_of(tenant_id, stored.space),
        recorder=catcher,
        decider=Decider(workplace.database, tenant_id),
        reranker=_AsRecorded(then),
    )
    await searcher.search_each(
        [replace(request, profile=replace(profile, recording=recording))], records.context_of(then)
    )
    version = 0 if request.profile is not None else stored.profile_version
    return records.recorded_search(replace(catcher.caught[0].record(), profile_version=version), profile)


class _AsRecorded:
    """A reranker that returns the recorded scores: a replay sends no texts and costs nothing."""

    def __init__(self, then: RecordedSearch) -> None:
        self._scores = dict(zip(then.pool_items, then.pool_signals.get(RERANK, ()), strict=False))
        self._reranker = then.request.get("reranker", "")

    async def scored(self, _rerank: Rerank, _query: str, texts: Mapping[str, str]) -> Scored:
        """The scores of the items that have one."""
        known = {item_id: score for item_id in texts if (score := self._scores.get(item_id)) is not None}
        return Scored(reranker=self._reranker, scores=known)


class _Catcher(Recorder):
    """A recorder that keeps the answer in memory and stores nothing."""

    def __init__(self, database: Database, tenant_id: int) -> None:
        super().__init__(database, tenant_id)
        self.caught: list[AnsweredSearch] = []

    def ready(self, answered: AnsweredSearch) -> Recordable:
        return answered

    def offer(self, answered: Recordable) -> bool:
        if isinstance(answered, AnsweredSearch):  # always, because ``ready`` encodes none
            self.caught.append(answered)
        return True
