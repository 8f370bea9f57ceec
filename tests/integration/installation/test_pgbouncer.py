"""Behind PgBouncer in transaction mode: everything works on two server connections, and nothing stays set on them."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from pydantic import SecretStr

from retrieval import Collection, Platform, Settings, connect, read_items
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.installation.backup import back_up
from retrieval.adapters.store.installation.schema import downgrade, upgrade
from retrieval.domain.errors import DatabaseError, UnsupportedDatabaseError
from retrieval.domain.search.hit import Path as SearchPath
from retrieval.jobs.registry import JOBS
from retrieval.jobs.run import RunReport
from retrieval.jobs.worker import work
from retrieval.services.doctor.diagnose import examine
from retrieval.services.indexes import IndexOutcome, keep_index

PROGRAM = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")

pytestmark = pytest.mark.skipif(
    PROGRAM is None,
    reason="NOT TESTED: pgbouncer is not installed (apt-get install pgbouncer, brew install pgbouncer)",
)

CONFIGURATION = """
[databases]
* = {server}
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {directory}
auth_type = any
pool_mode = transaction
default_pool_size = 2
max_client_conn = 100
"""


@contextmanager
def bouncer(url: str) -> Iterator[str]:
    """The URL of the same database through a PgBouncer."""
    parts = conninfo_to_dict(url)
    server = " ".join(f"{name}={parts[name]}" for name in ("host", "port", "user", "password") if parts.get(name))
    directory = Path(tempfile.mkdtemp(prefix="retrieval-pgbouncer-"))
    configuration = directory / "pgbouncer.ini"
    configuration.write_text(CONFIGURATION.format(server=server, directory=directory))
    user: list[str] = []
    # PgBouncer refuses to run as root, like the server.
    if os.geteuid() == 0:
        user = ["-u", _other_user()]
        shutil.chown(directory, _other_user())
    process = subprocess.Popen([str(PROGRAM), "-q", *user, str(configuration)])
    try:
        through = f"postgresql://anybody@/{parts['dbname']}?host={directory}&port=6432"
        _await_answer(through, process)
        yield through
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(directory)


def _other_user() -> str:
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _await_answer(url: str, process: subprocess.Popen[bytes]) -> None:
    while True:
        assert process.poll() is None, "pgbouncer ended; what it said is above"
        try:
            psycopg.connect(url, connect_timeout=5).close()
        except psycopg.OperationalError:
            continue
        return


@pytest.fixture
def through(database_url: str) -> Iterator[str]:
    """This process's database through PgBouncer."""
    with bouncer(database_url) as url:
        yield url


def _lines(path: Path, word: str, number: int) -> str:
    path.write_text(
        "".join(f'{{"_id": "{place}", "text": "shared {word} word{place}", "n": {place}}}\n' for place in range(number))
    )
    return str(path)


async def _searched(collection: Collection, word: str, number: int) -> None:
    hits = await collection.search(f"shared word{number}", where={"n": number} if number % 2 else None, limit=3)
    assert hits[0].item_id == str(number)
    assert all(word in hit.body for hit in hits)


async def test_two_tenants_search_and_write_at_once(through: str, settings: Settings, tmp_path: Path) -> None:
    """Searches and writes of two tenants share two server connections, and each sees its own."""
    other = settings.changed(tenant=f"{settings.tenant}-other")
    async with (
        connect(through, settings=settings, embedder=HashingEmbedder()) as first,
        connect(through, settings=other, embedder=HashingEmbedder()) as second,
    ):
        mine, theirs = await first.collection("docs"), await second.collection("docs")
        reports = await asyncio.gather(
            mine.ingest(read_items(_lines(tmp_path / "mine.jsonl", "mine", 600))),
            theirs.ingest(read_items(_lines(tmp_path / "theirs.jsonl", "theirs", 600))),
        )
        assert [report.items.embedded for report in reports] == [600, 600]
        await asyncio.gather(
            *(_searched(mine, "mine", number) for number in range(20)),
            *(_searched(theirs, "theirs", number) for number in range(20)),
            mine.add([{"_id": "more", "text": "shared mine"}]),
        )
    await _assert_nothing_is_left(through)


async def _assert_nothing_is_left(url: str) -> None:
    """Role, search path, tenant and search settings of both server connections are those of a new connection."""
    query = (
        "SELECT pg_backend_pid(), current_user = session_user, "
        "current_setting('search_path') = (SELECT reset_val FROM pg_settings WHERE name = 'search_path'), "
        "coalesce(current_setting('retrieval.tenant', true), ''), current_setting('enable_sort'), "
        "coalesce(current_setting('hnsw.iterative_scan', true), 'off'), "
        "(SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' "
        "AND pid = pg_backend_pid())"
    )
    settings_by_backend: dict[int, Any] = {}
    async with await psycopg.AsyncConnection.connect(url) as first, await psycopg.AsyncConnection.connect(url) as two:
        for connection in (first, two):
            row = await (await connection.execute(query)).fetchone()
            assert row is not None
            settings_by_backend[row[0]] = row[1:]
    assert len(settings_by_backend) == 2
    assert set(settings_by_backend.values()) == {(True, True, "", "on", "off", 0, 0)}


async def test_an_index_is_built_and_walked(through: str, settings: Settings) -> None:
    """Index builds run outside a transaction, and the settings of an approximate search apply only to that search."""
    async with connect(through, settings=settings, embedder=HashingEmbedder()) as platform:
        collection = await platform.collection("docs")
        await collection.add([{"_id": str(number), "text": f"word{number}"} for number in range(50)])
        stored = await collection.refresh()
        assert await keep_index(platform.database, platform.tenant_id, stored, rows=50) is IndexOutcome.BUILT
        await collection.refresh()
        hits = await collection.search("word7", legs=["dense"])
        assert (hits[0].item_id, hits.path) == ("7", SearchPath.APPROXIMATE)
        await _assert_nothing_is_left(through)


async def test_upkeep_that_the_logins_limit_ended_says_how_to_lift_it(
    new_database: Callable[..., str], settings: Settings
) -> None:
    """Behind the pooler nothing can lift it, so trying again would not help; the doctor says so before."""
    url = new_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET statement_timeout = '2s'")
    with bouncer(url) as limited:
        own = settings.changed(database_url=SecretStr(limited))
        async with connect(settings=own, embedder=HashingEmbedder()) as platform:
            remedy = r"cannot be lifted.* is stored; run: ALTER ROLE .* jobs run indexes"
            with pytest.raises(DatabaseError, match=remedy):
                async with platform.database.maintenance() as connection_:
                    await connection_.execute("SELECT pg_sleep(20)")
        advice = [finding for finding in (await examine(own)).findings if "behind a pooler" in finding.found]
        assert [finding.check for finding in advice] == ["login"]


async def test_a_schema_is_set_up_and_removed(new_database: Callable[..., str], settings: Settings) -> None:
    """Migrations need no session of their own: not for their lock, nor for their settings."""
    with bouncer(new_database(empty=True)) as url:
        schema = f"bounced_{settings.tenant[-12:]}"
        await asyncio.gather(*(asyncio.to_thread(upgrade, url, schema) for _ in range(2)))
        async with connect(url, settings=settings.changed(database_schema=schema)) as platform:
            assert await platform.collections() == []
        await _assert_nothing_is_left(url)
        downgrade(url, schema, "base")


def test_a_backup_is_refused(through: str, tmp_path: Path) -> None:
    """It would leave its settings on connections of other clients, whose searches would fail."""
    with pytest.raises(UnsupportedDatabaseError, match="is a pooler: name the server itself in RETRIEVAL_DATABASE_URL"):
        back_up(through, tmp_path / "backup", datetime.now(UTC))
    assert not any(tmp_path.iterdir())


async def test_a_cancelled_search_gives_its_server_connection_back(through: str, settings: Settings) -> None:
    """Cancelling more searches than there are server connections leaves them free."""
    async with connect(through, settings=settings, embedder=HashingEmbedder()) as platform:
        await _cancel_many(platform)
        collection = await platform.collection("docs")
        await collection.add([{"_id": "1", "text": "the cat"}])
        assert [hit.item_id for hit in await collection.search("cat")] == ["1"]
        await _assert_nothing_is_left(through)


async def test_a_worker_works_through_it_by_polling(new_database: Callable[..., str], settings: Settings) -> None:
    """The queue needs no session: it is looked at, filled and emptied in transactions of its own."""
    due = dict.fromkeys(JOBS, "off") | {"prune": "* * * * *"}
    own = settings.changed(jobs_schedule=due, worker_listen=False, worker_poll_seconds=0.05)
    with bouncer(new_database()) as url:
        async with connect(url, settings=own, embedder=HashingEmbedder()) as platform:
            await platform.collection("docs")
            stop = asyncio.Event()
            outcomes: list[str] = []

            def report(run: RunReport) -> None:
                outcomes.append(f"{run.job} {run.outcome}")
                stop.set()

            await work(platform.workplace, stop, report=report)
            assert outcomes == ["prune done"]
        await _assert_nothing_is_left(url)


async def _cancel_many(platform: Platform) -> None:
    for steps in range(6):
        task = asyncio.create_task(platform.collections())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
