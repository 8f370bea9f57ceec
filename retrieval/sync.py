"""The sync door, for scripts: the same platform and collections without ``await``.

    from retrieval.sync import connect
    with connect() as platform:
        tickets = platform.collection("tickets")
        tickets.add(items)
        hits = tickets.search("database connection timeout", where={"priority": "High"}, limit=5)

One event loop in a thread of its own, and one pool of connections, serve all calls, from any thread, until the ``with``
block is left. Where a loop runs already (a notebook, a web application) the door raises ``RunningLoopError``: there the
async API is at hand, and blocking would freeze that loop.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar
from uuid import UUID

from anyio.from_thread import BlockingPortal, start_blocking_portal

from retrieval.adapters.readers import InputLine
from retrieval.adapters.store.actors import Pseudonymised
from retrieval.adapters.store.collections import StoredCollection
from retrieval.adapters.store.models import StoredModel
from retrieval.collection import Collection
from retrieval.domain.analytics import AnalyticsTable, AnalyticsView
from retrieval.domain.collection_info import CollectionInfo
from retrieval.domain.context import Context
from retrieval.domain.embedding import Embedder, EmbeddingSpace
from retrieval.domain.errors import InvalidRequestError, RunningLoopError
from retrieval.domain.feedback import RATING, Feedback, FeedbackReport
from retrieval.domain.filters import Filter, Where
from retrieval.domain.fusion import Candidate
from retrieval.domain.hit import SearchResult
from retrieval.domain.item import Item
from retrieval.domain.llm import LLM
from retrieval.domain.profile import Profile
from retrieval.domain.value_count import ValueCount
from retrieval.engine.recorder import RecordingState
from retrieval.engine.replay import Replay
from retrieval.engine.stopwatch import Clock
from retrieval.jobs.add import AddReport
from retrieval.jobs.ingest import IngestReport, Progress, Rejected
from retrieval.platform import Platform
from retrieval.platform import connect as connect_async
from retrieval.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")


class _Door:
    """Runs async functions on the loop of its portal and waits for what they return."""

    def __init__(self) -> None:
        self.portal: BlockingPortal | None = None

    def run(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the function returns or raises; a caller that is interrupted cancels it."""
        _refuse_running_loop()
        if self.portal is None:
            raise InvalidRequestError("the platform is not open; use: with connect() as platform")
        future = self.portal.start_task_soon(partial(function, *args, **kwargs))
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


class SyncPlatform:
    """``Platform`` without ``await``: the same methods, the same errors. Use ``connect`` as a context manager."""

    def __init__(
        self,
        settings: Settings,
        *,
        embedder: Embedder | None = None,
        llm: LLM | None = None,
        clock: Clock = time.monotonic,
        wall_clock: Clock = time.time,
        chance: random.Random | None = None,
    ) -> None:
        self._platform = Platform(
            settings, embedder=embedder, llm=llm, clock=clock, wall_clock=wall_clock, chance=chance
        )
        self._door = _Door()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        _refuse_running_loop()
        if self._door.portal is not None:
            raise InvalidRequestError("the platform is open already; call connect() for a second one")
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal(name="retrieval.sync"))
            stack.enter_context(portal.wrap_async_context_manager(self._platform))
            self._stack = stack.pop_all()
        self._door.portal = portal
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._door.portal = None
        self._stack.__exit__(kind, error, trace)

    @property
    def settings(self) -> Settings:
        """See ``Platform``."""
        return self._platform.settings

    @property
    def tenant_id(self) -> int:
        """See ``Platform.tenant_id``."""
        return self._platform.tenant_id

    @property
    def recording(self) -> RecordingState:
        """See ``Platform.recording``."""
        return self._platform.recording

    def recorded(self) -> None:
        """See ``Platform.recorded``."""
        self._door.run(self._platform.recorded)

    def accesses_counted(self) -> None:
        """See ``Platform.accesses_counted``."""
        self._door.run(self._platform.accesses_counted)

    def replay(self, retrieval_id: UUID | str, collection: str | None = None) -> Replay:
        """See ``Platform.replay``."""
        return self._door.run(self._platform.replay, retrieval_id, collection)

    def pseudonymise(self, actor: str) -> Pseudonymised:
        """See ``Platform.pseudonymise``."""
        return self._door.run(self._platform.pseudonymise, actor)

    @property
    def now(self) -> datetime:
        """See ``Platform.now``."""
        return self._platform.now

    def feedback(
        self,
        retrieval_id: UUID | str | None = None,
        item_id: str = "",
        *,
        helpful: bool | None = None,
        reward: float | None = None,
        collection: str | None = None,
        context: Context | None = None,
        kind: str = RATING,
        actor: str = "",
        session: str = "",
        note: str = "",
        at: datetime | None = None,
        weight: float = 1.0,
        key: UUID | str | None = None,
    ) -> FeedbackReport:
        """See ``Platform.feedback``."""
        return self._door.run(
            self._platform.feedback,
            retrieval_id,
            item_id,
            helpful=helpful,
            reward=reward,
            collection=collection,
            context=context,
            kind=kind,
            actor=actor,
            session=session,
            note=note,
            at=at,
            weight=weight,
            key=key,
        )

    def feedback_each(self, events: Iterable[Feedback]) -> FeedbackReport:
        """See ``Platform.feedback_each``."""
        return self._door.run(self._platform.feedback_each, events)

    def outcome(
        self,
        retrieval_id: UUID | str,
        used: Iterable[str],
        *,
        reward: float,
        actor: str = "",
        note: str = "",
        at: datetime | None = None,
    ) -> FeedbackReport:
        """See ``Platform.outcome``."""
        call = self._platform.outcome
        return self._door.run(call, retrieval_id, used, reward=reward, actor=actor, note=note, at=at)

    def quarantine(self, actor: str, *, reason: str = "") -> int:
        """See ``Platform.quarantine``."""
        return self._door.run(self._platform.quarantine, actor, reason=reason)

    def release(self, actor: str) -> int:
        """See ``Platform.release``."""
        return self._door.run(self._platform.release, actor)

    def collection(
        self,
        name: str,
        *,
        create: bool = True,
        language: str = "english",
        profile: Profile | None = None,
        space: EmbeddingSpace | None = None,
        filterable: Mapping[str, str] | None = None,
    ) -> SyncCollection:
        """See ``Platform.collection``."""
        find = self._platform.collection
        found = self._door.run(
            find, name, create=create, language=language, profile=profile, space=space, filterable=filterable
        )
        return SyncCollection(found, self._door)

    def collections(self) -> list[SyncCollection]:
        """See ``Platform.collections``."""
        return [SyncCollection(one, self._door) for one in self._door.run(self._platform.collections)]

    def analytics_views(self) -> list[AnalyticsView]:
        """See ``Platform.analytics_views``."""
        return self._door.run(self._platform.analytics_views)

    def analytics(
        self,
        view: str,
        *,
        collection: str | None = None,
        since: datetime | timedelta | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> AnalyticsTable:
        """See ``Platform.analytics``."""
        return self._door.run(
            self._platform.analytics, view, collection=collection, since=since, until=until, limit=limit
        )


class SyncCollection:
    """``Collection`` without ``await``. ``SyncPlatform.collection`` gives it."""

    def __init__(self, collection: Collection, door: _Door) -> None:
        self._collection = collection
        self._door = door
        self._run = door.run

    @property
    def name(self) -> str:
        """See ``Collection.name``."""
        return self._collection.name

    @property
    def profile(self) -> Profile:
        """See ``Collection.profile``."""
        return self._collection.profile

    def __repr__(self) -> str:
        return repr(self._collection).replace("<", "<Sync", 1)

    def add(self, items: Iterable[Item | Mapping[str, Any]], *, embeddings: object = None) -> AddReport:
        """See ``Collection.add``."""
        return self._run(self._collection.add, items, embeddings=embeddings)

    def ingest(
        self,
        lines: Iterator[InputLine],
        *,
        rejected: Rejected | None = None,
        prune: bool = False,
        progress: Progress | None = None,
    ) -> IngestReport:
        """See ``Collection.ingest``. ``rejected`` and ``progress`` are called on the door's own thread."""
        return self._run(self._collection.ingest, lines, rejected=rejected, prune=prune, progress=progress)

    def search(
        self,
        query: str | None = None,
        *,
        vector: object = None,
        where: Where | Filter | None = None,
        limit: int = 10,
        legs: Sequence[str] | None = None,
        profile: Profile | None = None,
        group_by: str | None = None,
        syntax: bool = True,
        rewrites: Sequence[str] = (),
        entities: Mapping[str, Sequence[str]] | None = None,
        as_of: datetime | None = None,
        context: Context = Context(),
    ) -> SearchResult:
        """See ``Collection.search``."""
        return self._run(
            self._collection.search,
            query,
            vector=vector,
            where=where,
            limit=limit,
            legs=legs,
            profile=profile,
            group_by=group_by,
            syntax=syntax,
            rewrites=rewrites,
            entities=entities,
            as_of=as_of,
            context=context,
        )

    def search_each(
        self,
        queries: Sequence[str],
        *,
        vectors: Sequence[object] | None = None,
        where: Where | Filter | None = None,
        limit: int = 10,
        legs: Sequence[str] | None = None,
        profile: Profile | None = None,
        group_by: str | None = None,
        syntax: bool = True,
        context: Context = Context(),
    ) -> list[SearchResult]:
        """See ``Collection.search_each``."""
        return self._run(
            self._collection.search_each,
            queries,
            vectors=vectors,
            where=where,
            limit=limit,
            legs=legs,
            profile=profile,
            group_by=group_by,
            syntax=syntax,
            context=context,
        )

    def interleave(
        self,
        query: str,
        *,
        profiles: Mapping[str, Profile],
        where: Where | Filter | None = None,
        limit: int = 10,
        syntax: bool = True,
        context: Context = Context(),
    ) -> SearchResult:
        """See ``Collection.interleave``."""
        return self._run(
            self._collection.interleave,
            query,
            profiles=profiles,
            where=where,
            limit=limit,
            syntax=syntax,
            context=context,
        )

    def unrecorded(self) -> SyncCollection:
        """See ``Collection.unrecorded``."""
        return SyncCollection(self._collection.unrecorded(), self._door)

    def leg_rankings(
        self,
        query: str,
        *,
        where: Where | Filter | None = None,
        legs: Sequence[str] = ("dense", "lexical"),
        depth: int = 100,
    ) -> dict[str, list[Candidate]]:
        """See ``Collection.leg_rankings``."""
        return self._run(self._collection.leg_rankings, query, where=where, legs=legs, depth=depth)

    def get(self, item_ids: Sequence[str]) -> dict[str, Item]:
        """See ``Collection.get``."""
        return self._run(self._collection.get, item_ids)

    def count_accesses(self, item_ids: Sequence[str]) -> None:
        """See ``Collection.count_accesses``."""
        self._run(self._collection.count_accesses, item_ids)

    def delete(self, item_ids: Sequence[str]) -> int:
        """See ``Collection.delete``."""
        return self._run(self._collection.delete, item_ids)

    def set_profile(self, profile: Profile, *, note: str = "") -> int:
        """See ``Collection.set_profile``."""
        return self._run(self._collection.set_profile, profile, note=note)

    def models(self) -> list[StoredModel]:
        """See ``Collection.models``."""
        return self._run(self._collection.models)

    def use_model(self, version: int | None) -> None:
        """See ``Collection.use_model``."""
        self._run(self._collection.use_model, version)

    def set_half_life(self, days: float) -> None:
        """See ``Collection.set_half_life``."""
        self._run(self._collection.set_half_life, days)

    def set_daily_cap(self, events: int) -> None:
        """See ``Collection.set_daily_cap``."""
        self._run(self._collection.set_daily_cap, events)

    def make_filterable(self, attributes: Mapping[str, str]) -> None:
        """See ``Collection.make_filterable``."""
        self._run(self._collection.make_filterable, attributes)

    def make_unfilterable(self, names: Sequence[str]) -> None:
        """See ``Collection.make_unfilterable``."""
        self._run(self._collection.make_unfilterable, names)

    def space(self) -> EmbeddingSpace | None:
        """See ``Collection.space``."""
        return self._run(self._collection.space)

    def info(self) -> CollectionInfo:
        """See ``Collection.info``."""
        return self._run(self._collection.info)

    def value_counts(self, attribute: str) -> list[ValueCount]:
        """See ``Collection.value_counts``."""
        return self._run(self._collection.value_counts, attribute)

    def count_vectors(self) -> int:
        """See ``Collection.count_vectors``."""
        return self._run(self._collection.count_vectors)

    def refresh(self) -> StoredCollection:
        """See ``Collection.refresh``."""
        return self._run(self._collection.refresh)


def connect(
    url: str | None = None,
    *,
    tenant: str | None = None,
    settings: Settings | None = None,
    embedder: Embedder | None = None,
    llm: LLM | None = None,
) -> SyncPlatform:
    """The platform, to be opened with ``with``. See ``retrieval.connect``."""
    opened = connect_async(url, tenant=tenant, settings=settings)
    return SyncPlatform(opened.settings, embedder=embedder, llm=llm)


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RunningLoopError(
        "retrieval.sync cannot be used inside a running event loop, which it would freeze; "
        "await the async API there: async with retrieval.connect() as platform"
    )
