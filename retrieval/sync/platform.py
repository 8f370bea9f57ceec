"""The platform and its collections without ``await``."""

from __future__ import annotations

import atexit
import os
import random
import threading
import time
from contextlib import ExitStack
from copy import copy
from datetime import datetime
from functools import cache
from types import TracebackType
from typing import NoReturn, Self

from anyio.from_thread import start_blocking_portal

from retrieval.adapters.clock import Clock
from retrieval.adapters.endpoints.breaker import Outage
from retrieval.collection import Collection
from retrieval.domain.checks import checks_argument_names
from retrieval.domain.errors import InvalidRequestError, RunningLoopError
from retrieval.domain.items.embedding import Embedder
from retrieval.domain.llm import LLM
from retrieval.domain.search.profile import Profile
from retrieval.domain.search.reranking import Reranker
from retrieval.engine.recorder import RecordingState
from retrieval.platform import Platform, loop_of
from retrieval.platform import connect as connect_async
from retrieval.settings import Settings
from retrieval.sync.mirror import Door, Mirror, fact, iterated, mirrored, refuse_running_loop, running_loop, waiting


class SyncCollection(Mirror[Collection]):
    """``Collection`` without ``await``. ``SyncPlatform.collection`` gives it.

    A function argument, such as ``decide`` of ``change``, is called on the door's own thread.
    """

    def __repr__(self) -> str:
        return repr(self.twin).replace("<", "<Sync", 1)

    def _repr_html_(self) -> str:
        return self.twin._repr_html_()

    name: str = fact(Collection.name)
    profile: Profile = fact(Collection.profile)

    search = waiting(Collection.search)
    search_each = waiting(Collection.search_each)
    interleave = waiting(Collection.interleave)
    preview = waiting(Collection.preview)
    complete = waiting(Collection.complete)
    passages = waiting(Collection.passages)

    def unrecorded(self) -> SyncCollection:
        """The same collection without recording and exploration, for trials and measurements."""
        return SyncCollection(self.twin.unrecorded(), self.door)

    add = waiting(Collection.add)
    ingest = waiting(Collection.ingest)
    ingest_documents = waiting(Collection.ingest_documents)
    add_documents = waiting(Collection.add_documents)
    put = waiting(Collection.put)
    patch = waiting(Collection.patch)
    change = waiting(Collection.change)
    delete = waiting(Collection.delete)
    remove = waiting(Collection.remove)
    delete_documents = waiting(Collection.delete_documents)
    get = waiting(Collection.get)
    stored = waiting(Collection.stored)
    page = waiting(Collection.page)
    scan = iterated(Collection.scan)
    value_counts = waiting(Collection.value_counts)
    info = waiting(Collection.info)
    space = waiting(Collection.space)
    embeddings = waiting(Collection.embeddings)
    vectors_of = waiting(Collection.vectors_of)
    profiles = waiting(Collection.profiles)
    stored_profile = waiting(Collection.stored_profile)
    set_profile = waiting(Collection.set_profile)
    use_profile = waiting(Collection.use_profile)
    calibrate = waiting(Collection.calibrate)
    retrievals = waiting(Collection.retrievals)
    record_answer = waiting(Collection.record_answer)
    answers_of = waiting(Collection.answers_of)
    set_learning = waiting(Collection.set_learning)
    standings = waiting(Collection.standings)
    expectations = waiting(Collection.expectations)
    learn = waiting(Collection.learn)
    models = waiting(Collection.models)
    use_model = waiting(Collection.use_model)
    make_filterable = waiting(Collection.make_filterable)
    set_neighbours = waiting(Collection.set_neighbours)
    refresh = waiting(Collection.refresh)


_OPEN: dict[int, SyncPlatform] = {}
"""The platforms that the end of the program closes, in the order in which they were opened."""


def _collections(collections: list[Collection], door: Door) -> list[SyncCollection]:
    return [SyncCollection(collection, door) for collection in collections]


_NOT_AWAITED = (
    "this platform is not awaited: write with connect() as platform; in an async program import retrieval, and: "
    "async with retrieval.connect() as platform"
)


class SyncPlatform(Mirror[Platform]):
    """``Platform`` without ``await``: the same methods, the same errors. Use ``connect`` with ``with``, or ``open``."""

    def __init__(
        self,
        settings: Settings,
        *,
        embedder: Embedder | None = None,
        llm: LLM | None = None,
        reranker: Reranker | None = None,
        clock: Clock = time.monotonic,
        wall_clock: Clock = time.time,
        chance: random.Random | None = None,
    ) -> None:
        twin = Platform(
            settings, embedder=embedder, llm=llm, reranker=reranker, clock=clock, wall_clock=wall_clock, chance=chance
        )
        super().__init__(twin, Door())
        self._host: SyncPlatform | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for view in [other for other in _OPEN.values() if other._host is self]:  # noqa: SLF001 - of the same class
            view.close()  # its work would keep the thread alive
        if self.door.portal is not None:
            self.door.close()
        _OPEN.pop(id(self), None)
        self._stack.pop_all().__exit__(kind, error, trace)

    async def __aenter__(self) -> NoReturn:
        raise InvalidRequestError(_NOT_AWAITED)

    async def __aexit__(self, *_: object) -> None:
        """Does nothing; ``async with`` requires it."""

    def open(self) -> Self:
        """Open the platform, as ``with`` does, and return it; ``close``, or the end of the program, ends it.

        Raises ``InvalidRequestError`` where it is open already, and what the database raises.
        """
        refuse_running_loop()
        if self.door.portal is not None:
            raise InvalidRequestError("the platform is open already; call connect() for a second one")
        with ExitStack() as stack:
            portal = self._host.door.portal if self._host is not None else None
            if portal is None:
                portal = stack.enter_context(start_blocking_portal(name="retrieval.sync"))
            stack.enter_context(portal.wrap_async_context_manager(self.twin))
            self._stack = stack.pop_all()
        self.door.open(portal)
        _close_at_exit(self)
        return self

    def close(self) -> None:
        """Store the waiting records, and close the connections. A second call does nothing.

        Raises ``RunningLoopError`` within a function that the platform calls, such as ``decide`` of ``change``.
        """
        if self.door.portal is not None and (loop := loop_of(self.twin)) is not None and loop is running_loop():
            raise RunningLoopError("the platform runs this call, and cannot be closed within it; close it afterwards")
        self.__exit__(None, None, None)

    def of_tenant(self, tenant: str) -> SyncPlatform:
        """Another tenant's view of the same installation, on the same connections, embedders and language model.

        It is opened with ``with``, after this one; closing this one closes it too.
        """
        other = copy(self)
        other.twin, other.door = self.twin.of_tenant(tenant), Door()
        other._host, other._stack = self, ExitStack()  # noqa: SLF001 - another of the same class
        return other

    @property
    def settings(self) -> Settings:
        """The settings of the environment or the caller."""
        return self.twin.settings

    tenant_id: int = fact(Platform.tenant_id)
    recording: RecordingState = fact(Platform.recording)
    outages: list[Outage] = fact(Platform.outages)
    llm: LLM | None = fact(Platform.llm)
    now: datetime = fact(Platform.now)

    collection = mirrored(Platform.collection, SyncCollection)
    collections = mirrored(Platform.collections, _collections)
    remove_collection = waiting(Platform.remove_collection)
    delete_collection = waiting(Platform.delete_collection)
    export_collection = waiting(Platform.export_collection)
    import_collection = waiting(Platform.import_collection)
    feedback = waiting(Platform.feedback)
    feedback_each = waiting(Platform.feedback_each)
    outcome = waiting(Platform.outcome)
    quarantine = waiting(Platform.quarantine)
    release = waiting(Platform.release)
    recorded = waiting(Platform.recorded)
    accesses_counted = waiting(Platform.accesses_counted)
    retrieval = waiting(Platform.retrieval)
    replay = waiting(Platform.replay)
    pseudonymise = waiting(Platform.pseudonymise)
    write_token = waiting(Platform.write_token)
    analytics_views = waiting(Platform.analytics_views)
    analytics = waiting(Platform.analytics)
    create_key = waiting(Platform.create_key)
    keys = waiting(Platform.keys)
    revoke_key = waiting(Platform.revoke_key)
    statistics = waiting(Platform.statistics)
    doctor = waiting(Platform.doctor)
    split = waiting(Platform.split)
    reembed_cost = waiting(Platform.reembed_cost)
    reembed = waiting(Platform.reembed)
    reembedding = waiting(Platform.reembedding)
    try_embedder = waiting(Platform.try_embedder)


@checks_argument_names
def connect(
    url: str | None = None,
    *,
    tenant: str | None = None,
    settings: Settings | None = None,
    embedder: Embedder | None = None,
    llm: LLM | None = None,
    reranker: Reranker | None = None,
) -> SyncPlatform:
    """The platform, to be opened with ``with``, or by ``open``. See ``retrieval.connect``."""
    opened = connect_async(url, tenant=tenant, settings=settings, embedder=embedder, llm=llm, reranker=reranker)
    return SyncPlatform(opened.settings, embedder=embedder, llm=llm, reranker=reranker)


@checks_argument_names
def open(  # noqa: A001 - the public name: retrieval.sync.open()
    url: str | None = None,
    *,
    tenant: str | None = None,
    settings: Settings | None = None,
    embedder: Embedder | None = None,
    llm: LLM | None = None,
    reranker: Reranker | None = None,
) -> SyncPlatform:
    """The platform, open: ``platform = retrieval.sync.open()``. See ``retrieval.open``."""
    return connect(url, tenant=tenant, settings=settings, embedder=embedder, llm=llm, reranker=reranker).open()


def _close_at_exit(platform: SyncPlatform) -> None:
    """Close the platform at the end of the program, if it is still open, so that its last searches are recorded."""
    _OPEN[id(platform)] = platform
    _watch_exit()


@cache
def _watch_exit() -> None:
    # ``atexit`` functions run after the executors, which closing needs, have ended.
    getattr(threading, "_register_atexit", atexit.register)(_close_all)


def _close_all() -> None:
    while _OPEN:
        _OPEN.popitem()[1].close()


_FORKED = "the platform was opened before this process was forked; open one in each process: retrieval.sync.connect()"


def _leave_to_parent() -> None:
    """In a forked child, which has no thread of its parent's and must not use its connections, close nothing."""
    for platform in _OPEN.values():
        # Without it, the portal would wait for its thread when it is collected.
        platform.door.open_portal._event_loop_thread_id = None  # noqa: SLF001 - the portal knows no forks
        platform.door.close(_FORKED)
        platform._stack = ExitStack()  # noqa: SLF001 - of this module's class
    _OPEN.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
