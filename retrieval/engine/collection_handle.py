"""A collection within one process: its state as last read, and the services that its calls use."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from retrieval.adapters.clock import Clock, moment
from retrieval.adapters.embedders.cached import CachedEmbedder
from retrieval.adapters.store.database import CollectionPlace, Database
from retrieval.adapters.store.items.collections import StoredCollection, find_collection
from retrieval.adapters.store.items.listing import existing_attributes
from retrieval.adapters.store.search.vectors import StoredSpace
from retrieval.domain.checks import is_finite, written
from retrieval.domain.errors import (
    DatabaseError,
    InvalidRequestError,
    MissingPrivilegeError,
    PoolExhaustedError,
    UnknownCollectionError,
    UnknownFieldError,
)
from retrieval.domain.observer import Observer
from retrieval.domain.search.filters import Field, Filter, Where
from retrieval.domain.search.profile import Profile, leg_name
from retrieval.domain.search.query import SearchBounds
from retrieval.domain.search.reranking import Reranking
from retrieval.engine.accesses import AccessCounter
from retrieval.engine.conditions import check_condition, parsed_filter
from retrieval.engine.decide import Decider
from retrieval.engine.recorder import Recorder, Sampler
from retrieval.engine.shared_calls import RewriteCache, SharedCalls

if TYPE_CHECKING:
    from retrieval.engine.search import Searcher

_MOST_ADVISED, _MOST_NAMES = 50_000, 100
"""The most items, and attributes, of a collection whose items are read for the suggestions of an error message."""

FRESH_SECONDS = 1.0
"""The time for which a handle uses the state last read; then it sees changes by other processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedServices:
    """The services that the calls about the collections of one platform share."""

    database: Database
    tenant_id: int
    embedders: Callable[[StoredSpace | None], CachedEmbedder | None]
    """Returns the embedder of a space; None: the space has no embedder."""
    decider: Decider
    llm_calls: SharedCalls
    """Running calls of language models, shared by all callers with the same question."""
    rewrites: RewriteCache
    """The cache of rewrites: a language model is called once for each query."""
    reranker: Reranking
    """Reranks the hits of profiles that rerank."""
    bounds: SearchBounds
    clock: Clock
    wall_clock: Clock
    """Seconds since 1970."""
    chance: random.Random
    sampler: Sampler
    """Keeps some of the searches as samples to measure recall."""
    recorder: Recorder
    accesses: AccessCounter
    observer: Observer | None = None
    """Called after each search; None: no observer."""


_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")


class CollectionHandle:
    """A collection within one process; the first argument of every call about the collection."""

    def __init__(self, shared: SharedServices, stored: StoredCollection) -> None:
        self.shared = shared
        self.database = shared.database
        self.tenant_id = shared.tenant_id
        self.stored = stored
        """The collection as last read."""
        self.embedder = shared.embedders(stored.space)
        self.is_recorded = True
        """Whether the handle's searches are recorded, counted and reported to the observer."""
        self.searcher: Searcher | None = None
        """The searcher of the last search, used again while the collection's state is the same."""
        self._narrowed: tuple[Profile, tuple[str, ...], Profile] | None = None
        self._read_at = shared.clock()
        self._reading: asyncio.Event | None = None
        self._on_replicas: dict[Database, CollectionHandle] = {}
        """The handles of the same collection on replicas."""

    @property
    def name(self) -> str:
        """The collection's name, unique within its tenant."""
        return self.stored.name

    @property
    def now(self) -> datetime:
        """The time of day, in UTC."""
        return moment(self.shared.wall_clock())

    def embedder_of(self, stored: StoredCollection) -> CachedEmbedder | None:
        """The embedder for this state of the collection, whose space may differ from the last state's."""
        return self.embedder if stored.space == self.stored.space else self.shared.embedders(stored.space)

    def unrecorded(self) -> CollectionHandle:
        """A handle of the same collection whose searches are not recorded."""
        unrecorded = copy(self)
        unrecorded.is_recorded, unrecorded.searcher, unrecorded._reading = False, None, None  # noqa: SLF001 - its own
        return unrecorded

    async def on(self, replica: Database) -> CollectionHandle | None:
        """The handle of the collection on a replica; None where its searches would differ from the primary's."""
        handle = self._on_replicas.get(replica)
        if handle is None:
            decider = replace(self.shared.decider, database=replica)
            handle = CollectionHandle(replace(self.shared, database=replica, decider=decider), self.stored)
            handle._read_at = -math.inf
            self._on_replicas[replica] = handle
        state = _search_state(self.stored)
        is_same = _search_state(await handle.fresh()) == state or _search_state(await handle.refresh()) == state
        return handle if is_same else None

    async def refresh(self, *, older_than_seconds: float = 0.0) -> StoredCollection:
        """Read the collection again if the last reading is older than that. See ``Collection.refresh``."""
        if not older_than_seconds:
            return await self._read_again()
        if older_than_seconds is not FRESH_SECONDS and not is_finite(older_than_seconds):
            raise InvalidRequestError(f"older_than_seconds is {written(older_than_seconds)}; it must be a number")
        if not self._is_fresh(older_than_seconds) and self._reading is not None:
            # Of many simultaneous calls that find the state outdated, one reads it for all.
            await self._reading.wait()
        if self._is_fresh(older_than_seconds):
            return self.stored
        if self._reading is not None:
            return await self._read_again()
        self._reading = reading = asyncio.Event()
        try:
            return await self._read_again()
        finally:
            reading.set()
            self._reading = None

    async def fresh(self) -> StoredCollection:
        """The collection, read ``FRESH_SECONDS`` ago at most."""
        if self.shared.clock() - self._read_at <= FRESH_SECONDS:
            return self.stored
        return await self.refresh(older_than_seconds=FRESH_SECONDS)

    async def with_existing_fields(self) -> StoredCollection:
        """The collection, read again because a filter names an unknown field.

        The field may belong to items that another process added a moment ago.
        """
        stored = await self.refresh()
        if stored.documents > _MOST_ADVISED or not 0 < len(stored.attributes) <= _MOST_NAMES:
            return stored
        existing = await existing_attributes(self.place_of(stored), list(stored.attributes))
        return replace(
            stored, attributes={name: types if name in existing else () for name, types in stored.attributes.items()}
        )

    async def place(self) -> CollectionPlace:
        """The collection, as functions of the store take it."""
        return self.place_of(await self.fresh())

    def place_of(self, stored: StoredCollection) -> CollectionPlace:
        """The place of the collection as it was read."""
        return CollectionPlace(self.database, self.tenant_id, stored.collection_id)

    async def recorded(self) -> None:
        """Wait until the waiting searches are recorded; a handle that records nothing returns at once."""
        if self.is_recorded:
            await self.shared.recorder.recorded()

    def count_accesses(self, item_ids: Sequence[str]) -> None:
        """Count one access of each of these memories in the background, many in one statement.

        Items other than memories have no count. A handle that records nothing counts nothing.
        """
        if self.is_recorded:
            self.shared.accesses.count(self.stored.collection_id, item_ids, self.now)

    async def filtered(
        self, where: Where | Filter | None, *, also: Field | None = None
    ) -> tuple[StoredCollection, Filter | None]:
        """The collection and the parsed filter, after checking that its fields, and ``also``, exist."""
        condition, stored = await parsed_filter(where, self.shared.bounds), await self.fresh()
        try:
            check_condition(condition, stored, also=also)
        except UnknownFieldError:
            stored = await self.with_existing_fields()
            check_condition(condition, stored, also=also)
        return stored, condition

    def narrowed(self, whole: Profile, legs: tuple[str, ...]) -> Profile:
        """The profile with only these legs. Raises ``InvalidProfileError`` for an unknown leg."""
        # Creating a profile checks it, so the last one is cached: callers repeat the same legs.
        if self._narrowed is None or self._narrowed[0] is not whole or self._narrowed[1] != legs:
            self._narrowed = whole, legs, whole.only(tuple(map(leg_name, legs)))
        return self._narrowed[2]

    def _is_fresh(self, seconds: float) -> bool:
        return self.shared.clock() - self._read_at <= seconds

    async def _read_again(self) -> StoredCollection:
        stored = await find_collection(self.database, self.tenant_id, self.name, self.stored)
        if stored is None:
            raise UnknownCollectionError(f"collection {self.name!r} was removed; make it again to use it")
        if stored.space != self.stored.space:
            self.embedder = self.shared.embedders(stored.space)
        self.stored = stored
        self._read_at = self.shared.clock()
        return stored


def checks_existence(
    call: Callable[Concatenate[CollectionHandle, _Arguments], Awaitable[_Answer]],
) -> Callable[Concatenate[CollectionHandle, _Arguments], Coroutine[Any, Any, _Answer]]:
    """The call, raising ``UnknownCollectionError`` instead of the database's error where the collection was removed.

    Closing the platform waits for the call.
    """

    @wraps(call)
    async def checked(handle: CollectionHandle, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Answer:
        collection_id, recorder = handle.stored.collection_id, handle.shared.recorder
        recorder.begin_call()
        try:
            return await call(handle, *args, **kwargs)
        except DatabaseError as error:
            may_be_removed = type(error) in {MissingPrivilegeError, DatabaseError}
            if may_be_removed and (await handle.refresh()).collection_id != collection_id:
                raise UnknownCollectionError(
                    f"collection {handle.name!r} was removed meanwhile, and another was made; try again"
                ) from error
            raise
        finally:
            recorder.end_call()

    return checked


def from_a_replica(
    call: Callable[Concatenate[CollectionHandle, _Arguments], Awaitable[_Answer]],
) -> Callable[Concatenate[CollectionHandle, _Arguments], Coroutine[Any, Any, _Answer]]:
    """The call, reading from a replica, or from the primary where no replica is fresh enough or the replica fails.

    Otherwise it is as with ``checks_existence``. Searches that are not recorded read from the primary, because
    measurements and writes depend on them.
    """

    @checks_existence
    @wraps(call)
    async def read(handle: CollectionHandle, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Answer:
        replicas = handle.database.replicas if handle.is_recorded else None
        replica = None if replicas is None else await replicas.chosen()
        if replicas is None or replica is None:
            return await call(handle, *args, **kwargs)
        await handle.fresh()
        try:
            on_replica = await handle.on(replica)
            if on_replica is not None:
                return await call(on_replica, *args, **kwargs)
        except PoolExhaustedError:
            raise  # a request that is too large for a replica is too large for the primary
        except (DatabaseError, UnknownCollectionError, UnknownFieldError) as error:
            replicas.failed(replica, error)
        return await call(handle, *args, **kwargs)

    return read


def _search_state(stored: StoredCollection) -> tuple[object, ...]:
    """The facts about a collection whose change affects the next search."""
    learned = (stored.model_version, stored.clustered_at)
    return (stored.collection_id, stored.profile_version, stored.space, stored.filterable, *learned)
