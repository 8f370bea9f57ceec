"""Deadlines: the time by which a task's statements have to end; the database cancels later ones.

A transaction's statements may each take the time that remains when it begins: a limit for each statement would cost a
round trip. A deadline holds for the task and the tasks that it starts, except those of ``in_background``.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from retrieval.domain.errors import DeadlineError

T = TypeVar("T")

WITHOUT_LIMITS = """
    SELECT set_config(name, '0', {is_local}) FROM pg_settings
    WHERE name IN ('idle_in_transaction_session_timeout', 'lock_timeout', 'statement_timeout', 'transaction_timeout')
"""
"""Lifts the login's limits of time; ``is_local``: ``true`` until the transaction ends, ``false`` for the session."""

_LATE_SECONDS = 0.05
"""The tolerance for the server's clock, which may cancel a statement some milliseconds early."""


@dataclass(slots=True, eq=False)
class Deadline:
    """The time by which work has to end; it can be moved."""

    until: float
    """A time in seconds of ``clock``."""
    clock: Callable[[], float] = time.monotonic

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed, or passes within 50 ms."""
        return self.until - self.clock() <= _LATE_SECONDS

    def milliseconds(self) -> int:
        """The remaining time, at least 1. Raises ``DeadlineError`` if none remains."""
        seconds = self.until - self.clock()
        if seconds <= 0:
            raise late()
        return max(1, math.floor(seconds * 1000))


_DEADLINE: ContextVar[Deadline | None] = ContextVar("retrieval_deadline", default=None)


@contextmanager
def deadline(until: Deadline) -> Iterator[Deadline]:
    """Set the deadline of the code in the ``with`` block."""
    token = _DEADLINE.set(until)
    try:
        yield until
    finally:
        _DEADLINE.reset(token)


def current_deadline() -> Deadline | None:
    """The running task's deadline; None: it has none."""
    return _DEADLINE.get()


def seconds_left() -> float:
    """The seconds until the deadline of the running task, at least 0; infinite without one."""
    until = current_deadline()
    return math.inf if until is None else max(0.0, until.until - until.clock())


def late() -> DeadlineError:
    """The error for work that did not end in time."""
    return DeadlineError("it was not done within the time allowed; ask for less, or allow more time")


class LateError(Exception):
    """The time for a call is over."""


async def within(call: Awaitable[T], seconds: float, *, grace_seconds: float = 0.0) -> T:
    """Return the result of the call. Raises ``LateError`` if it takes longer, and the call's errors.

    A late call is cancelled but not awaited: a driver or a service that hangs may never end it. The call runs under the
    deadline ``grace_seconds`` later, so that it does not start work that cannot end in time.
    """
    with deadline(Deadline(time.monotonic() + seconds + grace_seconds)):
        task = asyncio.ensure_future(call)
    _UNDER_WAY.add(task)
    task.add_done_callback(_discard)
    try:
        await asyncio.wait([task], timeout=seconds)
    finally:
        task.cancel()
    if not task.done():
        raise LateError
    return task.result()


CLOSING_SECONDS = 5.0
"""The time that a platform that is closed gives each step of its work in the background."""


async def ended(work: asyncio.Future[Any], left: Callable[[], int]) -> bool:
    """Wait for work in the background as long as ``left``, the number of its remaining steps, decreases in time.

    False: it was cancelled, because the database does not answer: a table may be locked for hours.
    """
    before = None
    while not work.done() and (now := left()) != before:
        before = now
        await asyncio.wait([work], timeout=CLOSING_SECONDS)
    is_over = work.done()
    work.cancel()
    await asyncio.wait([work], timeout=CLOSING_SECONDS)
    return is_over


_UNDER_WAY: set[asyncio.Future[Any]] = set()
"""Calls under way; the event loop itself keeps only weak references to tasks."""


def _discard(task: asyncio.Future[Any]) -> None:
    """Read the call's outcome, so that asyncio does not warn about an unread error."""
    _UNDER_WAY.discard(task)
    if not task.cancelled():
        task.exception()


def in_background(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A task that outlives the caller: it does not inherit the caller's deadline, trace and request id."""
    return asyncio.get_running_loop().create_task(work, context=Context())
