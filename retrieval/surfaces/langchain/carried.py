"""A call that another thread's event loop makes, given up where that loop does not come to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from retrieval.domain.errors import RunningLoopError

T = TypeVar("T")

BEGIN_SECONDS = 10.0
"""How long a loop may take until it begins with a call. One that waits for its caller never would."""


class Carried(Generic[T]):
    """The call, given to the loop. Whoever waits for it cancels it by no longer waiting."""

    def __init__(self, call: Callable[[], Awaitable[T]], loop: asyncio.AbstractEventLoop) -> None:
        self._call = call
        # Taken by the loop that begins or cancelled by the caller that gives up, whichever comes first.
        self._begun: Future[None] = Future()
        self._made: Future[T] = asyncio.run_coroutine_threadsafe(self._make(), loop)

    async def _make(self) -> T:
        if not self._begun.set_running_or_notify_cancel():
            raise asyncio.CancelledError
        self._begun.set_result(None)
        return await self._call()

    def result(self) -> T:
        """What it returns or raises; ``RunningLoopError`` where it did not begin in time."""
        try:
            try:
                self._begun.result(BEGIN_SECONDS)
            except TimeoutError:
                if self._begun.cancel():
                    raise _blocked() from None
            return self._made.result()
        except BaseException:
            self._give_up()
            raise

    async def awaited(self) -> T:
        """As ``result``, for a caller in a loop of its own."""
        timer = asyncio.get_running_loop().call_later(BEGIN_SECONDS, self._give_up_waiting)
        try:
            return await asyncio.wrap_future(self._made)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._begun.cancelled() and not (task and task.cancelling()):
                raise _blocked() from None
            self._give_up()
            raise
        finally:
            timer.cancel()

    def _give_up_waiting(self) -> None:
        if self._begun.cancel():
            self._made.cancel()

    def _give_up(self) -> None:
        self._begun.cancel()
        self._made.cancel()


def _blocked() -> RunningLoopError:
    return RunningLoopError(
        f"the event loop that the collection belongs to has been blocked for {BEGIN_SECONDS:g} seconds, most likely "
        "by a sync call that waits for this one; await the async call there (ainvoke), "
        "or give a collection of retrieval.sync.connect()"
    )
