"""How callers wait for a connection of the pool, and how the pool stands."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from psycopg_pool import AsyncConnectionPool, PoolTimeout

from retrieval.adapters.store.session import SessionConnection

_Pool = AsyncConnectionPool[SessionConnection]


async def wait_for_connection(
    pool: _Pool, check_reachable: Callable[[], Awaitable[None]], every: float
) -> SessionConnection:
    """A connection, in the order of asking; give it back with ``putconn``.

    A pool that cannot connect gives up, and tells nobody who waits. So that is looked at before, and each ``every``
    seconds meanwhile: then ``check_reachable`` raises, or there is a server again and the pool is asked anew. Raises
    ``PoolTimeout`` and ``TooManyRequests`` as the pool does.
    """
    until = time.monotonic() + pool.timeout
    if pool.get_stats().get("pool_available"):
        with suppress(PoolTimeout):
            return await pool.getconn(min(every, pool.timeout))
    while True:
        if _gave_up(pool):
            await check_reachable()
        getting = asyncio.create_task(pool.getconn(until - time.monotonic()))
        if await _is_given(pool, getting, every):
            return getting.result()


async def put_back(pool: _Pool, connection: SessionConnection) -> None:
    """Give a connection back, also where the caller is cancelled meanwhile: the pool would have lost it for ever."""
    try:
        await pool.putconn(connection)
    except asyncio.CancelledError:
        # Cut off as it waited for its lock, the pool has forgotten the connection already. A task for every connection
        # that is given back would be simpler, and take as long as a third of a small read.
        connection._pool = pool  # noqa: SLF001
        again = asyncio.create_task(pool.putconn(connection))
        _GIVING_BACK.add(again)
        again.add_done_callback(_GIVING_BACK.discard)
        raise


_GIVING_BACK: set[asyncio.Task[None]] = set()
"""Nobody else holds them."""


async def _is_given(pool: _Pool, getting: asyncio.Task[SessionConnection], every: float) -> bool:
    """Whether it came to a result; else the pool gave up, and it is let go."""
    is_done = False
    try:
        while not is_done:
            is_done = bool((await asyncio.wait({getting}, timeout=every))[0])
            if not is_done and _gave_up(pool):
                break
    finally:
        if not is_done:
            await _let_go(pool, getting)
    return is_done


def _gave_up(pool: _Pool) -> bool:
    return pool.get_stats().get("pool_size") == 0


async def _let_go(pool: _Pool, getting: asyncio.Task[SessionConnection]) -> None:
    """Nobody waits for it any more; a connection that comes at the last moment goes back."""
    getting.cancel()
    await asyncio.wait({getting})
    if not getting.cancelled() and getting.exception() is None:
        await put_back(pool, getting.result())


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """The pool now, and what it counted since it was opened."""

    most: int
    """The most connections that it opens."""
    open: int
    """Connections that are open."""
    idle: int
    """Those of them that nobody uses."""
    waiting: int
    """Calls that wait for one."""
    timeouts: int
    """Calls that waited in vain, or were turned away because too many waited."""
    wait_seconds: float
    """What all calls together waited."""

    @property
    def is_exhausted(self) -> bool:
        """Whether every connection that there may be is in use."""
        return self.open >= self.most and not self.idle

    @classmethod
    def of(cls, counted: Mapping[str, int]) -> PoolState:
        """From what the driver's pool counts; it leaves out what is 0."""
        return cls(
            most=counted.get("pool_max", 0),
            open=counted.get("pool_size", 0),
            idle=counted.get("pool_available", 0),
            waiting=counted.get("requests_waiting", 0),
            timeouts=counted.get("requests_errors", 0),
            wait_seconds=counted.get("requests_wait_ms", 0) / 1e3,
        )
