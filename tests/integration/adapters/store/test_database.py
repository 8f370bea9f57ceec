"""The pool: its size is bounded, it waits as long as configured, and it recovers from broken connections."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, NoReturn
from urllib.parse import urlsplit

import anyio
import psycopg
import pytest

from retrieval import Platform, Settings, connect
from retrieval.adapters.aside import LONG
from retrieval.adapters.store import round_trip
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.round_trip import SENT_AT_ONCE
from retrieval.domain.errors import (
    DatabaseError,
    DatabaseUnreachableError,
    EmbeddedServerError,
    InvalidRequestError,
    PoolExhaustedError,
)
from tests.support.away import Away
from tests.support.proxy import Proxy

PID = Compiled("SELECT pg_backend_pid()")


async def test_a_search_that_gets_no_connection_in_time_says_which_settings_to_raise(
    database_url: str, settings: Settings
) -> None:
    """An exhausted pool raises ``PoolExhaustedError`` after its timeout, and serves again once it is free.

    A call that is given up while it waits is not counted as one that timed out.
    """
    async with connect(database_url, settings=settings.changed(pool_size=1)) as platform:
        pool = platform.database._pool  # noqa: SLF001 - opening the platform may take longer than what is waited for here
        async with platform.database.transaction(platform.tenant_id):
            patient, pool.timeout = pool.timeout, 0.05
            with pytest.raises(PoolExhaustedError, match="RETRIEVAL_POOL_SIZE"):
                await platform.collections()
            assert platform.database.pool.timeouts == 1
            pool.timeout = patient
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(platform.collections(), 0.05)
            assert platform.database.pool.timeouts == 1
        assert await platform.collections() == []


async def test_a_call_that_waited_sends_its_statement_before_the_former_one_handles_its_rows(
    database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise PostgreSQL would be idle meanwhile."""
    steps: list[str] = []

    def told(step: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*arguments: Any) -> Any:
            steps.append(step)
            return original(*arguments)

        return wrapper

    async with connect(database_url, settings=settings.changed(pool_size=1)) as platform:
        monkeypatch.setattr(Database, "_run", told("send", Database._run))  # noqa: SLF001
        monkeypatch.setattr(round_trip, "rows_of", told("rows", round_trip.rows_of))
        await asyncio.gather(*(platform.database.read(None, PID) for _ in range(3)))
    assert steps == ["send", "send", "rows", "send", "rows", "rows"]


async def test_a_call_gets_the_connection_that_becomes_free_while_the_loop_is_busy(
    database_url: str, settings: Settings
) -> None:
    """The call gets it even if its timeout has passed by then."""
    async with connect(database_url, settings=settings.changed(pool_size=1)) as platform:
        platform.database._pool.timeout = 0.2  # noqa: SLF001 - opening the platform may take longer
        one = asyncio.create_task(platform.database.read(None, Compiled("SELECT 1 FROM pg_sleep(0.1)")))
        two = asyncio.create_task(platform.database.read(None, Compiled("SELECT 2")))
        await asyncio.sleep(0.05)
        time.sleep(0.4)  # noqa: ASYNC251 - the loop is busy
        assert [await one, await two] == [[(1,)], [(2,)]]
        assert platform.database.pool.timeouts == 0


async def test_rows_are_decoded_whatever_becomes_of_the_connection(database_url: str, settings: Settings) -> None:
    """The pool closes a connection on which the next call failed while sending, and one that is too old."""
    async with connect(database_url, settings=settings.changed(pool_size=1)) as platform:
        moment = Compiled("SELECT timestamptz '2026-01-01 00:00:00+00' FROM generate_series(1, %(rows)s::integer)")
        for rows in (1, LONG):
            answered, refused = await asyncio.gather(
                platform.database.write(None, moment.bind(rows=rows)),
                platform.database.read(None, Compiled("SELECT %(text)s::text", {"text": "\ud800"})),
                return_exceptions=True,
            )
            assert answered == [(datetime(2026, 1, 1, tzinfo=UTC),)] * rows
            assert isinstance(refused, InvalidRequestError)
            connection = await platform.database._pool.take()  # noqa: SLF001 - as if an hour passed
            connection.opened_at -= 3601
            platform.database._pool._return(connection)  # noqa: SLF001
            assert len(await platform.database.write(None, moment.bind(rows=rows))) == rows


async def test_a_refused_call_names_the_unreachable_database(
    server_url: str, new_database: Callable[[], str], settings: Settings
) -> None:
    """The message does not blame the load, because all waiting calls wait for the server."""
    url = new_database()
    away = Away(server_url, urlsplit(url).path.lstrip("/"))
    async with connect(url, settings=settings.changed(pool_size=1)) as platform:
        platform.database._pool.most_waiting = 1  # noqa: SLF001 - as if a hundred calls waited already
        with contextlib.suppress(DatabaseUnreachableError):
            async with platform.database.transaction(None):
                waiting = asyncio.create_task(platform.collections())
                while not platform.database.pool.waiting:  # noqa: ASYNC110 - no event tells
                    await asyncio.sleep(0)
                with pytest.raises(PoolExhaustedError, match="too many calls wait"):
                    await platform.collections()
                platform.database._pool._checked_at -= 60.0  # noqa: SLF001
                with away():
                    with pytest.raises(DatabaseUnreachableError):
                        await platform.collections()
                    waiting.cancel()
                    await asyncio.wait({waiting})


async def _open_connections(platform: Platform, number: int) -> set[int]:
    """Make the pool hold that many connections; gives their processes in the server."""
    pids = set()

    async def use(ready: asyncio.Barrier) -> None:
        async with platform.database.transaction(None) as connection:
            pids.add(connection.info.backend_pid)
            await ready.wait()

    barrier = asyncio.Barrier(number)
    await asyncio.gather(*(use(barrier) for _ in range(number)))
    return pids


async def test_searches_and_writes_survive_a_server_that_closed_every_connection(
    platform: Platform, database_url: str
) -> None:
    """After a restart of the server, no caller gets an error from a closed connection."""
    collection = await platform.collection("docs")
    await collection.add([{"_id": "1", "text": "the cat sat"}])
    pids = await _open_connections(platform, 4)
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other:
        await other.execute("SELECT pg_terminate_backend(pid, 10000) FROM unnest(%s::integer[]) AS pid", (list(pids),))
    assert [hit.item_id for hit in await collection.search("cat")] == ["1"]
    pids = await _open_connections(platform, 4)
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other:
        await other.execute("SELECT pg_terminate_backend(pid, 10000) FROM unnest(%s::integer[]) AS pid", (list(pids),))
    assert (await collection.add([{"_id": "2", "text": "the dog ran"}])).added == 1


@pytest.mark.skipif(sys.platform != "linux", reason="packets are dropped by an option of Linux")
@pytest.mark.parametrize("is_in_url", [True, False])
async def test_connections_that_were_forgotten_on_the_way_are_given_up(
    database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch, *, is_in_url: bool
) -> None:
    """The server's system confirms nothing: without a limit the system would send again for a quarter of an hour."""
    if not is_in_url:
        monkeypatch.setattr(round_trip, "_LASTING", {**round_trip._LASTING, "tcp_user_timeout": 500})  # noqa: SLF001
    server = psycopg.conninfo.conninfo_to_dict(database_url)
    proxy = Proxy(lambda: (str(server["host"]), int(server["port"] or 5432)))
    login = f"{server['user']}:{server.get('password') or ''}@127.0.0.1:{await proxy.start()}/{server['dbname']}"
    url = f"postgresql://{login}{'?tcp_user_timeout=500' if is_in_url else ''}"
    async with asyncio.timeout(8), connect(url, settings=settings) as platform:
        await asyncio.gather(*(platform.database.read(None, PID) for _ in range(3)))
        proxy.lose()
        await platform.database.read(None, PID)
        await asyncio.gather(*(platform.database.write(None, PID) for _ in range(3)))
        proxy.lose()
        with pytest.raises(DatabaseUnreachableError, match=r"cannot reach PostgreSQL at .*; check that it runs"):
            await platform.database.write(None, PID)
        await proxy.stop()


async def test_a_closed_connection_is_noticed_though_its_socket_s_number_is_in_use_again(
    database_url: str, settings: Settings
) -> None:
    """The event loop has read the end of the connection, so nothing is left to read from its socket."""
    async with connect(database_url, settings=settings.changed(pool_size=1)) as platform:
        [[former]] = await platform.database.read(None, PID)
        pool = platform.database._pool  # noqa: SLF001
        spare = await pool.take()
        number = spare.pgconn.socket
        pool.put(spare)
        async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other:
            await other.execute("SELECT pg_terminate_backend(%s::integer)", (former,))
            while not spare.closed:  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.01)
        with contextlib.ExitStack() as opened:
            numbers: list[int] = []
            while number not in numbers:
                numbers += [opened.enter_context(end).fileno() for end in socket.socketpair()]
            [[latter]] = await platform.database.write(None, PID)
    assert latter != former


async def test_a_server_that_was_away_serves_at_once_when_it_is_back(
    server_url: str, new_database: Callable[[], str], settings: Settings
) -> None:
    """Meanwhile each call says that there is no server, after the first second at once."""
    url = new_database()
    patient = settings.changed(pool_size=1, pool_timeout_seconds=60)
    async with asyncio.timeout(30), connect(url, settings=patient) as platform:
        with Away(server_url, urlsplit(url).path.lstrip("/"))():
            for _ in range(2):
                with pytest.raises(DatabaseUnreachableError):
                    await platform.collections()
        assert await platform.collections() == []


async def test_a_call_waits_for_a_server_that_is_back_within_a_second(
    server_url: str, new_database: Callable[[], str], settings: Settings
) -> None:
    """A restart of the server shows as a slow call, not as an error."""
    url = new_database()
    async with asyncio.timeout(30), connect(url, settings=settings.changed(pool_size=1)) as platform:
        with Away(server_url, urlsplit(url).path.lstrip("/"))():
            call = asyncio.create_task(platform.collections())
            await asyncio.sleep(0.2)
            assert not call.done()
        assert await call == []


async def test_a_waiting_call_gets_the_error_of_the_outage(
    server_url: str, new_database: Callable[[], str], settings: Settings
) -> None:
    """Calls that wait for a connection during an outage get the outage's error before their timeout."""
    url = new_database()
    patient = settings.changed(pool_size=2, pool_timeout_seconds=60)
    async with asyncio.timeout(30), connect(url, settings=patient) as platform:
        pool = platform.database._pool  # noqa: SLF001 - nothing else holds a connection
        connections = [await pool.take() for _ in range(2)]
        waiting = [asyncio.create_task(platform.collections()) for _ in range(3)]
        while pool.state.waiting < len(waiting):  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0)
        with Away(server_url, urlsplit(url).path.lstrip("/"))():
            for connection in connections:
                await connection.close()
                pool.put(connection)
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [DatabaseUnreachableError] * 3
        assert await asyncio.gather(*(platform.collections() for _ in range(3))) == [[], [], []]


async def test_calls_share_the_open_connections_where_the_server_allows_no_more(
    server_url: str, new_database: Callable[[], str], settings: Settings
) -> None:
    """As those of a smaller pool do; it grows again when the server allows it."""
    url, slow = new_database(), Compiled("SELECT pg_backend_pid(), pg_sleep(0.05)")
    async with asyncio.timeout(30), connect(url, settings=settings.changed(pool_size=4)) as platform:
        database = platform.database

        async def processes() -> set[int]:
            answers = await asyncio.gather(*(database.read(None, slow) for _ in range(12)))
            return {rows[0][0] for rows in answers}

        await database.read(None, PID)
        with Away(server_url, urlsplit(url).path.lstrip("/"))(keeps=True):
            assert len(await processes()) == 1
            assert (database.pool.open, database.pool.waiting) == (1, 0)
        database._pool._refused_at = 0.0  # noqa: SLF001
        assert len(await processes()) == 4


async def test_a_full_server_is_not_started_again(
    database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An embedded one, which has a function that starts it: it runs, so calls share the open connections there too."""
    full = "connection failed: connection to server on socket failed: FATAL:  sorry, too many clients already"

    async def refuse(_: str) -> NoReturn:
        raise psycopg.OperationalError(full)

    async def revive() -> None:
        raise EmbeddedServerError

    place = (database_url, settings.database_schema)
    database = await Database.open(*place, pool_size=4, pool_timeout_seconds=10, revive=revive)
    try:
        await database.read(None, PID)
        monkeypatch.setattr("retrieval.adapters.store.database._connect", refuse)
        slow = Compiled("SELECT pg_backend_pid(), pg_sleep(0.05)")
        answers = await asyncio.gather(*(database.read(None, slow) for _ in range(6)))
    finally:
        await database.close()
    assert len({rows[0][0] for rows in answers}) == 1


async def test_an_outage_that_many_calls_met_is_over_when_the_server_is_back(
    server_url: str, new_database: Callable[[], str], settings: Settings
) -> None:
    """Calls that gave up wait no more."""
    url = new_database()
    async with asyncio.timeout(60), connect(url, settings=settings.changed(pool_size=2)) as platform:
        await platform.database.read(None, PID)
        with Away(server_url, urlsplit(url).path.lstrip("/"))():
            outcomes = await asyncio.gather(
                *(platform.database.read(None, PID) for _ in range(150)), return_exceptions=True
            )
        assert {type(outcome) for outcome in outcomes} == {DatabaseUnreachableError}
        assert (platform.database.pool.waiting, platform.database.pool.open) == (0, 0)
        await platform.database.read(None, PID)


async def test_calls_one_after_the_other_use_the_same_connection(database_url: str, settings: Settings) -> None:
    """The one whose caches are warm, however many there are."""
    async with connect(database_url, settings=settings) as platform:
        await _open_connections(platform, 2)
        assert len({(await platform.database.read(None, PID))[0][0] for _ in range(10)}) == 1
        assert platform.database.pool.idle == platform.database.pool.open >= 2


async def test_a_connection_serves_the_driver_and_statements_sent_together_in_turn(platform: Platform) -> None:
    """A transaction of the driver's, an error and statements in a pipeline follow each other."""
    for _ in range(3):
        assert await platform.database.read(None, Compiled("SELECT 1")) == [(1,)]
        with pytest.raises(DatabaseError, match="division by zero"):
            await platform.database.read_each(None, [Compiled("SELECT 1"), Compiled("SELECT 1 / 0")])
        async with platform.database.transaction(None) as connection:
            cursor = await connection.execute("SELECT 2")
            assert await cursor.fetchall() == [(2,)]


async def test_a_read_that_brings_nothing_can_bring_rows_the_next_time(platform: Platform) -> None:
    """The row loaders of a kept statement are correct after any first answer."""
    statement = Compiled("SELECT number, number::text FROM generate_series(1, %(last)s::int) AS number", keep=0)
    for last in (0, 2, 1):
        rows = await platform.database.read(None, statement.bind(last=last))
        assert rows == [(number, str(number)) for number in range(1, last + 1)]


async def test_a_read_whose_connection_dies_meanwhile_is_done_again(platform: Platform, database_url: str) -> None:
    """A connection lost in the middle of a read costs a second try, not an error."""
    reading = asyncio.create_task(platform.database.read(None, Compiled("SELECT pg_sleep(30)")))
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other:
        while not (first := await _sleeping(other)):
            pass
        await other.execute("SELECT pg_terminate_backend(%s::integer, 10000)", first)
        while not (second := await _sleeping(other)):
            pass
        await other.execute("SELECT pg_cancel_backend(%s::integer)", second)
    with pytest.raises(DatabaseError, match="gave up waiting"):
        await reading
    assert first != second


_LAST_WORDS = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0"


@pytest.mark.skipif(sys.platform == "win32", reason="there is no uvloop")
def test_uvloop_notices_a_server_that_ends_without_reading_a_statement(database_url: str, settings: Settings) -> None:
    """Data and the socket's error come together, and uvloop tells of an error once: the call waited for its time."""
    import uvloop

    async def ask() -> None:
        async with connect(database_url, settings=settings) as platform:
            connection = await platform.database._pool.take()  # noqa: SLF001
            connection.unwatch()
            ours, theirs = socket.socketpair()
            with ours, theirs:
                os.dup2(ours.fileno(), connection.pgconn.socket)
                asked = asyncio.create_task(round_trip.run_together(connection, [PID]))
                await asyncio.sleep(0.01)
                theirs.sendall(b"E" + (len(_LAST_WORDS) + 4).to_bytes(4) + _LAST_WORDS)
            async with asyncio.timeout(10):
                with pytest.raises(psycopg.OperationalError, match="terminating connection"):
                    await asked
            platform.database._pool.put(connection)  # noqa: SLF001

    uvloop.run(ask())


async def test_a_read_is_not_repeated_on_a_connection_that_the_server_is_about_to_end(platform: Platform) -> None:
    """A server that restarts ends all of them, each with the statement that it was sent."""
    loop, pool = asyncio.get_running_loop(), platform.database._pool  # noqa: SLF001
    former = await _open_connections(platform, 3)
    taken = [await pool.take() for _ in range(3)]
    with contextlib.ExitStack() as opened:
        for connection in taken:
            connection.unwatch()
            ours, theirs = map(opened.enter_context, socket.socketpair())
            os.dup2(ours.fileno(), connection.pgconn.socket)

            def end(theirs: socket.socket = theirs) -> None:
                loop.remove_reader(theirs)
                theirs.close()

            loop.add_reader(theirs, end)
            pool.put(connection)
        [[pid]] = await platform.database.read(None, PID)
    assert pid not in former


async def _sleeping(connection: psycopg.AsyncConnection[Any]) -> list[int]:
    cursor = await connection.execute(
        "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
    )
    return [row[0] for row in await cursor.fetchall()]


async def test_a_cancelled_search_leaves_the_pool_whole(database_url: str, settings: Settings) -> None:
    """Cancelling reads at any moment gives every connection back, and the next caller meets no tenant on it."""
    small = settings.changed(pool_size=2, pool_timeout_seconds=30)
    async with connect(database_url, settings=small) as platform:
        slow = Compiled("SELECT pg_sleep(0.5)")
        for steps in range(12):
            task = asyncio.create_task(platform.database.read(platform.tenant_id, slow))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            # Python 3.11 can lose a cancellation that arrives together with the awaited result (bpo-37658).
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await _open_connections(platform, 2)
        nobody = Compiled("SELECT current_setting('retrieval.tenant', true)")
        assert await platform.database.read(None, nobody) == [("",)]


async def test_cancelled_searches_leave_no_connection_in_the_middle_of_something(
    database_url: str, settings: Settings
) -> None:
    """A connection that a cancelled search held is not handed on: a write on it would fail."""
    async with connect(database_url, settings=settings.changed(pool_size=2)) as platform:
        collection = await platform.collection("docs")
        await collection.add([{"_id": "1", "text": "the cat sat"}])
        for round_ in range(30):
            searches = [asyncio.create_task(collection.search("cat", legs=["lexical"])) for _ in range(6)]
            for _ in range(round_ % 10):
                await asyncio.sleep(0)
            for search in searches:
                search.cancel()
            await asyncio.gather(*searches, return_exceptions=True)
            await collection.add([{"_id": f"new {round_}", "text": "another cat"}])
        assert (await collection.info()).items == 31


async def test_a_call_after_closing_names_the_reason(database_url: str, settings: Settings) -> None:
    """The server runs and is not to blame."""
    async with connect(database_url, settings=settings) as platform:
        collection = await platform.collection("docs")
    with pytest.raises(InvalidRequestError, match="the platform is closed; open it again"):
        await collection.info()
    with pytest.raises(InvalidRequestError, match="the platform is closed; open it again"):
        await collection.add([{"_id": "1", "text": "the cat sat"}])


async def test_another_event_loop_is_refused(database_url: str, settings: Settings) -> None:
    """Its records would never be stored, and the platform could not be closed."""
    async with connect(database_url, settings=settings) as platform:
        collection = await platform.collection("docs")
        await collection.search("cat", legs=["lexical"])
        calls: list[Callable[[], Coroutine[Any, Any, object]]] = [collection.info, platform.recorded, platform.close]
        for call in calls:
            with pytest.raises(InvalidRequestError, match="opened in another event loop"):
                await asyncio.to_thread(lambda call: asyncio.run(call()), call)
        await platform.recorded()
        assert platform.recording.recorded == 1


async def test_waiting_calls_get_what_is_given_back_in_turn(database_url: str, settings: Settings) -> None:
    """Also a call that begins to wait meanwhile, and none that was cancelled."""
    async with connect(database_url, settings=settings.changed(pool_size=1, pool_timeout_seconds=5)) as platform:
        pool = platform.database._pool  # noqa: SLF001
        first = await pool.take()
        for steps in range(4):
            cancelled, waits = asyncio.create_task(pool.take()), asyncio.create_task(pool.take())
            for _ in range(steps + 1):
                await asyncio.sleep(0)
            pool.put(first)
            cancelled.cancel()
            first = await asyncio.wait_for(waits, 1)
        pool.put(first)
        assert (pool.state.open, pool.state.idle, pool.state.waiting) == (1, 1, 0)


async def test_calls_that_run_or_wait_while_it_is_closed_say_so(database_url: str, settings: Settings) -> None:
    """One would wait in vain; the other's server may end, as the embedded one does, which is no outage."""
    closed = pytest.raises(InvalidRequestError, match="the platform is closed")
    async with connect(database_url, settings=settings.changed(pool_size=1)) as platform:
        with closed:
            async with platform.database.transaction(None) as connection:
                waits = asyncio.create_task(platform.collections())
                await asyncio.sleep(0)
                await platform.close()
                await connection.execute("RESET ROLE")
                await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    with closed:
        await waits
    assert connection.closed


async def test_long_idle_and_old_connections_are_closed(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is returned is looked at, and the one that is idle for longest."""
    database = platform.database
    await _open_connections(platform, 3)
    monkeypatch.setattr("retrieval.adapters.store.pool._IDLE_SECONDS", 0.0)
    await database.read(None, PID)
    assert database.pool.open == database.pool.idle == 2
    monkeypatch.setattr("retrieval.adapters.store.pool._LIFE_SECONDS", 0.0)
    await database.read(None, PID)
    assert database.pool.open == 1


@pytest.mark.parametrize("is_in_task", [False, True])
@pytest.mark.parametrize("statements", [1, SENT_AT_ONCE])
async def test_calls_in_a_cancelled_scope_give_every_connection_back(
    database_url: str, settings: Settings, statements: int, *, is_in_task: bool
) -> None:
    """A scope of anyio cancels at every await, also a task that is waited for; no connection is lost, or replaced."""
    small = settings.changed(pool_size=2)
    async with connect(database_url, settings=small) as platform:
        processes = await _open_connections(platform, 2)

        async def call(seconds: float) -> None:
            with anyio.move_on_after(seconds):
                read = platform.database.read_each(platform.tenant_id, [_SLOW] * statements)
                await (asyncio.create_task(read) if is_in_task else read)

        for _ in range(20):
            await asyncio.gather(*(call(place / 1000) for place in range(20)))
        assert await _open_connections(platform, 2) == processes


_SLOW = Compiled("SELECT pg_sleep(0.005)")
