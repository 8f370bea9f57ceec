"""The platform without ``await``."""

from __future__ import annotations

import atexit
import random
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from copy import copy
from datetime import datetime, timedelta
from functools import cache
from types import TracebackType
from typing import Self
from uuid import UUID

from anyio.from_thread import start_blocking_portal

from retrieval.adapters.endpoints.breaker import Outage
from retrieval.adapters.store.records.forgetting import Pseudonymised
from retrieval.domain.api_key import ApiKey, NewApiKey
from retrieval.domain.diagnosis import Diagnosis
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.collection import Neighbours
from retrieval.domain.items.embedding import Embedder, EmbeddingSpace
from retrieval.domain.learning.context import Context
from retrieval.domain.learning.feedback import RATING, Feedback, FeedbackReport
from retrieval.domain.llm import LLM
from retrieval.domain.records.analytics import AnalyticsTable, AnalyticsView
from retrieval.domain.records.recorded import RecordedRetrieval
from retrieval.domain.search.profile import Profile
from retrieval.engine.recorder import RecordingState
from retrieval.engine.replay import Replay
from retrieval.engine.stopwatch import Clock
from retrieval.platform import Platform
from retrieval.platform import connect as connect_async
from retrieval.services.collections import CollectionStatus
from retrieval.settings import Settings
from retrieval.sync.collection import SyncCollection
from retrieval.sync.door import Door, refuse_running_loop

_OPEN: dict[int, SyncPlatform] = {}
"""The platforms that the end of the program closes, in the order in which they were opened."""


class SyncPlatform:
    """``Platform`` without ``await``: the same methods, the same errors. Use ``connect`` with ``with``, or ``open``."""

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
        self.twin = Platform(settings, embedder=embedder, llm=llm, clock=clock, wall_clock=wall_clock, chance=chance)
        self.door = Door()
        self._host: SyncPlatform | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.door.portal = None
        _OPEN.pop(id(self), None)
        self._stack.__exit__(kind, error, trace)

    def open(self) -> Self:
        """See ``Platform.open``. One that is not closed is closed as the program ends."""
        refuse_running_loop()
        if self.door.portal is not None:
            raise InvalidRequestError("the platform is open already; call connect() for a second one")
        with ExitStack() as stack:
            portal = self._host.door.portal if self._host is not None else None
            if portal is None:
                portal = stack.enter_context(start_blocking_portal(name="retrieval.sync"))
            stack.enter_context(portal.wrap_async_context_manager(self.twin))
            self._stack = stack.pop_all()
        self.door.portal = portal
        _close_at_exit(self)
        return self

    def close(self) -> None:
        """See ``Platform.close``."""
        self.__exit__(None, None, None)

    def of_tenant(self, tenant: str) -> SyncPlatform:
        """See ``Platform.of_tenant``."""
        other = copy(self)
        other.twin, other.door = self.twin.of_tenant(tenant), Door()
        other._host, other._stack = self, ExitStack()  # noqa: SLF001 - another of the same class
        return other

    @property
    def settings(self) -> Settings:
        """See ``Platform``."""
        return self.twin.settings

    @property
    def tenant_id(self) -> int:
        """See ``Platform.tenant_id``."""
        return self.twin.tenant_id

    @property
    def recording(self) -> RecordingState:
        """See ``Platform.recording``."""
        return self.twin.recording

    def recorded(self) -> None:
        """See ``Platform.recorded``."""
        self.door.run(self.twin.recorded)

    def accesses_counted(self) -> None:
        """See ``Platform.accesses_counted``."""
        self.door.run(self.twin.accesses_counted)

    def retrieval(self, retrieval_id: UUID | str, collection: str | None = None) -> RecordedRetrieval:
        """See ``Platform.retrieval``."""
        return self.door.run(self.twin.retrieval, retrieval_id, collection)

    def statistics(self) -> list[CollectionStatus]:
        """See ``Platform.statistics``."""
        return self.door.run(self.twin.statistics)

    def replay(self, retrieval_id: UUID | str, collection: str | None = None) -> Replay:
        """See ``Platform.replay``."""
        return self.door.run(self.twin.replay, retrieval_id, collection)

    def pseudonymise(self, actor: str) -> Pseudonymised:
        """See ``Platform.pseudonymise``."""
        return self.door.run(self.twin.pseudonymise, actor)

    def doctor(self, collection: str | None = None) -> Diagnosis:
        """See ``Platform.doctor``."""
        return self.door.run(self.twin.doctor, collection)

    @property
    def outages(self) -> list[Outage]:
        """See ``Platform.outages``."""
        return self.twin.outages

    def try_embedder(self) -> bool:
        """See ``Platform.try_embedder``."""
        return self.door.run(self.twin.try_embedder)

    @property
    def now(self) -> datetime:
        """See ``Platform.now``."""
        return self.twin.now

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
        return self.door.run(
            self.twin.feedback,
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

    def feedback_each(self, events: Iterable[Feedback], *, api_key: ApiKey | None = None) -> FeedbackReport:
        """See ``Platform.feedback_each``."""
        return self.door.run(self.twin.feedback_each, events, api_key=api_key)

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
        call = self.twin.outcome
        return self.door.run(call, retrieval_id, used, reward=reward, actor=actor, note=note, at=at)

    def quarantine(self, actor: str, *, reason: str = "") -> int:
        """See ``Platform.quarantine``."""
        return self.door.run(self.twin.quarantine, actor, reason=reason)

    def release(self, actor: str) -> int:
        """See ``Platform.release``."""
        return self.door.run(self.twin.release, actor)

    def create_key(
        self,
        name: str,
        *,
        scopes: Iterable[str] = ("read",),
        requests_per_minute: int | None = None,
        feedback_cap: int | None = None,
        expires_at: datetime | None = None,
    ) -> NewApiKey:
        """See ``Platform.create_key``."""
        return self.door.run(
            self.twin.create_key,
            name,
            scopes=scopes,
            requests_per_minute=requests_per_minute,
            feedback_cap=feedback_cap,
            expires_at=expires_at,
        )

    def keys(self) -> list[ApiKey]:
        """See ``Platform.keys``."""
        return self.door.run(self.twin.keys)

    def revoke_key(self, key_id: str) -> ApiKey:
        """See ``Platform.revoke_key``."""
        return self.door.run(self.twin.revoke_key, key_id)

    def collection(
        self,
        name: str,
        *,
        create: bool = True,
        language: str = "english",
        profile: Profile | None = None,
        space: EmbeddingSpace | None = None,
        filterable: Mapping[str, str] | None = None,
        neighbours: Neighbours | None = None,
    ) -> SyncCollection:
        """See ``Platform.collection``."""
        found = self.door.run(
            self.twin.collection,
            name,
            create=create,
            language=language,
            profile=profile,
            space=space,
            filterable=filterable,
            neighbours=neighbours,
        )
        return SyncCollection(found, self.door)

    def collections(self) -> list[SyncCollection]:
        """See ``Platform.collections``."""
        return [SyncCollection(one, self.door) for one in self.door.run(self.twin.collections)]

    def remove_collection(self, name: str) -> bool:
        """See ``Platform.remove_collection``."""
        return self.door.run(self.twin.remove_collection, name)

    def analytics_views(self) -> list[AnalyticsView]:
        """See ``Platform.analytics_views``."""
        return self.door.run(self.twin.analytics_views)

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
        return self.door.run(self.twin.analytics, view, collection=collection, since=since, until=until, limit=limit)


def connect(
    url: str | None = None,
    *,
    tenant: str | None = None,
    settings: Settings | None = None,
    embedder: Embedder | None = None,
    llm: LLM | None = None,
) -> SyncPlatform:
    """The platform, to be opened with ``with``, or by ``open``. See ``retrieval.connect``."""
    opened = connect_async(url, tenant=tenant, settings=settings)
    return SyncPlatform(opened.settings, embedder=embedder, llm=llm)


def open(  # noqa: A001 - what users call it, as they call retrieval.sync.open()
    url: str | None = None,
    *,
    tenant: str | None = None,
    settings: Settings | None = None,
    embedder: Embedder | None = None,
    llm: LLM | None = None,
) -> SyncPlatform:
    """The platform, open: ``platform = retrieval.sync.open()``. See ``retrieval.open``."""
    return connect(url, tenant=tenant, settings=settings, embedder=embedder, llm=llm).open()


def _close_at_exit(platform: SyncPlatform) -> None:
    """Let the end of the program close the platform where nobody does, so that its last searches are recorded."""
    _OPEN[id(platform)] = platform
    _watch_exit()


@cache
def _watch_exit() -> None:
    # What is registered with atexit runs after the end of the executors that closing needs.
    getattr(threading, "_register_atexit", atexit.register)(_close_all)


def _close_all() -> None:
    while _OPEN:
        _OPEN.popitem()[1].close()
