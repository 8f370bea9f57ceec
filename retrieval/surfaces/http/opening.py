"""A platform opened behind whoever asks for it: once for all of them, and again after a failure."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from retrieval.adapters.store.deadline import in_background
from retrieval.domain.errors import RetrievalError
from retrieval.platform import Platform

_log = logging.getLogger(__name__)


class Opening:
    """``make`` gives a platform that is not open yet: ``await Opening(make).platform()`` opens it."""

    def __init__(self, make: Callable[[], Platform]) -> None:
        self._make = make
        self._task: asyncio.Task[Platform] | None = None
        self.opened: Platform | None = None
        """The platform, once it is open."""

    def begin(self) -> None:
        """Open it; nobody need wait for it."""
        self._task = self._begun()

    async def platform(self) -> Platform:
        """The open platform. Raises what opening it raised: a ``RetrievalError`` that tells what is wrong."""
        # Who gives up waiting does not give up the opening, for which others may wait.
        task = self._task
        return await asyncio.shield(self._begun() if task is None or _has_failed(task) else task)

    async def aclose(self) -> None:
        """Close what is open; opening that is under way is given up."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self.opened is not None:
            await self.opened.__aexit__(None, None, None)
            self.opened = None

    def _begun(self) -> asyncio.Task[Platform]:
        self._task = task = in_background(self._open())
        task.add_done_callback(_report)
        return task

    async def _open(self) -> Platform:
        platform = await self._make().__aenter__()
        self.opened = platform
        return platform


def _has_failed(task: asyncio.Task[Platform]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _report(task: asyncio.Task[Platform]) -> None:
    """Say once what is wrong, whether or not somebody waits for it."""
    error = None if task.cancelled() else task.exception()
    if isinstance(error, RetrievalError):
        _log.warning("the platform could not be opened, and is tried again at the next request: %s", error)
    elif error is not None:
        _log.error("the platform could not be opened: %s", type(error).__name__, exc_info=error)
