"""The store of principles, opened beside the protocol: a client is answered even while the database is down."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Self

from retrieval.adapters.store.deadline import in_background
from retrieval.domain.errors import RetrievalError

if TYPE_CHECKING:
    from retrieval.apps.principles.store import PrincipleStore
    from retrieval.settings import Settings

_log = logging.getLogger(__name__)


class StoreOpening:
    """Opens the store when it is entered, without waiting for it; after a failure, again at every call.

    ``async with Opening(settings, "principles") as opening: store = await opening.store()``
    """

    def __init__(self, settings: Settings, collection: str) -> None:
        self._settings = settings
        self._collection = collection
        self._stack = AsyncExitStack()
        self._opening: asyncio.Task[PrincipleStore] | None = None

    async def __aenter__(self) -> Self:
        self._opening = self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def store(self) -> PrincipleStore:
        """The open store. Raises what opening it raised: a ``RetrievalError`` that tells what is wrong."""
        opening = self._opening
        if opening is None or _has_failed(opening):
            opening = self._opening = self._begin()
        # A client that gives up its call gives up waiting, and not the opening.
        return await asyncio.shield(opening)

    async def aclose(self) -> None:
        """Close what is open; opening that is under way is given up."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        await self._stack.aclose()

    def _begin(self) -> asyncio.Task[PrincipleStore]:
        opening = in_background(self._open())
        opening.add_done_callback(_report)
        return opening

    async def _open(self) -> PrincipleStore:
        # It takes a second to be loaded; meanwhile the protocol is spoken.
        await asyncio.to_thread(import_module, "retrieval.apps.principles.store")
        from retrieval.apps.principles.store import PrincipleStore
        from retrieval.platform import connect

        async with AsyncExitStack() as stack:
            platform = await stack.enter_async_context(connect(settings=self._settings))
            store = await PrincipleStore.open(platform, self._collection)
            self._stack = stack.pop_all()
        return store


def _has_failed(task: asyncio.Task[PrincipleStore]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _report(task: asyncio.Task[PrincipleStore]) -> None:
    """Say once what is wrong, whether or not somebody waits for the store."""
    error = None if task.cancelled() else task.exception()
    if isinstance(error, RetrievalError):
        _log.warning("the principles could not be opened, and are tried again at the next call: %s", error)
    elif error is not None:
        _log.error("the principles could not be opened: %r", error, exc_info=error)
