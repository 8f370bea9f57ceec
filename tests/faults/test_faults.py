"""Real processes are killed, connections reset and clocks set at random, while items, feedback and records are written.

Two clients write to the database and one to the HTTP service, and a worker runs the jobs. Server, service and worker
have one clock.

Afterwards what was acknowledged is there once, the service has recovered by itself, and the deep examination is clean.
``make test-faults`` goes on for minutes and writes the table of benchmarks/results/faults.md. Without it, a run makes
half of the faults, chosen anew each time, and the clients pause between their steps.
``RETRIEVAL_TEST_SEED`` repeats a run's choices.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import psutil
import psycopg
import pytest
from psycopg import sql

from retrieval import Collection, Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.installation.embedded.binaries import Binaries
from retrieval.adapters.store.installation.embedded.home import PORT, socket_directory
from retrieval.adapters.store.installation.embedded.home_server import HomeServer
from retrieval.adapters.store.installation.embedded.server import start_embedded
from retrieval.adapters.store.installation.schema import upgrade
from retrieval.domain.diagnosis import Severity
from retrieval.domain.errors import RetrievalError
from retrieval.jobs.registry import JOBS
from retrieval.services import indexes
from tests.support.database import SCHEMA
from tests.support.forked_program import forking
from tests.support.proxy import Proxy
from tests.support.searching import measure_by_few

SEED = int(os.environ.get("RETRIEVAL_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
SECONDS = float(os.environ.get("RETRIEVAL_TEST_FAULTS_SECONDS", "0"))
"""Faults go on for so long, and each is made at least once; without a time, half of them are."""
HALF, PAUSE = 6, 0.0 if SECONDS else 0.3
"""So many of the faults are made without a time, and the seconds between a client's steps, which would take all of the
processors that other tests need."""
TABLE = Path(__file__).parents[2] / "benchmarks" / "results" / "faults.md"
NOTES, CLOCK, SERVER_CLOCK = "acknowledged.txt", "clock.txt", "server-clock.txt"
RECOVERED_SECONDS = 120.0
"""Also on a busy machine, where a program takes many seconds to start."""
WRITERS = ("direct", "proxied", "http")
SCHEDULE = {
    **dict.fromkeys(JOBS, "* * * * * */5"),
    # A split has the index to itself, and the processors are needed for the rest.
    **dict.fromkeys(("reembed", "indexes", "recall", "reindex", "clusters", "learn"), "off"),
    # These always find work, which shows that the worker works.
    **dict.fromkeys(("statistics", "prune"), "* * * * * *"),
}
FAKETIME = next(
    (
        found
        for pattern in ("lib/*/faketime", "lib/faketime", "lib64/faketime", "local/lib/faketime")
        for found in Path("/usr").glob(f"{pattern}/libfaketime.so.1")
    ),
    None,
)
"""The library that gives a process another clock: Debian's ``libfaketime``."""
INDEXED = 20
"""The items from which on the collection has an index here, which is split."""


def _settings() -> Settings:
    # A writer inherits the environment of its fork server, which may name another tenant.
    return Settings(tenant="faults", database_schema=SCHEMA, pool_size=3, pool_timeout_seconds=20, embedder="none")


def _index_soon(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(indexes, "index_rows", lambda _dimensions: INDEXED)
    measure_by_few(patch)


def write(url: str, home: str, name: str) -> None:
    """Add, change, search and rate, and log each acknowledged call, until the process is killed."""
    notes, clock = Path(home) / NOTES, Path(home) / CLOCK
    _index_soon(pytest.MonkeyPatch())

    async def step(platform: Platform, docs: Collection, number: int) -> str:
        item = f"{name}-{number}"
        await docs.add([{"_id": item, "text": f"thing {item}", "tags": [f"t{number % 3}"], "n": number}])
        if number % 5 == 4:
            await docs.add([{"_id": item, "text": f"changed thing {item}", "tags": ["changed"], "n": -number}])
        hits = await docs.search(f"thing {item}", limit=3)
        key = str(uuid.uuid4())
        for _ in range(2):  # a repetition counts once
            await platform.feedback(hits.retrieval_id, hits[0].item_id, helpful=True, key=key)
        return f"{item} {hits.retrieval_id}\n"

    async def work() -> None:
        number = 0
        while True:
            with suppress(RetrievalError):
                settings = _settings().changed(database_url=url)
                jumps = partial(_jumping, clock)
                async with Platform(settings, embedder=HashingEmbedder(64), wall_clock=jumps) as platform:
                    docs = await platform.collection("docs")
                    while True:
                        number += 1
                        note = await step(platform, docs, number)
                        with notes.open("a") as file:
                            file.write(note)
                        await asyncio.sleep(PAUSE)
            await asyncio.sleep(0.05)

    asyncio.run(work())


def post(address: str, home: str, name: str) -> None:
    """Do the same over HTTP, and send each write twice, with one key, until the process is killed."""
    notes = Path(home) / NOTES
    number = 0
    with httpx2.Client(base_url=f"{address}/v1/", timeout=20) as client:

        def answer(path: str, body: dict[str, Any], **headers: str) -> Any:
            return client.post(path, json=body, headers=headers).raise_for_status().json()

        def write_twice(path: str, body: dict[str, Any]) -> None:
            key = str(uuid.uuid4())
            for _ in range(2):
                answer(path, body, **{"Idempotency-Key": key})

        while True:
            number += 1
            item = f"{name}-{number}"
            try:
                write_twice("collections/docs/items", {"items": [{"_id": item, "text": f"thing {item}", "n": number}]})
                found = answer("collections/docs/search", {"query": f"thing {item}", "limit": 3})
                verdict = {"retrieval_id": found["retrieval_id"], "item_id": found["hits"][0]["id"], "helpful": True}
                write_twice("feedback", {**verdict, "key": str(uuid.uuid4())})
                with notes.open("a") as file:
                    file.write(f"{item} {found['retrieval_id']}\n")
                time.sleep(PAUSE)
            except httpx2.HTTPError:
                time.sleep(0.05)


def split(url: str, parts: int) -> None:
    """Divide the collection's index into that many parts, until the process is killed."""
    _index_soon(pytest.MonkeyPatch())

    async def work() -> None:
        async with Platform(_settings().changed(database_url=url), embedder=HashingEmbedder(64)) as platform:
            await platform.split("docs", parts)

    with suppress(RetrievalError):
        asyncio.run(work())


def _jumping(clock: Path) -> float:
    """The time of day, as far off as the file says."""
    return time.time() + float(clock.read_text() or 0)


@dataclass
class Place:
    """A server, its proxy, the HTTP service, the worker and the writers."""

    home: Path
    leases: ExitStack
    chance: random.Random
    url: str = ""
    proxied: str = ""
    proxy: Proxy = field(init=False)
    address: str = ""
    writers: dict[str, Any] = field(default_factory=dict)
    programs: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    started: int = 0
    clock_hours: int = 0

    def __post_init__(self) -> None:
        self.proxy = Proxy(lambda: (str(socket_directory(self.home / "server")), PORT))
        self.set_clock(0)

    @property
    def notes(self) -> Path:
        """The file with a line for each acknowledged step."""
        return self.home / NOTES

    def start_server(self) -> None:
        """Start it, or join it."""
        self.url = self.leases.enter_context(start_embedded(self.home / "server")).url

    def start_writer(self, kind: str) -> None:
        """A process with a name of its own."""
        self.started += 1
        name = f"{kind}{self.started}"
        target = post if kind == "http" else write
        to = {"direct": self.url, "proxied": self.proxied, "http": self.address}[kind]
        self.writers[name] = forking().Process(target=target, args=(to, str(self.home), name))
        self.writers[name].start()

    def start_program(self, *arguments: str) -> None:
        """The program in a process with the server's clock; it writes to files."""
        variables = {
            "RETRIEVAL_DATABASE_URL": self.url,
            "RETRIEVAL_TENANT": "faults",
            "RETRIEVAL_EMBEDDER": "none",
            "RETRIEVAL_JOBS_SCHEDULE": json.dumps(SCHEDULE),
            "RETRIEVAL_WORKER_POLL_SECONDS": "0.5",
            "RETRIEVAL_WORKER_STALLED_SECONDS": "3",
        }
        command = [sys.executable, "-m", "retrieval.surfaces.cli", *arguments]
        environment = {**os.environ, **variables, **clocked(self.home, "libfaketimeMT.so.1")}
        out, log = ((self.home / f"{arguments[0]}.{ending}").open("ab") for ending in ("out", "log"))
        with out, log:
            self.programs[arguments[0]] = subprocess.Popen(command, env=environment, stdout=out, stderr=log)

    def start_worker(self) -> None:
        """Run the jobs."""
        self.start_program("worker", "--json")

    def start_service(self) -> None:
        """Serve over HTTP, at the same address each time."""
        if not self.address:
            with socket.create_server(("127.0.0.1", 0)) as free:
                self.address = f"http://127.0.0.1:{free.getsockname()[1]}"
        self.start_program("serve", "--insecure-local", "--port", self.address.rpartition(":")[2])

    def set_clock(self, seconds: float) -> None:
        """Set the clock of server, service and worker that much ahead."""
        place = self.home / SERVER_CLOCK
        # Renamed, so that nobody reads half a number.
        written = place.with_suffix(".new")
        written.write_text(f"{seconds:+.0f}")
        written.rename(place)

    def kill(self, name: str) -> None:
        """End a program wherever it is."""
        self.programs[name].kill()
        self.programs[name].wait()

    async def kill_worker(self) -> None:
        """The worker dies wherever it is; another takes up its jobs."""
        self.kill("worker")
        self.start_worker()

    async def kill_service(self) -> None:
        """The HTTP service dies wherever it is, and is started again."""
        self.kill("serve")
        self.start_service()

    async def kill_client(self) -> None:
        """A writer dies wherever it is; another comes."""
        name = self.chance.choice(sorted(self.writers))
        writer = self.writers.pop(name)
        writer.kill()
        await asyncio.to_thread(writer.join)
        self.start_writer(name.rstrip("0123456789"))

    async def kill_split(self) -> None:
        """A split of the collection's index dies wherever it is; the next one goes on from there."""
        dividing = forking().Process(target=split, args=(self.url, self.chance.choice([1, 2, 3, 4])))
        dividing.start()
        await asyncio.to_thread(dividing.join, self.chance.uniform(0.2, 2.0))
        dividing.kill()
        await asyncio.to_thread(dividing.join)

    async def kill_backend(self) -> None:
        """A server process dies: PostgreSQL ends all others and recovers."""
        with psycopg.connect(self.url) as connection:
            own = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            pids = [row[0] for row in connection.execute(own).fetchall()]
        if pids:
            with suppress(ProcessLookupError):
                os.kill(self.chance.choice(pids), signal.SIGKILL)

    async def kill_server(self) -> None:
        """Kill the server; the next client starts it again."""
        pid = HomeServer.at(self.home / "server").pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await asyncio.to_thread(self.start_server)

    async def start_two_servers(self) -> None:
        """The server dies, and two start it at once: one starts it, and the other joins."""
        pid = HomeServer.at(self.home / "server").pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await asyncio.gather(*(asyncio.to_thread(self.start_server) for _ in range(2)))

    async def end_statements(self) -> None:
        """An administrator ends every connection."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )

    async def fill_disk(self) -> None:
        """No file of the server can grow for a second: its log of writes neither, so that it ends itself."""
        cluster = HomeServer.at(self.home / "server")
        pid = cluster.pid()
        assert pid is not None
        for size in ("0", "unlimited"):
            with suppress(psutil.NoSuchProcess):
                for process in (pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))):
                    # Only the server's own user may do this.
                    Binaries(Path("/usr/bin"), cluster.binaries.account).run(
                        "prlimit", f"--pid={process}", f"--fsize={size}:"
                    )
            await asyncio.sleep(1)
        await asyncio.to_thread(self.start_server)

    async def jump_clock(self) -> None:
        """The clocks of the writers go days back, or up to a year ahead, and right again."""
        clock = self.home / CLOCK
        clock.write_text(str(self.chance.choice([-3, 1, 40, 400]) * 86400))
        await asyncio.sleep(1)
        clock.write_text("0")

    async def jump_server_clock(self) -> None:
        """The clock of server, service and worker goes hours or weeks ahead or back, until it jumps again."""
        hours = [-960, -30, -2, 0, 2, 30, 960]
        self.clock_hours = self.chance.choice([other for other in hours if other != self.clock_hours])
        self.set_clock(self.clock_hours * 3600)

    async def reset_connections(self) -> None:
        """The network resets what goes through the proxy."""
        self.proxy.reset()

    async def stall_connections(self) -> None:
        """Stop the network for a second."""
        await self.proxy.stall(1)

    def runs(self) -> int:
        """The number of jobs that the workers did."""
        return (self.home / "worker.out").read_text().count('"outcome": "done"')

    def mended(self) -> list[dict[str, Any]]:
        """The reports of the jobs that found rows to correct."""
        reports = []
        for line in (self.home / "worker.out").read_text().splitlines():
            with suppress(ValueError):  # a worker was killed while it wrote the line
                reports.append(json.loads(line))
        return [report for report in reports if report["details"].get("mended")]

    def steps(self) -> Counter[str]:
        """The number of acknowledged steps of each writer."""
        return Counter(item.partition("-")[0] for item in self.acknowledged())

    def acknowledged(self) -> dict[str, str]:
        """The items that were acknowledged, each with its search."""
        lines = self.notes.read_text().splitlines(keepends=True) if self.notes.exists() else []
        return dict(line.split() for line in lines if line.endswith("\n"))


FAULTS: dict[str, Callable[[Place], Any]] = {
    "client killed (kill -9)": Place.kill_client,
    "worker killed (kill -9)": Place.kill_worker,
    "HTTP service killed (kill -9)": Place.kill_service,
    "split of the index killed (kill -9)": Place.kill_split,
    "backend killed (kill -9)": Place.kill_backend,
    "server killed (kill -9)": Place.kill_server,
    "server killed, started by two at once": Place.start_two_servers,
    "disk full for a second": Place.fill_disk,
    "clocks of the clients jump": Place.jump_clock,
    "clock of server, service and worker jumps": Place.jump_server_clock,
    "connections ended by the server": Place.end_statements,
    "connections reset by a proxy": Place.reset_connections,
    "connections stalled by a proxy": Place.stall_connections,
}
UNTRIED = {}
"""The faults that cannot be made on this machine, with the reason."""
if shutil.which("prlimit") is None:
    UNTRIED["disk full for a second"] = "needs prlimit, of Linux"
if FAKETIME is None:
    UNTRIED["clock of server, service and worker jumps"] = "needs libfaketime: apt install libfaketime"


def clocked(home: Path, library: str) -> dict[str, str]:
    """The variables of a process whose time of day is as far off as a file says; its other clocks are right."""
    if FAKETIME is None:
        return {}
    return {
        "LD_PRELOAD": str(FAKETIME.with_name(library)),
        "FAKETIME_TIMESTAMP_FILE": str(home / SERVER_CLOCK),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
    }


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A server of this test's own, and processes that are gone afterwards."""
    home = Path(tempfile.mkdtemp(prefix="retrieval-faults-"))
    home.chmod(0o755)
    run = Binaries.run

    def run_clocked(
        programs: Binaries, *arguments: str, variables: dict[str, str] | None = None, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        own = clocked(home, "libfaketime.so.1")
        return run(programs, *arguments, variables={**(variables or {}), **own}, **options)

    monkeypatch.setattr(Binaries, "run", run_clocked)
    with ExitStack() as leases:
        (home / CLOCK).write_text("0")
        opened = Place(home, leases, random.Random(SEED))
        opened.start_server()
        upgrade(opened.url, SCHEMA)
        try:
            yield opened
        finally:
            for writer in opened.writers.values():
                writer.kill()
                writer.join()
            for name in opened.programs:
                opened.kill(name)
    HomeServer.at(home / "server").stop(timeout_seconds=30)
    shutil.rmtree(home, ignore_errors=True)


def _chosen(chance: random.Random, until: float) -> Iterator[str]:
    """Each fault once in a random order, and again until the time is over; without a time, half of them."""
    tried = sorted(FAULTS.keys() - UNTRIED.keys())
    if not SECONDS:
        yield from chance.sample(tried, HALF)
        return
    yield from chance.sample(tried, len(tried))
    while True:
        for name in chance.sample(tried, len(tried)):
            if time.monotonic() >= until:
                return
            yield name


async def _recovered(place: Place, since: float) -> float:
    """Seconds until a step that each writer began afterwards was acknowledged, and the worker did a job."""
    steps, runs = place.steps(), place.runs()

    def waiting() -> list[str]:
        writers = [name for name in place.writers if place.steps()[name] < steps[name] + 2]
        # Two jobs may have been running.
        return writers or (["worker"] if place.runs() < runs + 3 else [])

    while still := waiting():
        assert time.monotonic() - since < RECOVERED_SECONDS, f"{still} did nothing again; RETRIEVAL_TEST_SEED={SEED}"
        await asyncio.sleep(0.02)
    return time.monotonic() - since


async def _lost_and_doubled(place: Place, docs: Collection, number: int) -> tuple[int, int]:
    """The acknowledged items and verdicts that are missing, and those that exist twice."""
    acknowledged = place.acknowledged()

    def counts(connection: psycopg.Connection[Any], table: str, column: str) -> dict[str, int]:
        query = "SELECT {}::text, count(*) FROM {} WHERE collection_id = %s GROUP BY 1"
        named = sql.SQL(query).format(sql.Identifier(column), sql.Identifier(SCHEMA, table))
        return dict(connection.execute(named, (number,)).fetchall())

    with psycopg.connect(place.url) as connection:
        there = counts(connection, "items", "item_id")
        verdicts = counts(connection, "feedback", "retrieval_id")
        recorded = counts(connection, "retrievals", "retrieval_id")
    missing = sum(item not in there for item in acknowledged)
    missing += sum(
        retrieval_id not in verdicts or retrieval_id not in recorded for retrieval_id in acknowledged.values()
    )
    doubled = sum(
        verdicts.get(retrieval_id, 0) > 1 or recorded.get(retrieval_id, 0) > 1 for retrieval_id in acknowledged.values()
    )
    hits = await docs.search("thing", limit=500)
    doubled += len(hits) - len({hit.item_id for hit in hits})
    return missing, doubled


async def test_nothing_acknowledged_is_lost_and_the_service_recovers(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each fault at a random point, in a random order, until the time is over."""
    _index_soon(monkeypatch)
    sys.stderr.write(f"RETRIEVAL_TEST_SEED={SEED}\n")
    for name, reason in UNTRIED.items():
        sys.stderr.write(f"NOT TESTED: {name}: {reason}\n")
    port = await place.proxy.start()
    place.proxied = f"postgresql://postgres@127.0.0.1:{port}/retrieval"
    async with connect(place.url, settings=_settings(), embedder=HashingEmbedder(64)) as platform:
        await platform.collection("docs")
    place.start_service()
    place.start_worker()
    for kind in WRITERS:
        place.start_writer(kind)
    seconds: dict[str, list[float]] = defaultdict(list)
    losses: dict[str, int] = defaultdict(int)
    doubled: dict[str, int] = defaultdict(int)
    until = time.monotonic() + SECONDS
    await _recovered(place, time.monotonic())
    for name in _chosen(place.chance, until):
        await asyncio.sleep(place.chance.uniform(0.1, 1.0))
        since = time.monotonic()
        await FAULTS[name](place)
        seconds[name].append(await _recovered(place, since))
        async with connect(place.url, settings=_settings(), embedder=HashingEmbedder(64)) as platform:
            docs = await platform.collection("docs")
            missing, twice = await _lost_and_doubled(place, docs, (await docs.refresh()).collection_id)
        losses[name] += missing
        doubled[name] += twice
    for writer in place.writers.values():
        writer.kill()
    for name in place.programs:
        place.kill(name)
    place.set_clock(0)
    await place.proxy.stop()
    rows = [
        f"| {name} | not tested: {UNTRIED[name]} | | | |"
        if name in UNTRIED
        else f"| {name} | {len(times)} | {losses[name]} | {doubled[name]} | {max(times, default=0):.1f} |"
        for name in FAULTS
        for times in [seconds[name]]
    ]
    head = ["| Fault | times | lost | doubled | seconds to recover, at most |", "|---|---|---|---|---|"]
    report = "\n".join([*head, *rows])
    sys.stderr.write(f"{report}\n{len(place.acknowledged())} steps were acknowledged\n")
    async with connect(place.url, settings=_settings(), embedder=HashingEmbedder(64)) as platform:
        info = await platform.split("docs", 4)  # the killed processes' jobs too
        assert (info.parts, info.index_parts) == (4, 4)
        diagnosis = await platform.doctor("docs", deep=True)
        assert [finding.found for finding in diagnosis.findings if finding.severity is Severity.ERROR] == []
    assert place.mended() == []
    assert not any(losses.values())
    assert not any(doubled.values())
    if SECONDS:
        run = f"{SECONDS:g} seconds, seed {SEED}, {len(place.acknowledged())} steps (add, search, feedback)"
        TABLE.write_text(
            f"# Faults\n\n`make test-faults`, {run} acknowledged.\n"
            "Two clients used the database, and one the HTTP service; a worker ran the jobs, which corrected nothing."
            f"\nAfterwards `retrieval doctor --deep` found nothing wrong.\n\n{report}\n"
        )
