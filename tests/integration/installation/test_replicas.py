"""Searches read from replicas: a real server, and real streaming replicas of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from httpx2 import ASGITransport, AsyncClient

from retrieval import Collection, EmbeddingSpace, Platform, Profile, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store import replicas as reading
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.installation.embedded.home import PORT, socket_directory
from retrieval.adapters.store.installation.embedded.home_server import HomeServer
from retrieval.adapters.store.installation.embedded.server import start_embedded
from retrieval.adapters.store.installation.schema import upgrade
from retrieval.adapters.store.replicas import Replicas
from retrieval.domain.diagnosis import Severity
from retrieval.domain.errors import InvalidRequestError, UnknownCollectionError
from retrieval.domain.search.profile import LegName
from retrieval.settings import Settings
from retrieval.surfaces.http.app import create_app
from scripts.container_files import DOCKER
from tests.support.database import SCHEMA, make_fast
from tests.support.streaming import follow, standby_of

SOON_SECONDS = 20.0


@dataclass(frozen=True)
class Servers:
    """A primary and two streaming replicas of it."""

    primary: HomeServer
    replicas: tuple[HomeServer, HomeServer]

    def settings(self, tenant: str, **more: object) -> Settings:
        """Settings whose searches read from the first replica."""
        options = {"database_url": self.primary.url, "read_database_urls": (self.replicas[0].url,), **more}
        return Settings(embedder="none", database_schema=SCHEMA, tenant=tenant).changed(**options)

    def follow(self, *which: int) -> None:
        """Returns once these replicas have all that was committed."""
        for place in which or (0,):
            follow(self.primary, self.replicas[place])


@contextlib.contextmanager
def paused(*replicas: HomeServer) -> Iterator[None]:
    """Replicas that replay nothing meanwhile."""
    for replica in replicas:
        _execute(replica, "SELECT pg_wal_replay_pause()")
        # The call only asks for the pause: the server may replay another record before it.
        while _execute(replica, "SELECT pg_get_wal_replay_pause_state()") != ("paused",):
            time.sleep(0.01)
    try:
        yield
    finally:
        for replica in replicas:
            _execute(replica, "SELECT pg_wal_replay_resume()")


def _execute(server: HomeServer, statement: str) -> tuple[Any, ...] | None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        return connection.execute(statement.encode()).fetchone()


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """The servers, with the platform's schema."""
    folder = Path(tempfile.mkdtemp(prefix="retrieval-replicas-"))
    folder.chmod(0o755)  # root's servers run as another user
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        primary = stack.enter_context(start_embedded(folder / "primary"))
        make_fast(primary.url)
        upgrade(primary.url, SCHEMA)
        first, second = (stack.enter_context(standby_of(folder / "primary", folder / name)) for name in ("one", "two"))
        both = Servers(HomeServer.at(folder / "primary"), (first, second))
        both.follow(0, 1)
        yield both


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The statements that platforms send, by the server's URL."""
    reads: Counter[str] = Counter()
    send = Database._read  # noqa: SLF001 - what every call sends

    async def counting(
        self: Database, tenant_id: int | None, statements: Sequence[Compiled], settings: Mapping[str, str] | None
    ) -> list[list[tuple[Any, ...]]]:
        reads[self.url] += len(statements)
        return await send(self, tenant_id, statements, settings)

    monkeypatch.setattr(Database, "_read", counting)
    return reads


async def _ids(collection: Collection, token: str | None = None) -> list[str]:
    return sorted(hit.item_id for hit in await collection.search("hello", after_write=token))


async def _soon(platform: Platform, *, is_used: bool, which: int = 0) -> None:
    """Returns once the replica is read from, or is passed over."""
    until = time.monotonic() + SOON_SECONDS
    replicas = _replicas(platform)
    while bool(replicas.states[which].passed_over) is is_used:
        assert time.monotonic() < until, replicas.states
        await replicas.look()
        await asyncio.sleep(0.05)


def _replicas(platform: Platform) -> Replicas:
    assert platform.database.replicas is not None
    return platform.database.replicas


async def test_a_search_reads_from_the_replica_and_is_recorded_on_the_primary(
    servers: Servers, read: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The primary has one statement of a search: its record. Its size and profile are looked at once a second."""
    # No second passes, on a busy machine either.
    monkeypatch.setattr(reading, "LOOK_SECONDS", 60.0)
    async with Platform(servers.settings("reads", read_max_lag_seconds=60), clock=lambda: 0.0) as platform:
        docs = await platform.collection("docs")
        await docs.add([{"id": "a", "text": "hello"}])
        servers.follow()
        await _soon(platform, is_used=True)
        assert await _ids(docs) == ["a"]
        await platform.recorded()
        read.clear()
        result = await docs.search("hello")
        await platform.recorded()
        replica, primary = (read[server.url] for server in (servers.replicas[0], servers.primary))
        assert replica >= 1
        assert primary == 1, "the record"
        assert (await platform.retrieval(result.retrieval_id or "")).impressions[0].item_id == "a"


async def test_without_replicas_the_statements_are_the_same(servers: Servers, read: Counter[str]) -> None:
    """A search and a write send the same statements with the setting empty, whatever tokens there are."""
    async with connect(settings=servers.settings("without", read_database_urls=())) as platform:
        docs = await platform.collection("docs")
        report = await docs.add([{"id": "a", "text": "hello"}])
        assert report.token is None
        assert platform.database.replicas is None
        token = await platform.write_token()
        counts = []
        for write_token in (None, token):
            await docs.refresh()
            read.clear()
            await docs.search("hello", after_write=write_token)
            counts.append(read[servers.primary.url])
        assert counts == [1, 1]


async def test_a_token_is_honoured_while_replay_is_paused(servers: Servers) -> None:
    """With it a search sees the write, from the primary; without it, what the replica has. Each write gives one."""
    async with connect(settings=servers.settings("token", read_max_lag_seconds=60)) as platform:
        docs = await platform.collection("docs")
        await docs.add([{"id": "a", "text": "hello"}])
        servers.follow()
        await _soon(platform, is_used=True)
        assert await _ids(docs) == ["a"]
        with paused(servers.replicas[0]):
            added = await docs.add([{"id": "b", "text": "hello"}])
            assert added.token
            assert await _ids(docs) == ["a"]
            assert await _ids(docs.unrecorded()) == ["a", "b"], "by these it is decided what is written"
            assert await _ids(docs, added.token) == ["a", "b"]
            [each] = await docs.search_each(["hello"], after_write=added.token)
            assert len(each) == 2
            assert (await docs.complete("hel", after_write=added.token)).queries
            changed = await docs.change(["a"], lambda _, item: item and item.changed(body="goodbye"))
            assert await _ids(docs, changed.written.token) == ["b"]
            await docs.delete(["b"])
            assert await _ids(docs, await platform.write_token()) == []
            assert await _ids(docs) == ["a"]
        assert await _ids(docs, await platform.write_token()) == []


async def test_a_search_waits_for_a_replica_that_is_about_to_have_the_write(
    servers: Servers, read: Counter[str]
) -> None:
    """Replay goes on within the wait, and the replica answers."""
    async with connect(settings=servers.settings("waits", read_wait_seconds=20)) as platform:
        docs = await platform.collection("docs")
        await docs.add([{"id": "a", "text": "hello"}])
        servers.follow()
        await _replicas(platform).look()  # a replica whose state is not known is passed over
        with paused(servers.replicas[0]):
            token = (await docs.add([{"id": "b", "text": "hello"}])).token
            searching = asyncio.create_task(_ids(docs, token))
            await asyncio.sleep(0.3)
            assert not searching.done()
            read.clear()
        assert await searching == ["a", "b"]
        assert read[servers.replicas[0].url] > 1


async def test_a_replica_that_lags_is_passed_over_and_taken_again(servers: Servers) -> None:
    """No search reads a state older than the limit, with or without a token."""
    async with connect(settings=servers.settings("lag", read_max_lag_seconds=1)) as platform:
        docs = await platform.collection("docs")
        await docs.add([{"id": "a", "text": "hello"}])
        servers.follow()
        await _soon(platform, is_used=True)
        with paused(servers.replicas[0]):
            await docs.add([{"id": "b", "text": "hello"}])
            written = time.monotonic()
            began = time.monotonic()
            while await _ids(docs) == ["a"]:
                assert began < written + 1.5, "a search began with what was older than the bound"
                await asyncio.sleep(0.01)
                began = time.monotonic()
            await _soon(platform, is_used=False)
            [state] = _replicas(platform).states
            assert state.passed_over == "it lags behind"
            assert state.lag_seconds is not None
            assert state.lag_seconds > 1
        await _soon(platform, is_used=True)
        assert await _ids(docs) == ["a", "b"]


async def test_a_change_of_how_a_collection_is_searched_counts_at_once(servers: Servers) -> None:
    """A profile, a space and a declared attribute are in use once they are set, whatever replicas have."""
    async with connect(settings=servers.settings("changes", read_max_lag_seconds=60)) as platform:
        docs = await platform.collection("docs")
        await docs.add([{"id": "a", "text": "hello", "colour": "red"}])
        servers.follow()
        assert (await docs.search("hello")).profile_version == 1
        with paused(servers.replicas[0]):
            version = await docs.set_profile(Profile(legs={LegName.LEXICAL: 1.0}, depth=17))
            assert (await docs.search("hello")).profile_version == version
            await docs.make_filterable({"colour": "text"})
            assert len(await docs.search("hello", where={"colour": "red"})) == 1
            new = await platform.collection("new", space=EmbeddingSpace(provider="own", model="m", dimensions=2))
            await new.add([{"id": "v", "text": "hello"}], embeddings=np.eye(1, 2, dtype=np.float32))
            assert [hit.item_id for hit in await new.search(vector=[1.0, 0.0])] == ["v"]
        servers.follow()
        assert (await docs.search("hello", where={"colour": "red"})).profile_version == version


async def test_a_replica_keeps_tenants_apart(servers: Servers, read: Counter[str]) -> None:
    """Row-level security and the tenant's setting hold there; a tenant's search finds its own and no other's."""
    ours, theirs = servers.settings("ours"), servers.settings("theirs")
    async with connect(settings=ours) as our_platform, connect(settings=theirs) as other:
        mine, yours = await our_platform.collection("docs"), await other.collection("docs")
        await mine.add([{"id": "mine", "text": "hello"}])
        await yours.add([{"id": "yours", "text": "hello"}])
        await our_platform.collection("private")
        servers.follow()
        await _soon(our_platform, is_used=True)
        await _soon(other, is_used=True)
        for _ in range(2):
            assert await _ids(mine) == ["mine"]
            assert await _ids(yours) == ["yours"]
        async with our_platform.of_tenant("theirs") as third:
            assert await _ids(await third.collection("docs")) == ["yours"]
            with pytest.raises(UnknownCollectionError):
                await third.collection("private", create=False)
        assert read[servers.replicas[0].url] > 3
        await _soon(our_platform, is_used=True)
        there = await _replicas(our_platform).chosen()
        assert there is not None
        rows = await there.read(our_platform.tenant_id, Compiled("SELECT item_id FROM items"))
        assert rows == [("mine",)], "the statement names no tenant; the policy does"


async def test_nothing_is_written_through_a_replica(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches with every leg, signals, learning and exploration work on it; counts and feedback are the primary's."""
    settings = servers.settings("nothing").changed(embedder="hashing")
    async with connect(settings=settings, embedder=HashingEmbedder()) as platform:
        docs = await platform.collection("docs")
        await docs.add([{"id": f"i{n}", "title": "hello", "text": f"hello number {n}"} for n in range(20)])
        servers.follow()
        await _soon(platform, is_used=True)
        profile = Profile.from_dict(docs.profile.as_dict() | {"exploration": {"policy": "thompson_slots", "slots": 1}})
        await docs.set_profile(profile)
        servers.follow()
        errors: list[BaseException] = []
        monkeypatch.setattr(Replicas, "failed", lambda _self, _database, error: errors.append(error))
        result = await docs.search("hello", snippet=100, facets=["kind"], typos=True, limit=5)
        assert len(result) == 5
        assert len(await docs.search("helo", typos=True)) == 10
        assert not list(await docs.search("hello", where={"kind": "none"}))
        await platform.feedback(result.retrieval_id, result[0].item_id, helpful=True)
        assert (await docs.passages("hello")).text
        assert not errors, "nothing was repeated on the primary"


async def test_a_search_that_shows_what_was_removed_is_recorded(servers: Servers) -> None:
    """A replica that lags shows an item that is gone; the record is stored all the same."""
    async with connect(settings=servers.settings("removed", read_max_lag_seconds=60)) as platform:
        docs = await platform.collection("docs")
        await docs.add([{"id": "a", "text": "hello"}, {"id": "b", "text": "hello"}])
        servers.follow()
        await _soon(platform, is_used=True)
        with paused(servers.replicas[0]):
            await docs.delete(["a"])
            result = await docs.search("hello")
            assert len(result) == 2
            await platform.recorded()
            assert not platform.recording.lost


async def test_a_killed_replica_costs_no_search(servers: Servers, caplog: pytest.LogCaptureFixture) -> None:
    """Searches go on while one of two replicas, and then both, die by kill -9; started again, they are read from."""
    caplog.set_level(logging.CRITICAL)  # the pool logs each failed attempt
    urls = tuple(replica.url for replica in servers.replicas)
    async with connect(settings=servers.settings("killed", read_database_urls=urls)) as platform:
        docs = await platform.collection("docs")
        await docs.add([{"id": "a", "text": "hello"}])
        servers.follow(0, 1)
        await _soon(platform, is_used=True, which=0)
        await _soon(platform, is_used=True, which=1)
        finished = asyncio.Event()
        answered = 0

        async def ask() -> None:
            nonlocal answered
            while not finished.is_set():
                assert await _ids(docs) == ["a"]
                answered += 1

        asking = [asyncio.create_task(ask()) for _ in range(4)]
        for which, replica in enumerate(servers.replicas):
            await asyncio.sleep(0.3)
            _kill(replica)
            await _soon(platform, is_used=False, which=which)
        await asyncio.sleep(0.5)
        for which, replica in enumerate(servers.replicas):
            (await asyncio.to_thread(start_embedded, replica.home)).close()  # the fixture's lease still holds
            await _soon(platform, is_used=True, which=which)
        await asyncio.sleep(0.3)
        finished.set()
        await asyncio.gather(*asking)
        assert answered > 100
        await platform.recorded()
        assert not platform.recording.lost


def _kill(server: HomeServer) -> None:
    """Kill the postmaster and its children, like ``kill -9`` of the whole server."""
    pid = int((server.data / "postmaster.pid").read_text().split()[0])
    os.kill(pid, signal.SIGKILL)


async def test_an_unusable_replica_is_skipped(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The primary itself, a missing server and another server's copy are skipped and reported; searches work."""
    nobody = "postgresql://postgres@127.0.0.1:1/retrieval"
    empty = servers.replicas[0].url.replace("/retrieval?", "/postgres?")
    urls = (servers.primary.url, nobody, empty)
    async with connect(settings=servers.settings("no", read_database_urls=urls)) as platform:
        docs = await platform.collection("docs")
        await docs.add([{"id": "a", "text": "hello"}])
        assert await _ids(docs) == ["a"]
        itself, none, elsewhere = _replicas(platform).states
        assert itself.passed_over == "it is not a standby"
        assert "cannot reach PostgreSQL" in none.passed_over
        assert "that RETRIEVAL_READ_DATABASE_URLS is right" in none.passed_over
        assert re.fullmatch(r"schema .* is not set up .* names another database than .*", elsewhere.passed_over)
        assert none.server == "127.0.0.1:1, database 'retrieval'"
        await _replicas(platform).look()
        assert await _ids(docs) == ["a"]
    async with connect(settings=servers.settings("no")) as platform:
        await _soon(platform, is_used=True)
        monkeypatch.setattr(_replicas(platform), "_system", 1)
        await _soon(platform, is_used=False)
        assert _replicas(platform).states[0].passed_over.startswith("it is a copy of another database server")


@pytest.mark.parametrize("token", ["", "1", "0/0; DROP", "0/123456789"])
async def test_an_invalid_token_is_refused(servers: Servers, token: str) -> None:
    """The error says where to take one from."""
    async with connect(settings=servers.settings("tokens")) as platform:
        docs = await platform.collection("docs")
        with pytest.raises(InvalidRequestError, match="is not a token of a write; give the token as"):
            await docs.search("hello", after_write=token)


async def test_over_http_a_write_gives_a_token_and_a_search_shows_it(servers: Servers) -> None:
    """Each write has the header, and a stream's last line has the token; metrics and readiness show the replica."""
    settings = servers.settings("http", read_max_lag_seconds=60)
    app = create_app(settings, insecure_local=True)
    async with (
        app.router.lifespan_context(app),
        AsyncClient(transport=ASGITransport(app), base_url="http://localhost") as http,
    ):
        docs = "/v1/collections/docs"
        response = await http.put(docs, json={})
        assert response.headers["retrieval-write-token"]

        async def found(token: str | None = None) -> list[str]:
            headers = {} if token is None else {"Retrieval-After-Write": token}
            answer = await http.post(f"{docs}/search", json={"query": "hello"}, headers=headers)
            assert "retrieval-write-token" not in answer.headers
            return sorted(hit["id"] for hit in answer.raise_for_status().json()["hits"])

        await http.put(f"{docs}/items/a", json={"text": "hello"})
        servers.follow()
        assert (await http.get("/readyz")).json()["checks"]["replicas"] == "ok"
        assert await found() == ["a"]
        with paused(servers.replicas[0]):
            put = await http.put(f"{docs}/items/b", json={"text": "hello"})
            assert await found() == ["a"]
            assert await found(put.headers["retrieval-write-token"]) == ["a", "b"]
            streamed = await http.post(
                f"{docs}/items/bulk",
                content=b'{"_id": "c", "text": "hello"}\n',
                headers={"Content-Type": "application/x-ndjson"},
            )
            token = json.loads(streamed.text.splitlines()[-1])["summary"]["token"]
            assert await found(token) == ["a", "b", "c"]
            assert await found() == ["a"]
        refused = await http.post(f"{docs}/search", json={"query": "x"}, headers={"Retrieval-After-Write": "soon"})
        assert refused.status_code == 422
        assert "is not a token of a write" in refused.json()["detail"]


async def test_the_doctor_reports_on_replicas(servers: Servers) -> None:
    """The lag of a replica in use, and the reason why another is passed over."""
    nobody = "postgresql://postgres@127.0.0.1:1/retrieval"
    urls = (servers.replicas[0].url, nobody)
    async with connect(settings=servers.settings("doctor", read_database_urls=urls)) as platform:
        findings = [finding for finding in (await platform.doctor()).findings if finding.check == "replicas"]
        assert [finding.severity for finding in findings] == [Severity.WARNING]
        assert "pass over the replica at 127.0.0.1:1" in findings[0].found
    async with connect(settings=servers.settings("doctor")) as platform:
        [fine] = [finding for finding in (await platform.doctor()).findings if finding.check == "replicas"]
        assert fine.severity is Severity.OK
        assert re.search(r"is at most \d\.\d s behind", fine.found)


def test_the_container_of_a_replica_copies_the_primary_and_follows_it(servers: Servers) -> None:
    """``docker/replica/start.sh`` as the account that runs PostgreSQL; started again, it copies nothing."""
    binaries, home = servers.primary.binaries, Path(tempfile.mkdtemp(prefix="retrieval-container-"))
    script = home / "start.sh"
    shutil.copy(DOCKER / "replica" / "start.sh", script)
    data = home / "18" / "docker"
    binaries.account.own(home)
    user = binaries.account.uid if binaries.account.switch else None
    variables = {
        "PATH": f"{binaries.directory}:{os.environ['PATH']}",
        "PGDATA": str(data),
        "PGHOST": str(socket_directory(servers.primary.home)),
        "PGPORT": str(PORT),
        "PGUSER": "postgres",
        "LC_ALL": "C",
    }
    url = f"postgresql://postgres@/retrieval?host={home}&port={PORT}"
    folders: set[int] = set()
    command = [str(script), "-c", f"unix_socket_directories={home}", "-c", "listen_addresses="]
    try:
        for _ in range(2):
            with (home / "log").open("a") as log:
                running = subprocess.Popen(command, env=variables, cwd="/", stdout=log, stderr=log, user=user)
            try:
                until = time.monotonic() + SOON_SECONDS
                while (standby := _standby(url)) is None:
                    assert running.poll() is None, (home / "log").read_text()
                    assert time.monotonic() < until, (home / "log").read_text()
                    time.sleep(0.1)
                assert standby
                folders.add(data.stat().st_ino)
            finally:
                running.send_signal(signal.SIGINT)
                running.wait(SOON_SECONDS)
        assert len(folders) == 1, "it was copied once"
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _standby(url: str) -> bool | None:
    """Whether it is a standby; None while it does not answer."""
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            row = connection.execute("SELECT pg_is_in_recovery()").fetchone()
            return None if row is None else bool(row[0])
    except psycopg.OperationalError:
        return None
