"""The composition root: settings become a database, an embedder and collections."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from copy import copy
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pydantic import ValidationError

from retrieval.adapters.embedders.cached import CachedEmbedder
from retrieval.adapters.embedders.chosen import ChosenEmbedders
from retrieval.adapters.endpoints.breaker import Outage
from retrieval.adapters.llms.choice import ChosenLLM
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.installation.opening import open_database
from retrieval.adapters.store.items.collections import (
    StoredCollection,
    add_profile,
    all_collections,
    create_collection,
    ensure_tenant,
    find_collection,
    set_space,
)
from retrieval.adapters.store.records.forgetting import ensure_months
from retrieval.adapters.store.search.vectors import StoredSpace, register_space
from retrieval.collection import Collection
from retrieval.domain.errors import DatabaseError, InvalidRequestError, UnknownCollectionError
from retrieval.domain.items.attribute import checked_filterable
from retrieval.domain.items.collection import Neighbours, check_collection_name, checked_neighbours
from retrieval.domain.items.embedding import Embedder, EmbeddingSpace
from retrieval.domain.learning.context import Context
from retrieval.domain.llm import LLM
from retrieval.domain.search.profile import Profile
from retrieval.engine.accesses import AccessCounter
from retrieval.engine.decide import Decider
from retrieval.engine.key_calls import KeyCalls
from retrieval.engine.models import Models
from retrieval.engine.recorder import Recorder, RecordingState, Sampler
from retrieval.engine.shared_calls import SharedCalls
from retrieval.engine.stopwatch import Clock
from retrieval.services.calls import InstallationCalls
from retrieval.services.workplace import Workplace
from retrieval.settings import Settings, refused

if TYPE_CHECKING:
    from retrieval.adapters.store.records.forgetting import Pseudonymised
    from retrieval.domain.diagnosis import Diagnosis
    from retrieval.domain.records.analytics import AnalyticsTable, AnalyticsView

_log = logging.getLogger(__name__)

_NOT_OPEN = "the platform is not open; use: async with connect() as platform, or: platform = await retrieval.open()"


class Platform(InstallationCalls, KeyCalls):
    """One tenant's view of one installation. Use ``connect`` as an async context manager, or ``retrieval.open``.

    The parts can be given instead of made from the settings: that is how tests and applications bring their own.
    """

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
        self.settings = settings
        self._host: Platform | None = None
        self._chance = chance or random.Random()  # noqa: S311 - it samples and explores, and keeps no secret
        self._sampler: Sampler | None = None
        self._recorder: Recorder | None = None
        self._accesses: AccessCounter | None = None
        self._decider: Decider | None = None
        self._clock = clock
        self._wall_clock = wall_clock
        self._embedders = ChosenEmbedders(settings, embedder)
        self._llm = ChosenLLM(settings, llm)
        self._calls = SharedCalls(self._llm.guards)
        self._stack = AsyncExitStack()
        self._database: Database | None = None
        self._tenant_id = 0

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> Self:
        """Open the platform, as ``async with`` does, and give it back; ``close`` ends it.

        Raises ``InvalidRequestError`` where it is open already, and what the database raises.
        """
        if self._database is not None:
            raise InvalidRequestError("the platform is open already; call connect() for a second one")
        async with AsyncExitStack() as stack:
            stack.callback(self._forget_database)
            self._database = await self._opened(stack) if self._host is None else self._host.database
            self._calls = SharedCalls(self._llm.guards)
            stack.push_async_callback(self._calls.aclose)
            self._tenant_id = await ensure_tenant(self._database, self.settings.tenant)
            if self._host is None:
                await self._ensure_months()
            else:
                stack.callback(self._embedders.forget, self._tenant_id)
            self._sampler = Sampler(self._database, self._tenant_id, self.settings.recall_sample_rate, self._chance)
            stack.push_async_callback(self._sampler.aclose)
            self._recorder = Recorder(self._database, self._tenant_id, observer=self.observer)
            stack.push_async_callback(self._recorder.aclose)
            self._accesses = AccessCounter(self._database, self._tenant_id)
            stack.push_async_callback(self._accesses.aclose)
            self._decider = Decider(
                database=self._database,
                tenant_id=self._tenant_id,
                models=Models(self._database, self._tenant_id),
            )
            self._stack = stack.pop_all()
        return self

    async def close(self) -> None:
        """Store what is still to be recorded, and end the connections. A second call does nothing."""
        await self._stack.aclose()

    def _forget_database(self) -> None:
        self._database = None

    @property
    def database(self) -> Database:
        """The open database. Raises ``InvalidRequestError`` before the platform is opened and after it is closed."""
        if self._database is None:
            raise InvalidRequestError(_NOT_OPEN)
        return self._database

    @property
    def home_loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that it was opened in, which runs all its calls; None while it is not open."""
        return None if self._database is None else self._database.loop

    @property
    def tenant_id(self) -> int:
        """The tenant's number in the database."""
        return self._tenant_id

    @property
    def llm(self) -> LLM | None:
        """The language model: given, else as configured, else None. Raises ``ConfigurationError``."""
        return self._llm.get()

    @property
    def embedder(self) -> Embedder | None:
        """The embedder of new collections: given, else as configured, else None. Raises ``ConfigurationError``."""
        return self._embedders.for_new()

    @property
    def outages(self) -> list[Outage]:
        """The embedders and language models that searches do not ask at present, because they do not answer.

        All tenants of the platform share them. Each is asked again after a while: see ``docs/how-to/embedders.md``.
        """
        return [*self._embedders.guards.outages, *self._llm.guards.outages]

    async def try_embedder(self) -> bool:
        """Ask the embedder of new collections for one vector, as a search does; False: there is none.

        Raises ``ConfigurationError``, and ``EmbedderError`` where it gives none within a search's budget.
        """
        return await self._embedders.try_out()

    @property
    def now(self) -> datetime:
        """The time of day, in UTC."""
        return datetime.fromtimestamp(self._wall_clock(), UTC)

    @property
    def workplace(self) -> Workplace:
        """What jobs need: see ``retrieval.jobs``."""
        return Workplace(self.database, self.settings, self._embedder_of_tenant, now=lambda: self.now)

    @property
    def recording(self) -> RecordingState:
        """How many searches were recorded since the platform was opened, how many wait for it, and were lost."""
        return self._open_recorder.state

    async def recorded(self) -> None:
        """Return once every search that was answered so far is recorded, or counted as lost.

        Raises ``DatabaseError`` when the database cannot be had; the searches then wait on.
        """
        await self._open_recorder.recorded()

    async def accesses_counted(self) -> None:
        """Return once every retrieval of memories so far is in their access counts.

        Raises ``DatabaseError`` when the database cannot be had; the counts then wait on.
        """
        if self._accesses is None:
            raise InvalidRequestError(_NOT_OPEN)
        await self._accesses.counted()

    async def pseudonymise(self, actor: str) -> Pseudonymised:
        """Replace an actor's name in all recorded searches and feedback by a random pseudonym; sessions are forgotten.

        Raises ``InvalidRequestError`` for a name that no actor can have.
        """
        from retrieval.adapters.store.records.forgetting import pseudonymise

        if not Context(actor=actor).actor:
            raise InvalidRequestError("an actor's name is needed, as it was given with the search or the feedback")
        await self.recorded()
        return await pseudonymise(self.database, self._tenant_id, actor, f"pseudonym-{secrets.token_hex(16)}")

    async def doctor(self, collection: str | None = None) -> Diagnosis:
        """Examine the server, the installation and the tenant's collections, or that one alone; it changes nothing.

        Each finding says how bad it is and how to mend it. Raises ``UnknownCollectionError``, and
        ``DatabaseUnreachableError`` where there is nothing to examine.
        """
        from retrieval.services.doctor import diagnose

        if collection is not None:
            await self.collection(collection, create=False)
        return await diagnose(self.workplace, self._tenant_id, collection)

    @property
    def _open_recorder(self) -> Recorder:
        if self._recorder is None:
            raise InvalidRequestError(_NOT_OPEN)
        return self._recorder

    async def collection(
        self,
        name: str,
        *,
        create: bool = True,
        language: str = "english",
        profile: Profile | None = None,
        space: EmbeddingSpace | None = None,
        filterable: Mapping[str, str] | None = None,
        neighbours: Neighbours | None = None,
    ) -> Collection:
        """The tenant's collection of that name; made if missing, with its profile and embedding space.

        ``language`` (a text search configuration of PostgreSQL), ``profile``, ``space`` and ``neighbours`` (see
        ``Collection.set_neighbours``) count when it is made; ``space`` is for vectors of your own, otherwise it is the
        configured embedder's. ``filterable`` is as for ``Collection.make_filterable``, and adds what is not declared
        yet. With ``create=False`` a missing collection raises ``UnknownCollectionError``.
        """
        from retrieval.engine.plan import default_profile

        check_collection_name(name)
        checked_filterable(filterable or {})
        checked_neighbours(neighbours)
        stored = await find_collection(self.database, self._tenant_id, name)
        if stored is None and not create:
            raise await self._unknown(name)
        if stored is None or (stored.space is None and create):
            stored_space = await self._space(space)
            if stored is None:
                first = profile or default_profile(stored_space.space if stored_space else None)
                await self._make(name, language, first, stored_space, neighbours)
            elif stored_space is not None:
                await self._give_space(stored, stored_space)
            stored = await find_collection(self.database, self._tenant_id, name)
        if stored is None:
            raise UnknownCollectionError(f"collection {name!r} was removed while it was being made; try again")
        collection = self._handle(stored)
        if filterable:
            await collection.make_filterable(filterable)
        return collection

    async def collections(self) -> list[Collection]:
        """The tenant's collections, by name."""
        stored = await all_collections(self.database, self._tenant_id)
        return [self._handle(one) for one in stored]

    async def remove_collection(self, name: str) -> bool:
        """Remove the tenant's collection of that name with all that is its own, and whether there was one.

        Its items with their vectors, terms and indexes go, its profiles, models, recorded searches and feedback; the
        tenant's cache of vectors stays. Part by part: interrupted, the same call goes on. Nothing brings it back.
        """
        from retrieval.services.collections import remove_collection

        check_collection_name(name)
        stored = await find_collection(self.database, self._tenant_id, name)
        if stored is None:
            return False
        await self.recorded()
        return await remove_collection(self.database, self._tenant_id, stored.collection_id)

    async def analytics_views(self) -> list[AnalyticsView]:
        """The figures that can be asked for, by name, each with its columns."""
        from retrieval.adapters.store.records.analytics import analytics_views

        return await analytics_views(self.database, self._tenant_id)

    async def analytics(
        self,
        view: str,
        *,
        collection: str | None = None,
        since: datetime | timedelta | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> AnalyticsTable:
        """The rows of a view of figures, most telling first: of a collection or of all, of a period or of all time.

        ``since`` is a time, or how long before ``until`` or now; what sums up a period takes 28 days (``rising_items``
        14) without it. Raises ``NotFoundError`` for an unknown view or collection, and ``InvalidRequestError`` for a
        time without a time zone or a limit below 1.
        """
        from retrieval.adapters.store.records.analytics import analytics_rows
        from retrieval.domain.records.analytics import ViewQuestion

        if collection is not None:
            await self.collection(collection, create=False)
        where = ViewQuestion(collection=collection, since=since, until=until, limit=limit)
        return await analytics_rows(self.database, self._tenant_id, view, where)

    def _handle(self, stored: StoredCollection) -> Collection:
        def embedder_of(space: StoredSpace | None) -> CachedEmbedder | None:
            return self._embedders.of(space, self.database, self._tenant_id)

        return Collection(
            self.database,
            self._tenant_id,
            stored,
            embedder_of(stored.space),
            clock=self._clock,
            wall_clock=self._wall_clock,
            chance=self._chance,
            sampler=self._sampler,
            recorder=self._recorder,
            accesses=self._accesses,
            decider=self._decider,
            workplace=self.workplace,
            rewrites_days=self.settings.rewrites_ttl_days,
            calls=self._calls,
            observer=self.observer,
            embedders=embedder_of,
            bounds=self.settings.search_bounds,
        )

    async def _unknown(self, name: str) -> UnknownCollectionError:
        known = [one.name for one in await all_collections(self.database, self._tenant_id)]
        there_are = f"there are: {', '.join(known[:20])}" if known else "there is none yet"
        return UnknownCollectionError(
            f"there is no collection {name!r}; {there_are}; make it with: retrieval ingest {name} FILE"
        )

    async def _make(
        self, name: str, language: str, profile: Profile, space: StoredSpace | None, neighbours: Neighbours | None
    ) -> None:
        async with self.database.transaction(self._tenant_id) as connection:
            whose = (connection, self._tenant_id, name)
            number = space.space_id if space else None
            await create_collection(*whose, language=language, profile=profile, space_id=number, neighbours=neighbours)

    async def _give_space(self, stored: StoredCollection, space: StoredSpace) -> None:
        """A collection that was made without an embedder gets the one that is configured now."""
        from retrieval.engine.plan import default_profile

        async with self.database.transaction(self._tenant_id) as connection:
            await set_space(connection, stored.collection_id, space.space_id)
            if stored.profile == default_profile(None):
                note = f"the default of {space.space.name}"
                await add_profile(connection, stored.collection_id, default_profile(space.space), note)

    async def _space(self, wanted: EmbeddingSpace | None) -> StoredSpace | None:
        """The space asked for, or the configured embedder's; None where neither is."""
        if wanted is not None:
            return await register_space(self.database, wanted)
        embedder = self._embedders.for_new()
        return None if embedder is None else await register_space(self.database, embedder.space)

    def _embedder_of_tenant(self, tenant_id: int, space: StoredSpace) -> CachedEmbedder | None:
        """The embedder of a space, for whichever tenant: each has a cache of its own."""
        return self._embedders.of(space, self.database, tenant_id, keep=tenant_id == self._tenant_id)

    async def _ensure_months(self) -> None:
        """Let the searches to come fall into months; where there is no worker nobody else would make them."""
        try:
            await ensure_months(self.database)
        except DatabaseError as error:
            _log.warning("the months of recorded searches were not made: %s; retrieval jobs run months", error)

    def of_tenant(self, tenant: str) -> Platform:
        """Another tenant's view of the same installation, on the same connections, embedders and language model.

        It is opened with ``async with``, after this one and closed before it.
        """
        other = copy(self)
        other.settings = self.settings.changed(tenant=tenant)
        other._host = self  # noqa: SLF001 - another of the same class
        other._database, other._stack = None, AsyncExitStack()  # noqa: SLF001 - the same
        return other

    async def _opened(self, stack: AsyncExitStack) -> Database:
        """The database, opened; the stack closes it, and the models that are used with it."""
        database = await open_database(self.settings, stack)
        stack.push_async_callback(self._embedders.aclose)
        stack.push_async_callback(self._llm.aclose)
        return database


def connect(
    url: str | None = None,
    *,
    tenant: str | None = None,
    settings: Settings | None = None,
    embedder: Embedder | None = None,
    llm: LLM | None = None,
) -> Platform:
    """The platform, to be opened with ``async with``, or by ``open``.

    Without a URL: ``RETRIEVAL_DATABASE_URL``, else an embedded PostgreSQL. ``tenant`` is whose data is seen.
    ``embedder`` and ``llm`` replace the configured ones and stay the caller's to close. Raises ``InvalidRequestError``
    for an embedder that is a text, and for values or settings of the environment that cannot be used.
    """
    if isinstance(embedder, str):
        raise InvalidRequestError(
            f"embedder is the text {embedder!r:.40}; give an embedder, or name one by RETRIEVAL_EMBEDDER or "
            f"settings=Settings(embedder={embedder!r:.40})"
        )
    given = {"database_url": url, "tenant": tenant}
    try:
        chosen = settings or Settings()
        if changes := {name: value for name, value in given.items() if value is not None}:
            chosen = chosen.changed(**changes)
    except ValidationError as error:
        raise InvalidRequestError(refused(error, {"database_url": "url", "tenant": "tenant"})) from None
    return Platform(chosen, embedder=embedder, llm=llm)


async def open(  # noqa: A001 - what users call it, as they call retrieval.open()
    url: str | None = None,
    *,
    tenant: str | None = None,
    settings: Settings | None = None,
    embedder: Embedder | None = None,
    llm: LLM | None = None,
) -> Platform:
    """The platform, open, for notebooks and applications that go on: ``platform = await retrieval.open()``.

    The arguments are those of ``connect``. ``await platform.close()`` ends it.
    """
    return await connect(url, tenant=tenant, settings=settings, embedder=embedder, llm=llm).open()
