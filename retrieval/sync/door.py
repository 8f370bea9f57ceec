"""The door: an event loop in a thread of its own, which runs async functions while their callers wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import ParamSpec, TypeVar

from anyio.from_thread import BlockingPortal

from retrieval.domain.errors import InvalidRequestError, RunningLoopError

P = ParamSpec("P")
T = TypeVar("T")

_NOT_OPEN = "the platform is not open; use: with connect() as platform, or: platform = retrieval.sync.open()"

_CLOSED = "the platform is closed; open it again: with platform, or: platform.open()"


class Door:
    """Runs async functions on the loop of its portal and waits for their results."""

    def __init__(self) -> None:
        self.portal: BlockingPortal | None = None
        self.was_open = False
        """Whether it had a portal before."""

    def open(self, portal: BlockingPortal) -> None:
        """Let calls through that portal."""
        self.portal, self.was_open = portal, True

    @property
    def open_portal(self) -> BlockingPortal:
        """The portal. Raises ``InvalidRequestError`` before the platform is opened and after it is closed."""
        if self.portal is None:
            raise InvalidRequestError(_CLOSED if self.was_open else _NOT_OPEN)
        return self.portal

    def run(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the function and return its result or raise its error; a caller that is interrupted cancels it."""
        refuse_running_loop()
        future = self.open_portal.start_task_soon(partial(function, *args, **kwargs))
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def each(self, found: AsyncIterator[T], *, batch: int) -> Iterator[T]:
        """Iterate over an async iterator, ``batch`` elements at once: not every element waits for the other thread."""
        while page := self.run(_page, found, batch):
            yield from page


def refuse_running_loop() -> None:
    """Raise ``RunningLoopError`` where a loop runs already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RunningLoopError(
        "retrieval.sync cannot be used inside a running event loop, which it would freeze; "
        "await the async API there: async with retrieval.connect() as platform, or platform = await retrieval.open()"
    )


async def _page(found: AsyncIterator[T], size: int) -> list[T]:
    """The next ``batch`` elements, or fewer at the end."""
    page: list[T] = []
    async for element in found:
        page.append(element)
        if len(page) >= size:
            break
    return page
