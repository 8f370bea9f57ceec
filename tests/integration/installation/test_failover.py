"""A primary that dies, and a standby that takes its place: two real servers with streaming replication."""

from __future__ import annotations

import contextlib
import logging
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from retrieval import Collection, connect
from retrieval.adapters.store.installation.embedded.cluster import Cluster
from retrieval.adapters.store.installation.embedded.place import PORT, socket_directory
from retrieval.adapters.store.installation.embedded.server import start_embedded
from retrieval.adapters.store.installation.schema import upgrade
from retrieval.domain.errors import DatabaseError, DatabaseUnreachableError
from retrieval.settings import Settings
from tests.support.database import SCHEMA, make_fast
from tests.support.streaming import follow, standby_of

SETTINGS = Settings(embedder="none", database_schema=SCHEMA)


@dataclass(frozen=True)
class Pair:
    """A primary and its standby."""

    primary: Cluster
    standby: Cluster

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
        both = Pair(Cluster.at(folder / "primary"), standby)
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
