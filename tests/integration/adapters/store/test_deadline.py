"""Statements that have to be done by a time, and statements whose caller is gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from retrieval import Platform, Settings, connect
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.deadline import Deadline, deadline, in_background
from retrieval.domain.errors import DatabaseBusyError, DeadlineError
from tests.support.proxy import Proxy

TIMEOUT = Compiled("SELECT current_setting('statement_timeout')")
SLEEPING = "SELECT pg_sleep(30)"


async def _read(platform: Platform) -> None:
    await platform.database.read(platform.tenant_id, Compiled(SLEEPING))


async def _in_transaction(platform: Platform) -> None:
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute(SLEEPING)


BOTH_WAYS = pytest.mark.parametrize("work", [_read, _in_transaction])
Work = Callable[[Platform], Awaitable[None]]


def _in(seconds: float) -> Deadline:
    return Deadline(time.monotonic() + seconds)


async def _timeout(platform: Platform) -> str:
    return str((await platform.database.read(None, TIMEOUT))[0][0])


@BOTH_WAYS
async def test_the_database_ends_what_is_late(platform: Platform, work: Work) -> None:
    """The database gets the time limit, and the caller gets a deadline error."""
    with pytest.raises(DeadlineError, match="allow more time"), deadline(_in(0.1)):
        await work(platform)


async def test_a_statement_after_its_deadline_is_not_sent(platform: Platform) -> None:
    """No time is left to send the limit to the database."""
    with pytest.raises(DeadlineError), deadline(_in(-1)):
        await _timeout(platform)


async def test_the_time_that_is_left_holds_for_its_own_task_alone(platform: Platform) -> None:
    """Neither later calls nor background work have a limit."""
    with deadline(_in(100)):
        limited = await _timeout(platform)
        behind = await in_background(_timeout(platform))
    assert limited == "100s" or limited.startswith(("99", "100"))
    assert (behind, await _timeout(platform)) == ("0", "0")


async def test_a_limit_of_the_login_is_never_raised(database_url: str, settings: Settings) -> None:
    """The shorter timeout of the database's administrator applies."""
    url = f"{database_url}{'&' if '?' in database_url else '?'}options=-c%20statement_timeout%3D2s"
    async with connect(url, settings=settings) as platform:
        with deadline(_in(100)):
            assert await _timeout(platform) == "2s"
        with deadline(_in(1)):
            assert (await _timeout(platform)).endswith("ms")


async def test_maintenance_takes_any_time(database_url: str, settings: Settings) -> None:
    """Building an index takes longer than the login's limits, and so does its wait for other transactions to end.

    Older servers know only some of the limits.
    """
    names = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "transaction_timeout"]
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        known = await (
            await connection.execute("SELECT name FROM pg_settings WHERE name = ANY(%s)", (names,))
        ).fetchall()
    limits = "%20".join(f"-c%20{name}%3D1s" for (name,) in known)
    url = f"{database_url}{'&' if '?' in database_url else '?'}options={limits}"
    async with connect(url, settings=settings) as platform:
        async with platform.database.maintenance() as connection:
            await connection.execute("SELECT pg_sleep(1.2)")
            async with await psycopg.AsyncConnection.connect(database_url) as other:
                await other.execute("SELECT pg_advisory_xact_lock(hashtext('maintenance'))")
                waiting = asyncio.create_task(connection.execute("SELECT pg_advisory_lock(hashtext('maintenance'))"))
                await asyncio.sleep(1.2)
            await waiting
        async with platform.database.only_one("work") as is_alone:
            assert is_alone
            await asyncio.sleep(1.2)


async def test_a_cancelled_statement_without_a_deadline_reports_a_busy_database(platform: Platform) -> None:
    """A statement that somebody else ended was not the caller's limit."""
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute("SET LOCAL statement_timeout = '10ms'")
        with pytest.raises(DatabaseBusyError, match="gave up waiting"):
            await _raise_translated(connection)


async def _raise_translated(connection: psycopg.AsyncConnection[Any]) -> None:
    from retrieval.adapters.store.translate import translated

    with translated():
        await connection.execute(SLEEPING)


@BOTH_WAYS
async def test_cancelling_a_task_cancels_its_statement(database_url: str, settings: Settings, work: Work) -> None:
    """The server has stopped before the caller goes on, and the connection serves the next one."""
    async with (
        connect(database_url, settings=settings.changed(pool_size=1)) as platform,
        await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other,
    ):
        task = asyncio.ensure_future(work(platform))
        while not (active := await _active(other)):
            pass
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not await _active(other)
        assert await platform.database.read(None, Compiled("SELECT pg_backend_pid()")) == [(active[0],)]


@BOTH_WAYS
async def test_a_cancelled_task_does_not_wait_for_a_frozen_server(
    database_url: str, settings: Settings, work: Work
) -> None:
    """It ends a second later; its connection is abandoned."""
    server = psycopg.conninfo.conninfo_to_dict(database_url)
    proxy = Proxy(lambda: (str(server["host"]), int(server["port"] or 5432)))
    login = f"{server['user']}:{server.get('password') or ''}@127.0.0.1:{await proxy.start()}/{server['dbname']}"
    async with connect(f"postgresql://{login}", settings=settings) as platform:
        await platform.database.read(platform.tenant_id, TIMEOUT)
        proxy.freeze()
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await work(platform)
        seconds = time.monotonic() - started
        await proxy.stop()
    assert seconds < 3


async def _active(connection: psycopg.AsyncConnection[Any]) -> list[int]:
    """The processes that sleep for us."""
    cursor = await connection.execute(
        "SELECT pid FROM pg_stat_activity WHERE state = 'active' AND query = %s AND datname = current_database()",
        (SLEEPING,),
    )
    return [row[0] for row in await cursor.fetchall()]
