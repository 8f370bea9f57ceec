"""A primary that dies, and a standby that takes its place: two real servers with streaming replication."""

from __future__ import annotations

import contextlib
import logging
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from retrieval import Collection, connect
from retrieval.adapters.store.installation.embedded.home import PORT, socket_directory
from retrieval.adapters.store.installation.embedded.home_server import HomeServer
from retrieval.adapters.store.installation.embedded.server import start_embedded
from retrieval.adapters.store.installation.schema import upgrade
from retrieval.domain.errors import DatabaseError, DatabaseUnreachableError
from retrieval.settings import Settings
from retrieval.sync import connect as connect_waiting
from tests.support.database import SCHEMA, make_fast
from tests.support.streaming import follow, standby_of

SETTINGS = Settings(embedder="none", database_schema=SCHEMA)


@dataclass(frozen=True)
class Pair:
    """A primary and its standby."""

    primary: HomeServer
    standby: HomeServer

    @property
    def url(self) -> str:
        """The URL that names both servers and requires the writable one."""
        hosts = ",".join(
            f"{quote(str(socket_directory(server.home)), safe='')}:{PORT}" for server in (self.primary, self.standby)
        )
        return f"postgresql://postgres@{hosts}/retrieval?target_session_attrs=read-write"

    def follow(self) -> None:
        """Returns once the standby has all that was committed."""
        follow(self.primary, self.standby)

    def kill_primary(self) -> None:
        """Ends the primary as a crash does, once the standby has all that was committed."""
        self.follow()
        self.primary.binaries.run("pg_ctl", "stop", "-m", "immediate", "-w", "-D", str(self.primary.data))

    def promote(self) -> None:
        """Makes a primary of the standby."""
        with psycopg.connect(self.standby.url, autocommit=True) as connection:
            assert connection.execute("SELECT pg_promote()").fetchone() == (True,)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Two servers, the second a streaming replica of the first, with the platform's schema."""
    folder = Path(tempfile.mkdtemp(prefix="retrieval-failover-"))
    folder.chmod(0o755)  # root's servers run as another user
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        primary = stack.enter_context(start_embedded(folder / "primary"))
        make_fast(primary.url)
        standby = stack.enter_context(standby_of(folder / "primary", folder / "standby"))
        both = Pair(HomeServer.at(folder / "primary"), standby)
        upgrade(both.url, SCHEMA)
        both.follow()
        yield both


async def _ids(collection: Collection) -> list[str]:
    return sorted(hit.item_id for hit in await collection.search("hello"))


async def test_a_standby_says_what_to_do(pair: Pair) -> None:
    """A URL that names the standby alone serves no write."""
    with pytest.raises(DatabaseError, match="a standby accepts no writes: name the primary"):
        async with connect(pair.standby.url, settings=SETTINGS) as platform:
            await platform.collection("docs")


async def test_a_promoted_standby_is_found_without_a_restart(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    """Acknowledged writes are there; failed writes are reported; searches and records continue."""
    caplog.set_level(logging.CRITICAL)  # the pool logs each failed attempt
    async with connect(pair.url, settings=SETTINGS) as platform:
        docs = await platform.collection("docs")
        await docs.add([{"id": "before", "text": "hello"}])
        assert await _ids(docs) == ["before"]
        pair.kill_primary()
        for call in (docs.search("hello"), docs.add([{"id": "between", "text": "hello"}])):
            with pytest.raises(DatabaseUnreachableError, match="cannot reach PostgreSQL at"):
                await call
        pair.promote()
        assert await _ids(docs) == ["before"]
        await docs.add([{"id": "after", "text": "hello"}])
        assert await _ids(docs) == ["after", "before"]
    async with connect(pair.standby.url, settings=SETTINGS) as platform:
        docs = await platform.collection("docs", create=False)
        assert await _ids(docs) == ["after", "before"]
    with psycopg.connect(pair.standby.url, autocommit=True) as connection:
        recorded = connection.execute("SELECT count(*) FROM retrieval.retrievals").fetchone()
        assert recorded == (4,), "each search that was answered is recorded"


@pytest.fixture
def branched() -> Iterator[tuple[str, str]]:
    """The URLs of a primary, which was promoted without the last writes, and of a replica that has them."""
    folder = Path(tempfile.mkdtemp(prefix="retrieval-failover-"))
    folder.chmod(0o755)
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        former = stack.enter_context(start_embedded(folder / "former"))
        make_fast(former.url)
        primary = stack.enter_context(standby_of(folder / "former", folder / "primary"))
        replica = stack.enter_context(standby_of(folder / "former", folder / "replica"))
        upgrade(former.url, SCHEMA)
        with connect_waiting(former.url, settings=SETTINGS) as platform:
            platform.collection("docs").add([{"id": "old", "text": "hello"}])
        follow(HomeServer.at(folder / "former"), primary)
        _execute(primary.url, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
        while _execute(primary.url, "SELECT count(*) FROM pg_stat_wal_receiver") != (0,):
            time.sleep(0.05)
        # More than the new primary writes by itself.
        _execute(former.url, "CREATE TABLE lost AS SELECT repeat('x', 90) FROM generate_series(1, 200000)")
        follow(HomeServer.at(folder / "former"), replica)
        replica.binaries.run("pg_ctl", "stop", "-m", "immediate", "-w", "-D", str(folder / "former" / "data"))
        assert _execute(primary.url, "SELECT pg_promote()") == (True,)
        server = f"host={socket_directory(primary.home)} port={PORT} user=postgres"
        _execute(replica.url, f"ALTER SYSTEM SET primary_conninfo = '{server}'", "SELECT pg_reload_conf()")
        yield primary.url, replica.url


def _execute(url: str, *statements: str) -> tuple[Any, ...] | None:
    with psycopg.connect(url, autocommit=True) as connection:
        rows = [
            cursor.fetchone() for cursor in map(connection.execute, map(str.encode, statements)) if cursor.description
        ]
        return rows[-1] if rows else None


async def test_a_replica_with_writes_that_a_failover_lost_is_passed_over(branched: tuple[str, str]) -> None:
    """By its position it has each new write; it has none, and cannot follow the new primary."""
    primary, replica = branched
    settings = SETTINGS.changed(read_database_urls=(replica,), read_max_lag_seconds=5.0)
    async with connect(primary, settings=settings) as platform:
        docs = await platform.collection("docs")
        for number in range(3):
            report = await docs.add([{"id": f"new-{number}", "text": f"hello{number}"}])
            hits = await docs.search(f"hello{number}", after_write=report.token)
            assert [hit.item_id for hit in hits] == [f"new-{number}"]
        assert platform.database.replicas is not None
        await platform.database.replicas.look()
        [state] = platform.database.replicas.states
        assert state.passed_over.startswith("it has data that the primary does not have")
        _execute(primary, "CREATE TABLE more AS SELECT repeat('x', 90) FROM generate_series(1, 300000)")
        for _ in range(2):  # the primary has passed the replica's position, and notes a later one
            await platform.database.replicas.look()
            [state] = platform.database.replicas.states
            assert state.passed_over.startswith("it has data that the primary does not have")
