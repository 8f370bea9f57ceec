"""The composition root: settings become a database, an embedder and collections."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import secrets
import time
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from copy import copy
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn, Self
from uuid import UUID

from retrieval.adapters.clock import Clock, moment
from retrieval.adapters.embedders.cached import CachedEmbedder
from retrieval.adapters.embedders.chosen import ChosenEmbedders
from retrieval.adapters.endpoints.breaker import Outage
from retrieval.adapters.files import checked_path
from retrieval.adapters.llms.choice import ChosenLLM
from retrieval.adapters.rerankers import ChosenReranker
from retrieval.adapters.store.database import CollectionPlace, Database
from retrieval.adapters.store.installation.opening import ensure_tenant, open_database
from retrieval.adapters.store.installation.queue import FAILED
from retrieval.adapters.store.items.collection_facts import collection_statuses
from retrieval.adapters.store.items.collections import all_collections, find_collection, set_index_kind
from retrieval.adapters.store.items.items import Settled
from retrieval.adapters.store.records.forgetting import ensure_months, pseudonymise
from retrieval.adapters.store.replicas import token_of
from retrieval.adapters.store.search.vectors import StoredSpace, register_space
from retrieval.collection import Collection, handle_of
from retrieval.domain.checks import check_functions, checked_choice, checks_argument_names, checks_arguments, written
from retrieval.domain.errors import PLATFORM_CLOSED, ConflictError, DatabaseError, InvalidRequestError, RetrievalError
from retrieval.domain.items.attribute import checked_filterable
from retrieval.domain.items.collection import IndexKind, check_collection_name, checked_neighbours
from retrieval.domain.items.embedding import Embedder, EmbeddingSpace
from retrieval.domain.json_schema import AttributeSchema
from retrieval.domain.lazy import LazyModule
from retrieval.domain.learning.context import Context
from retrieval.domain.learning.feedback import RATING, Feedback, FeedbackReport, outcome_events
from retrieval.domain.llm import LLM
from retrieval.domain.observer import Observer
from retrieval.domain.records.analytics import ViewQuestion
from retrieval.domain.search.profile import Profile
from retrieval.domain.search.reranking import Reranker
from retrieval.engine.accesses import AccessCounter
from retrieval.engine.collection_handle import CollectionHandle, SharedServices
from retrieval.engine.decide import Decider
from retrieval.engine.feedback import checked_events, quarantine, take_feedback, timed
from retrieval.engine.recorder import Recorder, RecordingState, Sampler
from retrieval.engine.request import check_profile
from retrieval.engine.shared_calls import RewriteCache, SharedCalls
from retrieval.services.collections import find, find_or_make, remove_collection, split
from retrieval.services.workplace import JobTarget, Workplace
from retrieval.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from retrieval.adapters.store.installation import access
    from retrieval.adapters.store.items.collection_facts import CollectionStatus
    from retrieval.adapters.store.items.collections import StoredCollection
    from retrieval.adapters.store.records import analytics
    from retrieval.adapters.store.records.forgetting import Pseudonymised
    from retrieval.domain.api_key import ApiKey, NewApiKey
    from retrieval.domain.diagnosis import Diagnosis
    from retrieval.domain.items.collection import CollectionInfo, Neighbours
    from retrieval.domain.records.analytics import AnalyticsTable, AnalyticsView
    from retrieval.domain.records.recorded import RecordedRetrieval
    from retrieval.engine.replay import Replay
    from retrieval.jobs import registry
    from retrieval.jobs import run as job_runs
    from retrieval.services import add as adding
    from retrieval.services import items as writing
    from retrieval.services import keys, reembed, replay, transfer
    from retrieval.services.doctor import diagnose
    from retrieval.services.reembed import Reembedding, ReembeddingCost
    from retrieval.services.transfer import Advanced, Moved
else:
    access = LazyModule("retrieval.adapters.store.installation.access")
    analytics = LazyModule("retrieval.adapters.store.records.analytics")
    registry, job_runs = LazyModule("retrieval.jobs.registry"), LazyModule("retrieval.jobs.run")
    adding, diagnose, keys, reembed, replay, transfer, writing = (
        LazyModule(f"retrieval.services.{name}")
        for name in ("add", "doctor.diagnose", "keys", "reembed", "replay", "transfer", "items")
    )

_log = logging.getLogger(__name__)

SWITCH_SECONDS = 600.0
"""Time that a call waits for another process that is switching a collection to another embedding space."""

_NOT_OPEN = "the platform is not open; use: async with connect() as platform, or: platform = await retrieval.open()"

_ASYNCHRONOUS = (
    "this platform is asynchronous: write async with retrieval.connect() as platform; or, without async, "
    "from retrieval.sync import connect and: with connect() as platform"
)


@checks_arguments
class Platform:
    """One tenant's view of one installation. Use ``connect`` as an async context manager, or ``retrieval.open``.

    Tests and applications can pass their own models, clocks and random generator; by default they are created from the
    settings.
    """

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
        self.settings = settings
        self.observer: Observer | None = None
        """Observes searches and feedback; to be set before the platform is opened."""
        self._host: Platform | None = None
        self._chance = chance or random.Random()  # noqa: S311 - it samples and explores, and keeps no secret
        self._shared: SharedServices | None = None
        self._clock = clock
        self._wall_clock = wall_clock
        self._embedders = ChosenEmbedders(settings, embedder)
        self._llm = ChosenLLM(settings, llm)
        self._reranker = ChosenReranker(settings, self._llm, reranker)
        self._stack = AsyncExitStack()
        self._database: Database | None = None
        self._is_open = False
        self._tenant_id = 0

    # Opening and closing.

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __enter__(self) -> NoReturn:
        raise InvalidRequestError(_ASYNCHRONOUS)

    def __exit__(self, *_: object) -> None:
        """Do nothing; ``with`` looks it up before it calls ``__enter__``."""

    async def open(self) -> Self:
        """Open the platform, as ``async with`` does, and return it; ``close`` closes it.

        Raises ``InvalidRequestError`` if it is open already, and the database's errors.
        """
        if self._is_open:
            raise InvalidRequestError("the platform is open already; call connect() for a second one")
        self._is_open = True  # at once, for a second call that comes before the database is open
        async with AsyncExitStack() as stack:
            stack.callback(self._forget_database)
            if self._host is None:
                self._database = await open_database(self.settings, stack)
                for models in (self._embedders, self._llm, self._reranker):
                    stack.push_async_callback(models.aclose)
                await self._reranker.load()
            else:
                self._database = self._host.database
            calls = SharedCalls(self._llm.guards)
            stack.push_async_callback(calls.aclose)
            self._tenant_id = await ensure_tenant(self._database, self.settings.tenant)
            if self._host is None:
                await self._ensure_months()
            else:
                stack.callback(self._embedders.forget, self._tenant_id)
            self._shared = self._make_services(self._database, calls)
            # The recorder closes first: it waits for calls in progress, which have samples and accesses too.
            for service in (self._shared.accesses, self._shared.sampler, self._shared.recorder):
                stack.push_async_callback(service.aclose)
            self._stack = stack.pop_all()
        return self

    async def close(self) -> None:
        """Wait a few seconds for calls in progress, store the records, and close the connections.

        A second call does nothing.
        """
        if self._database is not None:
            self._database.check_loop()
        await self._stack.pop_all().aclose()

    def of_tenant(self, tenant: str) -> Platform:
        """Another tenant's view of the same installation, on the same connections and models.

        Open it with ``async with``, after this platform, and close it before.
        """
        other = copy(self)
        other.settings = self.settings.changed(tenant=tenant)
        other._host = self  # noqa: SLF001 - another of the same class
        other._forget_database()  # noqa: SLF001 - the same
        other._shared, other._stack = None, AsyncExitStack()  # noqa: SLF001 - the same
        return other

    # Collections.

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
        schema: Mapping[str, Any] | None = None,
        index: str | None = None,
    ) -> Collection:
        """The tenant's collection of that name; created if missing, with its profile and embedding space.

        ``language`` (a text search configuration of PostgreSQL), ``profile``, ``space`` and ``neighbours`` (see
        ``Collection.set_neighbours``) apply when it is created; ``space`` is for your own vectors, otherwise it is the
        configured embedder's. ``schema`` is a JSON Schema of the attributes: an item that violates it is invalid. It
        is set when the collection is created; a different one later raises ``ConflictError``. ``filterable`` is as for
        ``Collection.make_filterable``, and adds new declarations. ``index`` is the kind of the HNSW index: ``full``,
        ``quantised`` (one bit a dimension) or ``auto``, the default of new collections; for an existing collection, the
        job ``indexes`` or the next write replaces its index. With ``create=False`` a missing collection raises
        ``UnknownCollectionError``.
        """
        check_collection_name(name)
        if profile is not None:
            check_profile(profile)
        if space is not None and not isinstance(space, EmbeddingSpace):
            raise InvalidRequestError(f"space is {written(space)}; it must be a retrieval.EmbeddingSpace")
        checked_filterable({} if filterable is None else filterable)
        checked_neighbours(neighbours)
        kind = None if index is None else checked_choice("index", index, IndexKind)
        attribute_schema = AttributeSchema.checked(schema)
        tenant = (self.database, self._tenant_id)
        if create:
            stored = await find_or_make(
                *tenant,
                name,
                lambda: self._new_space(space),
                language=language,
                profile=profile,
                neighbours=neighbours,
                schema=attribute_schema,
                index_kind=kind or IndexKind.AUTO,
            )
        else:
            stored = await find(*tenant, name)
        if attribute_schema is not None and stored.schema != attribute_schema:
            raise ConflictError(
                f"collection {written(name)} was made with {'another' if stored.schema else 'no'} schema, which stays; "
                "leave the schema out, or make another collection"
            )
        collection = self._collection(stored)
        if filterable:
            await collection.make_filterable(filterable)
        if kind is not None and stored.index_kind is not kind:
            await set_index_kind(CollectionPlace(self.database, self._tenant_id, stored.collection_id), kind)
            await collection.refresh()
        return collection

    async def collections(self) -> list[Collection]:
        """The tenant's collections, by name."""
        stored = await all_collections(self.database, self._tenant_id)
        return [self._collection(collection) for collection in stored]

    async def remove_collection(self, name: str) -> bool:
        """Remove the tenant's collection of that name with all its data; return whether it existed.

        Its items with their vectors, terms and indexes are removed, and its profiles, models, recorded searches and
        feedback; the tenant's cache of vectors stays. It is removed in parts: after an interruption the same call
        continues. It cannot be undone.
        """
        check_collection_name(name)
        stored = await find_collection(self.database, self._tenant_id, name)
        if stored is None:
            return False
        await self.recorded()
        return await remove_collection(CollectionPlace(self.database, self._tenant_id, stored.collection_id))

    async def delete_collection(self, name: str) -> bool:
        """Do the same as ``remove_collection``."""
        return await self.remove_collection(name)

    async def export_collection(
        self, name: str, file: str | Path, *, records: bool = True, advance: Advanced | None = None
    ) -> Moved:
        """Write a consistent state of a collection into a new file that ``import_collection`` reads.

        The file has lines of JSON, compressed if its name ends with ``.gz``: items with their vectors, memories,
        profiles, and with ``records`` its searches, feedback and learned models; a copy for the same tenant is exported
        without, because a tenant records a search only once. ``advance`` is called with the numbers of finished and of
        all rows. Raises ``UnknownCollectionError``, ``ConflictError`` for an existing file, and ``InvalidRequestError``
        for a file that cannot be written.
        """
        check_functions(advance=advance)
        collection = await self.collection(name, create=False)
        await self.recorded()
        await self.accesses_counted()
        stored = await collection.refresh()
        has_embedder = stored.space is not None and self._has_embedder(stored.space)
        in_collection, target = (self.database, self._tenant_id, stored), checked_path(file)
        return await transfer.export_collection(
            *in_collection, target, records=records, now=self.now, has_embedder=has_embedder, advance=advance
        )

    async def import_collection(
        self,
        file: str | Path,
        *,
        name: str | None = None,
        own_vectors: bool = False,
        advance: Advanced | None = None,
    ) -> Moved:
        """Create a collection from a file that any tenant or machine exported: all of it, or nothing.

        Nothing is embedded: the file has the vectors, ids, times and versions. ``name``: by default the exported name.
        ``own_vectors``: its vectors need no embedder here, because it is searched by vectors. Raises ``ConflictError``
        for an existing collection, or a search that the tenant already recorded, and ``InvalidRequestError`` for a
        file of another format, an incomplete file, or vectors of an embedder that is not configured.
        """
        check_functions(advance=advance)
        if name is not None:
            check_collection_name(name)
        tenant = (self.database, self._tenant_id)
        moved = await transfer.import_collection(
            *tenant,
            checked_path(file),
            name=name,
            has_embedder=self._has_embedder,
            own_vectors=own_vectors,
            advance=advance,
        )
        if moved.has_records:
            await self._ensure_months()
        collection = await self.collection(moved.collection, create=False)
        await writing.keep_indexed(handle_of(collection), adding.AddReport(added=moved.items, settled=Settled()))
        return moved

    # Feedback.

    async def feedback(
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
        new: bool = False,
    ) -> FeedbackReport:
        """Record a verdict on an item that a search showed, or on an item of a ``collection`` in a ``context``.

        Give ``helpful`` or ``reward`` (0 to 1); ``Feedback`` describes the rest. A repeated call counts once, unless it
        is ``new`` (see ``feedback_each``), and a later verdict of the same kind and actor replaces the earlier one, in
        any order of arrival. Raises ``UnknownRetrievalError``, ``UnknownCollectionError``, ``UnknownItemError`` and
        ``InvalidRequestError``.
        """
        event = Feedback(
            retrieval_id=retrieval_id, item_id=item_id, collection=collection, context=context, helpful=helpful,
            reward=math.nan if reward is None else reward, kind=kind, actor=actor, session=session, note=note, at=at,
            weight=weight, key=key,
        )  # fmt: skip
        return await self.feedback_each([event], new=new)

    async def feedback_each(
        self,
        events: Iterable[Feedback],
        *,
        api_key: ApiKey | None = None,
        new: bool = False,
        call_key: UUID | None = None,
    ) -> FeedbackReport:
        """Store at most 10,000 events of feedback in one statement: all of them, or none if one is refused.

        ``api_key``: the API key of the events, whose cap and rules about actors apply. ``new``: each event without a
        time gets the present one, so that a verdict that was changed back is not taken for a retry of the first; then a
        retry of the call is not recognised either. ``call_key`` identifies the call: repeated with it after an error,
        events with neither key, actor nor session count once too. Raises what ``feedback`` raises, for the first
        refused event.
        """
        valid_events = timed(checked_events(events), self.now) if new else checked_events(events)
        if any(event.retrieval_id is not None for event in valid_events):
            await self.recorded()
        tenant = (self.database, self._tenant_id)
        return await take_feedback(
            *tenant, valid_events, self.now, key=api_key, call_key=call_key, observer=self.observer
        )

    async def outcome(
        self,
        retrieval_id: UUID | str,
        used: Iterable[str],
        *,
        reward: float,
        actor: str = "",
        note: str = "",
        at: datetime | None = None,
    ) -> FeedbackReport:
        """Record the outcome of a task: the items that it used share one event's weight, under the kind ``outcome``."""
        events = outcome_events(retrieval_id, used, reward=reward, actor=actor, note=note, at=at)
        return await self.feedback_each(events)

    async def quarantine(self, actor: str, *, reason: str = "") -> int:
        """Exclude an actor's past and future feedback; return the number of events that no longer count."""
        return await quarantine(self.database, self._tenant_id, actor, reason, is_held=True)

    async def release(self, actor: str) -> int:
        """Include an actor's feedback again, with its former weights; return the number of events that count again."""
        return await quarantine(self.database, self._tenant_id, actor, is_held=False)

    # Records and figures.

    async def recorded(self) -> None:
        """Wait until every search so far is recorded, or counted as lost.

        Raises ``DatabaseError`` if the database is not available; the searches then continue to wait.
        """
        await self._open_services.recorder.recorded()

    async def accesses_counted(self) -> None:
        """Wait until every retrieval of memories so far is in their access counts.

        Raises ``DatabaseError`` if the database is not available; the counts then continue to wait.
        """
        await self._open_services.accesses.flush()

    async def retrieval(self, retrieval_id: UUID | str, collection: str | None = None) -> RecordedRetrieval:
        """A recorded search: its request, its context, its answer, and the shown items.

        With a ``collection``, only one of its searches. Raises ``UnknownRetrievalError`` for a missing record, and
        ``InvalidRequestError`` for an invalid identifier.
        """
        await self.recorded()
        return await replay.read_retrieval(self.database, self._tenant_id, retrieval_id, collection)

    async def replay(self, retrieval_id: UUID | str | None, collection: str | None = None) -> Replay:
        """Return whether a recorded ranking follows from its record, and how today's answer differs, hit by hit.

        With a ``collection``, only one of its searches. The search runs again, and is not recorded. Raises
        ``UnknownRetrievalError`` for a missing record, and ``InvalidRequestError`` for an invalid identifier.
        """
        await self.recorded()
        return await replay.replay(self.workplace, self._tenant_id, retrieval_id, collection)

    async def pseudonymise(self, actor: str) -> Pseudonymised:
        """Replace an actor's name in all recorded searches and feedback by a random pseudonym; remove its sessions.

        Raises ``InvalidRequestError`` for a name that no actor can have.
        """
        if not Context(actor=actor).actor:
            raise InvalidRequestError("give the actor's name that the searches or the feedback were recorded with")
        await self.recorded()
        return await pseudonymise(self.database, self._tenant_id, actor, f"pseudonym-{secrets.token_hex(16)}")

    async def write_token(self) -> str:
        """A token for all writes so far, by any writer: a search with it (``after_write``) sees them all.

        Only searches that read from replicas need it; see ``docs/how-to/replicas.md``.
        """
        return await token_of(self.database)

    async def analytics_views(self) -> list[AnalyticsView]:
        """The available figures, by name, each with its columns."""
        return await analytics.analytics_views(self.database, self._tenant_id)

    async def analytics(
        self,
        view: str,
        *,
        collection: str | None = None,
        since: datetime | timedelta | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> AnalyticsTable:
        """The rows of a view of figures, the most important first, for one or all collections, a period or all time.

        ``since`` is a time, or a duration before ``until`` or now; figures of a period use 28 days (``rising_items``
        14) without it. Raises ``NotFoundError`` for an unknown view or collection, and ``InvalidRequestError`` for a
        time without a time zone, a duration that begins before the year 1, or a limit below 1.
        """
        if collection is not None:
            await self.collection(collection, create=False)
        where = ViewQuestion(collection=collection, since=since, until=until, limit=limit)
        return await analytics.analytics_rows(self.database, self._tenant_id, view, where, self.now)

    # API keys.

    async def create_key(
        self,
        name: str,
        *,
        scopes: Iterable[str] = ("read",),
        requests_per_minute: int | None = None,
        feedback_cap: int | None = None,
        expires_at: datetime | None = None,
    ) -> NewApiKey:
        """Create a key for programs over HTTP, as this tenant; only this call returns its ``text``.

        ``name`` describes its purpose. ``scopes`` are of ``read``, ``write``, ``feedback``, ``admin`` (all of them).
        ``requests_per_minute`` is 1 to 1,000,000; None: the service's limit for each key. ``feedback_cap`` is the
        number of its events on one item that count in a day (UTC), 1 to 1,000,000; None: 100 for a key with only the
        scope ``feedback``, 1,000 for any other. ``expires_at`` has a time zone; None: it is valid until it is revoked.
        Raises ``InvalidRequestError``.
        """
        return await keys.create_key(
            self.database,
            self._tenant_id,
            self.settings.tenant,
            name,
            scopes=scopes,
            requests_per_minute=requests_per_minute,
            feedback_cap=feedback_cap,
            expires_at=expires_at,
            now=self.now,
        )

    async def keys(self) -> list[ApiKey]:
        """The tenant's keys, without their secrets; the oldest first, including revoked and expired ones."""
        return await access.keys_of(self.database, self._tenant_id, self.settings.tenant)

    async def revoke_key(self, key_id: str) -> ApiKey:
        """Revoke a key permanently; a service notices it within 5 seconds.

        ``key_id`` is the key's id, or its whole text. Raises ``UnknownKeyError``, also for another tenant's.
        """
        return await keys.revoke_key(self.database, self._tenant_id, self.settings.tenant, key_id, self.now)

    # Upkeep.

    async def statistics(self) -> list[CollectionStatus]:
        """The state of each of the tenant's collections: items, pending vectors, jobs, recall, lost records."""
        stored = await all_collections(self.database, self._tenant_id)
        return await collection_statuses(self.database, self._tenant_id, stored)

    async def doctor(self, collection: str | None = None, *, deep: bool = False) -> Diagnosis:
        """Examine the server, the installation, and all collections of the tenant or only that one; change nothing.

        With ``deep`` every derived row of the collections is compared with its source: words, weights, statistics,
        values of filters, vectors, records, arms. Each finding has a severity and a remedy. Raises
        ``UnknownCollectionError``, and ``DatabaseUnreachableError`` without a database.
        """
        if collection is not None:
            await self.collection(collection, create=False)
        return await diagnose.diagnose(self.workplace, self._tenant_id, collection, is_deep=deep)

    async def split(self, collection: str, parts: int) -> CollectionInfo:
        """Divide the index of a collection's vectors into parts, 1 to 64; an item's part is a hash of its id.

        Each part is built separately, so that the build of a large collection fits into memory; a search walks all
        parts at once, with the same hits and scores. Searches and writes continue, with the former index until the new
        one is complete. After an interruption, the same call or the job ``indexes`` continues with the unfinished part.
        A collection that is too small for an index is split once it has one. Returns ``Collection.info`` afterwards: if
        ``index_parts`` is not ``parts``, the login does not own the tables, and the owner's job builds them. Raises
        ``UnknownCollectionError`` and ``InvalidRequestError``, the latter also without vectors.
        """
        return await split(handle_of(await self.collection(collection, create=False)), parts)

    async def reembed_cost(
        self,
        collection: str,
        *,
        to: EmbeddingSpace | str | None = None,
        price: float | None = None,
        tokens_a_minute: int | None = None,
        tokens_a_day: int | None = None,
    ) -> ReembeddingCost:
        """The cost of moving a collection to another embedding space, before it starts; no embedder is called.

        ``price``: of a million tokens. The other arguments and the errors are those of ``reembed``.
        """
        pace = reembed.Pace(tokens_a_minute=tokens_a_minute, tokens_a_day=tokens_a_day)
        return await reembed.cost_of(
            self.workplace, await self._job_target(collection), await self._space_for(to), pace, price
        )

    async def reembed(
        self,
        collection: str,
        *,
        to: EmbeddingSpace | str | None = None,
        switch: bool = False,
        batch_texts: int = 128,
        tokens_a_minute: int | None = None,
        tokens_a_day: int | None = None,
        keep_days: float = 7.0,
    ) -> Reembedding:
        """Start moving a collection to another embedding space; a worker moves it, or ``reembedding(name, "run")``.

        ``to`` is a space, or an embedder as ``RETRIEVAL_EMBEDDER`` names it; None: that of new collections. Searches,
        writes and removals continue. The job embeds every text once, ``batch_texts`` (1 to 128) at a time, at most
        ``tokens_a_minute`` and ``tokens_a_day``, builds the index, and compares the spaces on recorded questions. Then
        it waits for ``"switch"``; with ``switch`` it switches automatically if the target compares well. The former
        space stays for ``keep_days``. Raises ``InvalidRequestError``, also if this process has no embedder for the
        space, or another re-embedding is in progress.
        """
        pace = reembed.Pace(
            batch_texts=batch_texts, tokens_a_minute=tokens_a_minute, tokens_a_day=tokens_a_day, keep_days=keep_days
        )
        target = await self._job_target(collection)
        await reembed.begin(self.workplace, target, await self._space_for(to), pace, switches=switch)
        return await self.reembedding(collection)

    async def reembedding(self, collection: str, do: str = "status", *, wait: bool = True) -> Reembedding:
        """Return the state of a collection's re-embedding, after carrying out ``do`` if it is given.

        ``run`` does a worker's part in this process; ``pause`` and ``resume`` stop and continue it; ``switch`` makes
        every process search the target space; ``rollback`` returns to the former space at once; ``finish`` removes the
        former space now; ``abort`` ends it before the switch. ``wait``: switch in this process, or wait for the one
        that does, and embed what a rollback finds without a vector; without it, a worker does. Raises
        ``InvalidRequestError`` for an action that is too early or too late, and ``NotFoundError`` for a collection
        without a re-embedding.
        """
        target = await self._job_target(collection)
        if do not in {"status", "run"}:
            await reembed.change(self.workplace, target, do)
        if do == "rollback" and wait:  # items written since the switch may wait in the former space
            await job_runs.run_job(self.workplace, registry.job_named("embed"), await self._job_target(collection))
        if do == "run" or (do == "switch" and wait):
            report = await job_runs.run_job(self.workplace, registry.job_named("reembed"), target)
            if report.outcome == FAILED:
                raise RetrievalError(f"the re-embedding of {collection!r} failed: {report.details.get('error', '')}")
            if report.outcome == job_runs.ELSEWHERE and do == "switch":
                await reembed.wait_for_switch(self.workplace, target, SWITCH_SECONDS)
        return await reembed.look_at(self.workplace, target)

    @property
    def outages(self) -> list[Outage]:
        """The embedders, language models and rerankers that searches skip now because they do not answer.

        All tenants of the platform share them. Each is tried again after a while: see ``docs/how-to/embedders.md``.
        """
        services = (self._embedders, self._llm, self._reranker)
        return [outage for service in services for outage in service.guards.outages]

    async def try_embedder(self) -> bool:
        """Request one vector from the embedder of new collections, as a search does; False: there is no embedder.

        Raises ``ConfigurationError``, and ``EmbedderError`` if it returns none within the time that a search waits.
        """
        return await self._embedders.try_out()

    @property
    def recording(self) -> RecordingState:
        """The numbers of searches recorded since the platform was opened, still waiting, and lost."""
        return self._open_services.recorder.state

    # Services.

    @property
    def database(self) -> Database:
        """The open database. Raises ``InvalidRequestError`` before the platform is opened and after it is closed."""
        if self._database is None:
            raise InvalidRequestError(_NOT_OPEN if self._shared is None else PLATFORM_CLOSED)
        return self._database

    @property
    def tenant_id(self) -> int:
        """The tenant's number in the database."""
        return self._tenant_id

    @property
    def llm(self) -> LLM | None:
        """The language model of ``connect``, else the configured one, else None. Raises ``ConfigurationError``."""
        return self._llm.get()

    @property
    def reranker(self) -> Reranker | None:
        """The reranker of ``connect``, else the configured one, else None. Raises ``ConfigurationError``."""
        return self._reranker.get()

    @property
    def embedder(self) -> Embedder | None:
        """The embedder of new collections: that of ``connect``, else the configured one, else None.

        Raises ``ConfigurationError``, also until ``try_embedder`` or a new collection has determined its dimensions.
        """
        return self._embedders.for_new()

    @property
    def now(self) -> datetime:
        """The time of day, in UTC."""
        return moment(self._wall_clock())

    @property
    def workplace(self) -> Workplace:
        """The database, settings, embedders and clock of jobs: see ``retrieval.jobs``."""
        return Workplace(self.database, self.settings, self._embedder_of_tenant, now=lambda: self.now)

    @property
    def _open_services(self) -> SharedServices:
        if self._shared is None:
            raise InvalidRequestError(_NOT_OPEN)
        return self._shared

    def _has_embedder(self, space: StoredSpace) -> bool:
        return self._embedders.of(space, self.database, self._tenant_id, keep=False) is not None

    def _make_services(self, database: Database, calls: SharedCalls) -> SharedServices:
        tenant, settings = (database, self._tenant_id), self.settings
        return SharedServices(
            database=database,
            tenant_id=self._tenant_id,
            embedders=lambda space: self._embedders.of(space, *tenant),
            decider=Decider(*tenant),
            llm_calls=calls,
            rewrites=RewriteCache(
                database=database,
                tenant_id=self._tenant_id,
                wall_clock=self._wall_clock,
                days=settings.rewrites_ttl_days,
            ),
            reranker=self._reranker,
            bounds=settings.search_bounds,
            clock=self._clock,
            wall_clock=self._wall_clock,
            chance=self._chance,
            sampler=Sampler(*tenant, settings.recall_sample_rate, self._chance),
            recorder=Recorder(*tenant, observer=self.observer),
            accesses=AccessCounter(*tenant),
            observer=self.observer,
        )

    def _collection(self, stored: StoredCollection) -> Collection:
        return Collection(CollectionHandle(self._open_services, stored), self.workplace)

    async def _job_target(self, name: str) -> JobTarget:
        check_collection_name(name)
        return JobTarget(self._tenant_id, await find(self.database, self._tenant_id, name))

    async def _space_for(self, to: EmbeddingSpace | str | None) -> StoredSpace:
        """The named space. Raises ``InvalidRequestError``, ``ConfigurationError`` and ``EmbedderError``."""
        if isinstance(to, EmbeddingSpace):
            return await register_space(self.database, to)
        if to is not None and not isinstance(to, str):
            raise InvalidRequestError(f"to is {written(to)}; it must be an EmbeddingSpace, or an embedder's name")
        embedder = await self._embedders.load_for_new() if to is None else await self._embedders.load(to)
        if embedder is None:
            named = "no embedder is configured" if to is None else f"{written(to)} makes no vectors"
            raise InvalidRequestError(f"{named}; name the new space's embedder, such as minilm or ollama:bge-m3")
        return await register_space(self.database, embedder.space)

    async def _new_space(self, space: EmbeddingSpace | None) -> EmbeddingSpace | None:
        embedder = None if space else await self._embedders.load_for_new()
        return space if embedder is None else embedder.space

    def _embedder_of_tenant(self, tenant_id: int, space: StoredSpace) -> CachedEmbedder | None:
        """The embedder of a space for any tenant; each tenant has its own cache."""
        return self._embedders.of(space, self.database, tenant_id, keep=tenant_id == self._tenant_id)

    async def _ensure_months(self) -> None:
        """Create the partitions of the coming months: without a worker, nothing else does."""
        try:
            await ensure_months(self.database)
        except DatabaseError as error:
            _log.warning(
                "the monthly partitions of recorded searches were not created: %s; the job months creates them",
                error,
            )

    def _forget_database(self) -> None:
        self._database, self._is_open = None, False


def checked_platform(name: str, value: object) -> Platform:
    """The platform. Raises ``InvalidRequestError`` for anything else."""
    if not isinstance(value, Platform):
        raise InvalidRequestError(f"{name} is {written(value)}; give an open platform, as `async with connect()` gives")
    return value


def loop_of(platform: Platform) -> asyncio.AbstractEventLoop | None:
    """The event loop that the platform was opened in and that runs its calls; None while it is not open."""
    database = platform._database  # noqa: SLF001 - of this module's class
    return None if database is None else database.loop


@checks_argument_names
def connect(
    url: str | None = None,
    *,
    tenant: str | None = None,
    settings: Settings | None = None,
    embedder: Embedder | None = None,
    llm: LLM | None = None,
    reranker: Reranker | None = None,
) -> Platform:
    """A platform; open it with ``async with``, or by ``open``.

    Without a URL: ``RETRIEVAL_DATABASE_URL``, else an embedded PostgreSQL. ``tenant``: the tenant whose data it reads
    and writes. ``embedder``, ``llm`` and ``reranker`` replace the configured ones; the caller closes them. Raises
    ``InvalidRequestError`` for an embedder that is a text, and for invalid values, also in the environment.
    """
    if isinstance(embedder, str):
        raise InvalidRequestError(
            f"embedder is the text {written(embedder, 40)}; give an embedder, or name one by RETRIEVAL_EMBEDDER or "
            f"settings=Settings(embedder={written(embedder, 40)})"
        )
    if embedder is not None and not isinstance(getattr(embedder, "space", None), EmbeddingSpace):
        raise InvalidRequestError(f"embedder is {written(embedder)}; give an embedder, or set RETRIEVAL_EMBEDDER")
    if settings is not None and not isinstance(settings, Settings):
        raise InvalidRequestError(f"settings is a {type(settings).__name__}; give a Settings, such as Settings()")
    overrides = {"database_url": url, "tenant": tenant}
    chosen = settings or Settings()
    if changes := {name: value for name, value in overrides.items() if value is not None}:
        chosen = chosen.changed(**changes)
    return Platform(chosen, embedder=embedder, llm=llm, reranker=reranker)


@checks_argument_names
async def open(  # noqa: A001 - the public name is retrieval.open()
    url: str | None = None,
    *,
    tenant: str | None = None,
    settings: Settings | None = None,
    embedder: Embedder | None = None,
    llm: LLM | None = None,
    reranker: Reranker | None = None,
) -> Platform:
    """An open platform, for notebooks and long-running applications: ``platform = await retrieval.open()``.

    The arguments are those of ``connect``. ``await platform.close()`` closes it.
    """
    platform = connect(url, tenant=tenant, settings=settings, embedder=embedder, llm=llm, reranker=reranker)
    return await platform.open()
