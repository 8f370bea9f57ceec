"""Several statements in one round trip: their answers, and connections that stay usable whatever happens to one."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import psycopg
import pytest
from psycopg import sql

from retrieval import Platform, Settings, connect
from retrieval.adapters.store import round_trip
from retrieval.adapters.store.compiled import Compiled
from retrieval.domain.errors import DatabaseError, DatabaseUnreachableError
from tests.support.cluster import not_on_a_cluster
from tests.support.database import SCHEMA

GOOD = Compiled("SELECT %(one)s::integer, %(two)s::text, %(one)s::integer %% 2", {"one": 7, "two": "é%"})
ANSWER = [(7, "é%", 1)]
BAD = Compiled("SELECT 1 / %(zero)s::integer", {"zero": 0})
LONG = Compiled("SELECT length(%(text)s::text)", {"text": "x" * 200_000})
TENANT = Compiled("SELECT current_setting('retrieval.tenant'), current_setting('hnsw.ef_search', true)")


async def test_each_statement_has_its_own_rows(platform: Platform) -> None:
    """The results are in order; an empty result is a result too."""
    nothing = Compiled("SELECT 1 WHERE false")
    assert await platform.database.read_each(None, [GOOD, nothing, GOOD]) == [ANSWER, [], ANSWER]


async def test_a_text_that_contains_its_values_is_not_kept_in_memory(platform: Platform) -> None:
    """On a cluster each call has another one, of megabytes if many items are stored."""
    await platform.database.read(None, GOOD)
    before = round_trip._with_numbers.cache_info().misses  # noqa: SLF001
    assert await platform.database.read(None, Compiled("SELECT '%%', 7 %% 2")) == [("%", 1)]
    assert round_trip._with_numbers.cache_info().misses == before  # noqa: SLF001


async def test_a_statement_larger_than_the_socket_is_sent_in_pieces(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other tasks run between two statements, and each statement has its own answer."""
    turns = 0
    turns_when_sent = []
    send = round_trip._send  # noqa: SLF001 - tells when each statement goes out

    def sent(*given: Any) -> Any:
        turns_when_sent.append(turns)
        return send(*given)

    monkeypatch.setattr(round_trip, "_send", sent)

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    assert await platform.database.read_each(None, [LONG, GOOD] * 40) == [[(200_000,)], ANSWER] * 40
    task.cancel()
    assert turns_when_sent[-1] > turns_when_sent[0]


async def test_settings_and_tenant_hold_for_one_round_trip(database_url: str, settings: Settings) -> None:
    """On one connection, which the next caller gets without them."""
    async with connect(database_url, settings=settings.changed(pool_size=1)) as platform:
        first = await platform.database.read(5, TENANT, {"hnsw.ef_search": "77"})
        assert first == [("5", "77")]
        tenant, effort = (await platform.database.read(None, TENANT))[0]
        assert tenant == ""
        assert effort != "77"


@not_on_a_cluster("there a setting holds for a transaction, and the driver reads times after it")
async def test_times_are_in_utc(database_url: str, settings: Settings) -> None:
    """Whatever the time zone of the server or the login."""
    away = f"{database_url}{'&' if '?' in database_url else '?'}options=-ctimezone%3DAsia/Kolkata"
    statement = Compiled("SELECT timestamptz '2026-05-01T23:30+00:00', (timestamptz '2026-05-01T23:30+00:00')::date")
    async with connect(away, settings=settings) as platform:
        [[moment, day]] = await platform.database.read(None, statement)
    assert (moment.isoformat(), day.isoformat()) == ("2026-05-01T23:30:00+00:00", "2026-05-01")


@pytest.mark.parametrize("statements", [[BAD], [GOOD, BAD, GOOD], [BAD, BAD], [BAD] + [LONG] * 40])
async def test_a_failing_statement_leaves_the_connection_usable(
    database_url: str, settings: Settings, statements: list[Compiled]
) -> None:
    """The error is raised as the platform's, and the only connection serves the next caller."""
    async with connect(database_url, settings=settings.changed(pool_size=1)) as platform:
        process = Compiled("SELECT pg_backend_pid()")
        before = await platform.database.read(None, process)
        for _ in range(3):
            with pytest.raises(DatabaseError, match="division by zero"):
                await platform.database.read_each(None, statements)
            assert await platform.database.read(None, GOOD) == ANSWER
        assert await platform.database.read(None, process) == before


@pytest.mark.parametrize("before", [[], [GOOD, GOOD]])
async def test_a_connection_that_the_server_ends_is_an_error_with_its_reason(
    platform: Platform, database_url: str, before: list[Compiled]
) -> None:
    """Not only that the connection was lost: the reason may be a limit of time, such as ``transaction_timeout``."""
    sleeping = Compiled("SELECT pg_sleep(30), 'to be ended'")
    asked = asyncio.create_task(platform.database.write_each(None, [*before, sleeping]))
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other, asyncio.timeout(20):
        end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE %s"
        while not (await other.execute(end, ("%to be ended%",))).rowcount:
            pass
        with pytest.raises(DatabaseUnreachableError, match="terminating connection due to administrator command"):
            await asked
    assert await platform.database.read(None, GOOD) == ANSWER


async def test_a_failed_commit_is_an_error(database_url: str, platform: Platform) -> None:
    """A statement that was answered and then taken back at the end did not succeed; the connection stays usable."""
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as owner:
        table = sql.Identifier(SCHEMA, f"once_{uuid.uuid4().hex[:12]}")
        await owner.execute(sql.SQL("CREATE TABLE {} (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)").format(table))
        await owner.execute(sql.SQL("GRANT ALL ON {} TO {}").format(table, sql.Identifier(f"{SCHEMA}_app")))
        twice = sql.SQL("INSERT INTO {} VALUES (1), (1) RETURNING n").format(table).as_string()
        process = Compiled("SELECT pg_backend_pid()")
        before = await platform.database.read(None, process)
        with pytest.raises(DatabaseError, match="the database refused: duplicate key"):
            await platform.database.write(None, Compiled(twice))
        assert await platform.database.read(None, process) == before
        await owner.execute(sql.SQL("DROP TABLE {}").format(table))


async def test_a_value_that_cannot_be_sent_leaves_the_connection_usable(database_url: str, settings: Settings) -> None:
    """The error comes while the statements are put together, some of them sent already."""
    async with connect(database_url, settings=settings.changed(pool_size=1)) as platform:
        for _ in range(2):
            with pytest.raises(Exception, match="object"):
                await platform.database.read_each(None, [GOOD, Compiled("SELECT %(what)s", {"what": object()})])
            assert await platform.database.read(None, GOOD) == ANSWER


async def test_a_cancelled_read_does_not_answer_the_next_one(database_url: str, settings: Settings) -> None:
    """A caller that gives up in the middle takes its connection along; the next one reads its own answer."""
    async with connect(database_url, settings=settings.changed(pool_size=1)) as platform:
        for _ in range(3):
            slow = asyncio.create_task(platform.database.read(None, Compiled("SELECT 'late', pg_sleep(60)")))
            await _is_running(platform)
            slow.cancel()
            with pytest.raises(asyncio.CancelledError):
                await slow
            assert await platform.database.read(None, GOOD) == ANSWER


async def _is_running(platform: Platform) -> None:
    """Wait until the server works on the slow read."""
    async with platform.database.maintenance() as other:
        while True:
            cursor = await other.execute(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE datname = current_database() AND state = 'active' AND wait_event = 'PgSleep'"
            )
            row = await cursor.fetchone()
            if row is not None and row[0]:
                return
            await asyncio.sleep(0.01)
