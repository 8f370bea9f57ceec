"""A bounded pool of connections; a call that finds none idle opens one, and gets the error if that keeps failing.

If the server allows no more than the open ones, the call waits for one of these. A connection is given and returned
without waiting for anything, so that a cancelled call cannot lose it.
"""

from __future__ import annotations

import asyncio
import select
import sys
import time
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from psycopg import OperationalError
from psycopg.errors import ConnectionTimeout
from psycopg.pq import TransactionStatus
from psycopg_pool import PoolTimeout, TooManyRequests

from retrieval.adapters.store.deadline import in_background
from retrieval.adapters.store.round_trip import SessionConnection
from retrieval.domain.errors import OTHER_LOOP, PLATFORM_CLOSED, InvalidRequestError

_LEAST_WAITING, _WAITING_EACH = 100, 20
"""The most calls that may wait for a connection: 20 for each connection of the pool, and at least 100."""

_IDLE_SECONDS, _LIFE_SECONDS = 600.0, 3600.0
"""A connection that was idle for 600 s or is older than 3,600 s is closed, because the server's process grows."""

_CHECK_SECONDS = 1.0
"""The time for which the result of an attempt to connect holds for calls that time out."""

_RESTART_SECONDS, _RETRY_SECONDS = 1.0, 0.05
"""The time after a first failed attempt during which calls try again, as the server may restart, and their pauses."""

_REFUSED_SECONDS = 0.1
"""The time for which no call tries to open a further connection after the server refused one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """The pool's present state, and its counts since it was opened."""

    most: int = 0
    """The most connections that it opens."""
    open: int = 0
    idle: int = 0
    waiting: int = 0
    """The calls that wait for a connection."""
    wait_seconds: float = 0.0
    """The time that all calls together waited."""
    timeouts: int = 0
    """Calls that waited in vain, or were turned away because too many waited."""

    @property
    def is_exhausted(self) -> bool:
        """Whether all connections that the pool may have are in use."""
        return self.open >= self.most and not self.idle


class ConnectionPool:
    """At most ``most`` connections that ``connect`` opens; a call waits ``timeout`` seconds for one, in turn."""

    def __init__(
        self, connect: Callable[[], Coroutine[Any, Any, SessionConnection]], *, most: int, timeout: float
    ) -> None:
        self.loop = asyncio.get_running_loop()
        """The event loop of the connections, the only one that can use them."""
        self.timeout = timeout
        self.most_waiting = max(_LEAST_WAITING, _WAITING_EACH * most)
        self._connect, self._most = connect, most
        self._open = 0
        self._idle: deque[tuple[SessionConnection, float]] = deque()
        """The idle connections and the times of their return, the latest last."""
        self._waiting: deque[asyncio.Future[SessionConnection | None]] = deque()
        """Each gets a connection, or None: it may open one."""
        self._opening = set[asyncio.Task[SessionConnection]]()
        self._refused_at = float("-inf")
        """The time when the server last refused a further connection."""
        self._check: asyncio.Task[None] | None = None
        self._checked_at = 0.0
        self._failing_since = 0.0
        """The time of the first failed attempt to connect since one succeeded; 0: the last one succeeded."""
        self.is_closed = False
        self._wait_seconds, self._timeouts = 0.0, 0

    @property
    def state(self) -> PoolState:
        """The present state."""
        return PoolState(
            most=self._most, open=self._open, idle=len(self._idle), waiting=len(self._waiting),
            wait_seconds=self._wait_seconds, timeouts=self._timeouts,
        )  # fmt: skip

    def check_loop(self) -> None:
        """Raise ``InvalidRequestError`` in another event loop, which can neither use the connections nor close them."""
        if asyncio.get_running_loop() is not self.loop and not self.is_closed:
            raise InvalidRequestError(OTHER_LOOP)

    async def take(self) -> SessionConnection:
        """A working connection, the warmest of the idle ones; return it by ``put``.

        Raises ``PoolTimeout``, ``TooManyRequests``, the driver's error if the server cannot be reached, and
        ``InvalidRequestError`` if the pool is closed, or of another event loop.
        """
        self.check_loop()
        if self.is_closed:
            raise InvalidRequestError(PLATFORM_CLOSED)
        while True:
            while self._idle:
                idle, _ = self._idle.pop()
                if not _was_closed(idle):
                    return idle
                self._drop(idle)
            connection = None
            if self._may_open:
                self._open += 1
            else:
                connection = await self._wait()
            if connection := connection or await self._opened():
                return connection

    def put(self, connection: SessionConnection) -> bool:
        """Return a connection; one in the middle of something is closed. Returns whether a call waited for one."""
        server, now = connection.pgconn, time.monotonic()
        is_ready = server.transaction_status == TransactionStatus.IDLE and not server.pipeline_status
        if is_ready and not self.is_closed and now - connection.opened_at < _LIFE_SECONDS:
            is_awaited = self._return(connection)
        else:
            is_awaited = self._drop(connection)
        if len(self._idle) > 1 and now - self._idle[0][1] >= _IDLE_SECONDS:
            self._drop(self._idle.popleft()[0])
        return is_awaited

    def close(self) -> None:
        """Close the idle connections now, and the others when they are returned."""
        self.is_closed = True
        self.close_idle()
        while (future := self._next_waiting()) is not None:
            future.set_exception(InvalidRequestError(PLATFORM_CLOSED))

    def close_idle(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._drop(self._idle.pop()[0])

    def _drop(self, connection: SessionConnection) -> bool:
        connection.unwatch()
        connection.pgconn.finish()
        return self._return(None)

    def _return(self, connection: SessionConnection | None) -> bool:
        """Give the connection to the next call that waits; None: the call may open one in place of one that is gone.

        Returns whether a call waited.
        """
        if (future := self._next_waiting()) is not None:
            future.set_result(connection)
            return True
        if connection is None:
            self._open -= 1
        else:
            self._idle.append((connection, time.monotonic()))
        return False

    def _next_waiting(self) -> asyncio.Future[SessionConnection | None] | None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():  # done: its call was cancelled and has not run since
                return future
        return None

    @property
    def _may_open(self) -> bool:
        is_refusing = self._open and time.monotonic() - self._refused_at < _REFUSED_SECONDS
        return self._open < self._most and not is_refusing

    async def _wait(self) -> SessionConnection | None:
        if len(self._waiting) >= self.most_waiting:
            await self._timed_out()
            raise TooManyRequests
        try:
            return await self._turn()
        except PoolTimeout:
            await self._timed_out()
            raise

    async def _turn(self) -> SessionConnection | None:
        future: asyncio.Future[SessionConnection | None] = self.loop.create_future()
        self._waiting.append(future)
        began = time.monotonic()
        # After a long turn, the event loop finds the timeout and the answers of other calls at once. In the next turn,
        # these calls return their connections, and only then does this call give up.
        timer = self.loop.call_later(self.timeout, self.loop.call_soon, self._give_up, future)
        try:
            return await future
        except asyncio.CancelledError:
            if future in self._waiting:
                self._waiting.remove(future)
            elif not future.cancelled() and not future.exception():
                if (connection := future.result()) is None:
                    self._return(None)
                else:
                    self.put(connection)
            raise
        finally:
            timer.cancel()
            self._wait_seconds += time.monotonic() - began

    def _give_up(self, future: asyncio.Future[SessionConnection | None]) -> None:
        if not future.done():
            self._waiting.remove(future)
            future.set_exception(PoolTimeout())

    async def _opened(self) -> SessionConnection | None:
        """A new connection; None: the server refuses one beside the others, so wait for one of these.

        It is opened in a separate task, because the driver can lose a cancellation meanwhile.
        """
        task = in_background(self._connect_or_retry())
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(self._put_opened)
            raise
        except BaseException as error:
            are_others_open = self._open - 1 > len(self._opening)
            is_refused = isinstance(error, OperationalError) and not isinstance(error, ConnectionTimeout)
            if is_refused and are_others_open:
                # Not by _return: a call that waits could open none either.
                self._open, self._refused_at = self._open - 1, time.monotonic()
                return None
            self._return(None)
            raise

    async def _connect_or_retry(self) -> SessionConnection:
        """A new connection; while no other is open, attempts are repeated in the first second of an outage."""
        while True:
            try:
                connection = await self._connect()
            except OperationalError as error:
                are_others_open = self._open > len(self._opening)
                if isinstance(error, ConnectionTimeout) or are_others_open or self.is_closed:
                    raise
                now = time.monotonic()
                self._failing_since = self._failing_since or now
                if now - self._failing_since >= _RESTART_SECONDS:
                    raise
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                self._failing_since = 0.0
                return connection

    def _put_opened(self, task: asyncio.Task[SessionConnection]) -> None:
        if task.cancelled() or task.exception():
            self._return(None)
        else:
            self.put(task.result())

    async def _timed_out(self) -> None:
        """Raise the driver's error if the server does not answer, as if it hangs: a timeout does not tell that apart.

        One attempt to connect is for all calls, because many time out at once.
        """
        self._timeouts += 1
        if self._check is None or (self._check.done() and time.monotonic() - self._checked_at >= _CHECK_SECONDS):
            self._check, self._checked_at = in_background(self._try_to_connect()), time.monotonic()
            self._check.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._check)

    async def _try_to_connect(self) -> None:
        await (await self._connect()).close()


def _was_closed(connection: SessionConnection) -> bool:
    """Whether the server sent data on an idle connection, as it does to close it; needs no round trip."""
    if connection.closed:
        return True  # the number of its socket may be that of another connection by now
    if sys.platform == "win32":
        return bool(select.select([connection.pgconn.socket], [], [], 0)[0])
    return bool(connection.poll.poll(0))
