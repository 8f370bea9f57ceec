"""A collection as one process holds it: what was last read of it, and the parts that its calls work with."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import UTC, datetime
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from retrieval.adapters.aside import LONG, MANY_CONDITIONS, aside
from retrieval.adapters.embedders.cached import CachedEmbedder
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items.collections import StoredCollection, find_collection
from retrieval.adapters.store.search.vectors import StoredSpace
from retrieval.domain.errors import (
    DatabaseError,
    MissingPrivilegeError,
    UnknownCollectionError,
    UnknownFieldError,
)
from retrieval.domain.search.filters import Extent, Filter, Where, mapping_extent, parse_where
from retrieval.domain.search.profile import LegName, Profile
from retrieval.domain.search.query import DEFAULT_BOUNDS, SearchBounds
from retrieval.engine.decide import Decider
from retrieval.engine.models import Models
from retrieval.engine.recorder import Recorder
from retrieval.engine.request import check_fields, check_filter, check_orders
from retrieval.engine.stopwatch import Clock

FRESH_SECONDS = 1.0
"""Seconds for which a handle uses what it last read of its collection; then it sees changes by other processes."""


Embedders = Callable[[StoredSpace | None], CachedEmbedder | None]
"""Gives the embedder of a space; None where there is none for it."""


_Handle = TypeVar("_Handle", bound="CollectionHandle")
_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")


class CollectionHandle:
    """The state that the calls of a collection share; ``Collection`` inherits it with them."""

    def __init__(
        self,
        database: Database,
        tenant_id: int,
        stored: StoredCollection,
        embedder: CachedEmbedder | None,
        *,
        clock: Clock = time.monotonic,
        wall_clock: Clock = time.time,
        chance: random.Random | None = None,
        recorder: Recorder | None = None,
        decider: Decider | None = None,
        embedders: Embedders | None = None,
        bounds: SearchBounds = DEFAULT_BOUNDS,
    ) -> None:
        self._database = database
        self._tenant_id = tenant_id
        self._stored = stored
        self._embedder = embedder
        self._embedders = embedders
        self._bounds = bounds
        self._clock = clock
        self._wall_clock = wall_clock
        self._chance = chance or random.Random()  # noqa: S311 - it samples and explores, and keeps no secret
        self._recorder = recorder
        self._decider = decider
        self._models = Models(database, tenant_id) if decider is None else decider.models
        self._narrowed: tuple[Profile, tuple[LegName, ...], Profile] | None = None
        self._read_at = self._clock()
        self._reading: asyncio.Event | None = None

    @property
    def name(self) -> str:
        """The collection's name, unique within its tenant."""
        return self._stored.name

    @property
    def home_loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that its platform was opened in, which runs all its calls."""
        return self._database.loop

    @property
    def profile(self) -> Profile:
        """The active profile, as last read."""
        return self._stored.profile

    @property
    def profile_note(self) -> str:
        """The note that the active profile was stored with, as last read; ``the default`` for the first one."""
        return self._stored.profile_note

    async def refresh(self, *, older_than_seconds: float = 0.0) -> StoredCollection:
        """Read the collection's profile, space and size again, if they were read longer ago than that.

        Of a collection of this name that was made anew, or has another space by now, the handle is from then on.
        Raises ``UnknownCollectionError`` where there is none.
        """
        if not older_than_seconds:
            return await self._read_again()
        if not self._is_fresh(older_than_seconds) and self._reading is not None:
            # Many calls find it old at the same moment: one of them reads for all.
            await self._reading.wait()
        if self._is_fresh(older_than_seconds):
            return self._stored
        if self._reading is not None:
            return await self._read_again()
        self._reading = reading = asyncio.Event()
        try:
            return await self._read_again()
        finally:
            reading.set()
            self._reading = None

    def _is_fresh(self, seconds: float) -> bool:
        return self._clock() - self._read_at <= seconds

    async def _read_again(self) -> StoredCollection:
        stored = await find_collection(self._database, self._tenant_id, self.name)
        if stored is None:
            raise UnknownCollectionError(f"collection {self.name!r} is gone; make it again with platform.collection()")
        if self._embedders is not None and stored.space != self._stored.space:
            self._embedder = self._embedders(stored.space)
        self._stored = stored
        self._read_at = self._clock()
        return stored

    async def _check_there(self, refused: DatabaseError, collection_id: int) -> None:
        """Raise ``UnknownCollectionError`` where the database refused because that collection is gone."""
        if type(refused) not in {MissingPrivilegeError, DatabaseError}:
            return
        if (await self.refresh()).collection_id != collection_id:
            raise UnknownCollectionError(
                f"collection {self.name!r} was removed meanwhile, and another was made; try again"
            ) from refused

    async def _fresh(self) -> StoredCollection:
        return await self.refresh(older_than_seconds=FRESH_SECONDS)

    @property
    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._wall_clock(), UTC)

    @property
    def bounds(self) -> SearchBounds:
        """The limits of one search, by the settings."""
        return self._bounds

    async def _filtered(self, where: Where | Filter | None) -> tuple[StoredCollection, Filter | None]:
        """The collection, and the filter that was asked for, whose fields there are."""
        wanted, stored = await parsed_filter(where, self._bounds), await self._fresh()
        try:
            _check(wanted, stored)
        except UnknownFieldError:
            # The field may have come with items that another process added a moment ago.
            stored = await self.refresh()
            _check(wanted, stored)
        return stored, wanted


async def parsed_filter(where: Where | Filter | None, bounds: SearchBounds) -> Filter | None:
    """The filter that a mapping says, within the bounds. Raises ``InvalidFilterError``."""
    if where is None:
        return None
    most = bounds.filter_values
    asked = mapping_extent(where, most) if isinstance(where, Mapping) else Extent(0, 0)
    is_long = asked.values >= LONG or asked.conditions >= MANY_CONDITIONS
    return await aside(lambda: parse_where(where, most_values=most), is_long=is_long)


def told_if_gone(
    call: Callable[Concatenate[_Handle, _Given], Awaitable[_Answer]],
) -> Callable[Concatenate[_Handle, _Given], Coroutine[Any, Any, _Answer]]:
    """A call that raises ``UnknownCollectionError``, not what the database says, where the collection is gone."""

    @wraps(call)
    async def told(handle: _Handle, /, *given: _Given.args, **named: _Given.kwargs) -> _Answer:
        before = handle._stored.collection_id  # noqa: SLF001 - for the calls of this class
        try:
            return await call(handle, *given, **named)
        except DatabaseError as error:
            await handle._check_there(error, before)  # noqa: SLF001 - the same
            raise

    return told


def _check(wanted: Filter | None, stored: StoredCollection) -> None:
    if stored.documents:  # of an empty collection no field is known yet, and every filter finds nothing
        check_fields(wanted, stored.attributes)
        check_orders(wanted, stored.attributes)
    check_filter(wanted, stored.filterable)
