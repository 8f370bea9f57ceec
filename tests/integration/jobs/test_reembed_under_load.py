"""A collection is searched and written while it moves to another space, and workers and PostgreSQL are killed."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retrieval import Collection, Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder, hashed_vector
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.installation.embedded.home_server import HomeServer
from retrieval.adapters.store.installation.embedded.server import start_embedded
from retrieval.adapters.store.installation.schema import upgrade
from retrieval.adapters.store.search.reembeddings import ReembeddingState
from retrieval.adapters.store.search.vectors import StoredSpace, count_pending, register_space, sample_vectors
from retrieval.domain.errors import DatabaseUnreachableError, RetrievalError
from retrieval.domain.items.embedding import TextRole, Vectors
from tests.support.database import SCHEMA
from tests.support.forked_program import forking

ITEMS, WRITTEN, BATCH = 900, 60, 16
FILLING_SECONDS = 4.0
SEED = int(os.environ.get("RETRIEVAL_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)


class Metered(HashingEmbedder):
    """The target's embedder, which is slow for documents and logs them to a file before it returns."""

    def __init__(self, meter: Path) -> None:
        super().__init__(seed=1)
        self._meter = meter

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """Embed like the base class."""
        if role is TextRole.DOCUMENT:
            with self._meter.open("a") as file:
                file.write("".join(f"{text}\n" for text in texts))
            await asyncio.sleep(0.05)
        return await super().embed(texts, role)


def _settings() -> Settings:
    return Settings(tenant="reembed", database_schema=SCHEMA, pool_size=4, pool_timeout_seconds=30, embedder="none")


def work(url: str, meter: str) -> None:
    """Do what the job does, again and again, until it is killed."""

    async def work() -> None:
        while True:
            try:
                async with connect(url, settings=_settings(), embedder=Metered(Path(meter))) as platform:
                    while True:
                        await platform.reembedding("docs", "run")
                        await asyncio.sleep(0.1)
            except RetrievalError:
                await asyncio.sleep(0.2)

    asyncio.run(work())


class Surroundings:
    """A server and a worker that can be killed, and come back."""

    def __init__(self, home: Path, meter: Path, leases: ExitStack) -> None:
        self.home, self.meter, self._leases = home, meter, leases
        self.url = self.start_server()
        self.killed = {"worker": 0, "server": 0}
        self._worker: Any = None

    def start_server(self) -> str:
        """Start it, or join it, and return its address."""
        return self._leases.enter_context(start_embedded(self.home)).url

    def start_worker(self) -> None:
        """A process of its own."""
        self._worker = forking().Process(target=work, args=(self.url, str(self.meter)))
        self._worker.start()

    def kill_worker(self) -> None:
        """With no warning, wherever it is."""
        self._worker.kill()
        self._worker.join()
        self.killed["worker"] += 1

    def kill_server(self) -> None:
        """With no warning; all of its processes end."""
        pid = HomeServer.at(self.home).pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        self.killed["server"] += 1


class Load:
    """Readers and a writer, who log what they see."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.texts = {f"s{number:04}": f"stable{number:04} of group{number % 90}" for number in range(ITEMS)}
        self.written: dict[str, str | None] = {}
        self.tags: dict[str, int | None] = {}
        self.unsure: set[str] = set()
        self.reads = self.writes = 0
        self.lost_reads: list[float] = []
        self.wrong: list[str] = []
        self.is_over = False

    async def read(self, collection: Collection) -> None:
        """Search for texts that are always there: each is found, at a likeness of 1, in whichever space."""
        while not self.is_over:
            item_id = self.chance.choice(sorted(self.texts))
            try:
                hits = await collection.search(self.texts[item_id], legs=["dense"], limit=1)
            except DatabaseUnreachableError:
                self.lost_reads.append(time.monotonic())
                await asyncio.sleep(0.05)
                continue
            self.reads += 1
            if [hit.item_id for hit in hits] != [item_id] or hits[0].score < 0.99:
                self.wrong.append(f"{item_id}: {[(hit.item_id, hit.score) for hit in hits]}")
            # Readers at full speed would take the processors from other tests.
            await asyncio.sleep(0.03)

    async def goes_on(self) -> None:
        """Return after fifty more searches."""
        until = self.reads + 50
        while self.reads < until:  # noqa: ASYNC110 - the readers are at it
            await asyncio.sleep(0.02)

    async def write(self, collection: Collection) -> None:
        """Add, change and remove; unacknowledged writes are repeated."""
        number = 0
        while not self.is_over or self.unsure:
            item_id = (
                self.chance.choice(sorted(self.unsure)) if self.unsure else f"w{self.chance.randrange(WRITTEN):03}"
            )
            number += 1
            text = f"changing{number:05} {item_id} of group{number % 90}"
            is_gone = self.chance.random() < 0.2
            self.unsure.add(item_id)
            try:
                if is_gone:
                    await collection.delete([item_id])
                else:
                    await collection.add([{"_id": item_id, "text": text, "tags": [f"t{number % 3}"]}])
            except DatabaseUnreachableError:
                await asyncio.sleep(0.05)
                continue
            self.written[item_id], self.tags[item_id] = (None, None) if is_gone else (text, number % 3)
            self.unsure.discard(item_id)
            self.writes += 1
            await asyncio.sleep(0.05)


@pytest.fixture
def surroundings() -> Iterator[Surroundings]:
    """A server of this test's own."""
    home = Path(tempfile.mkdtemp(prefix="retrieval-reembed-"))
    home.chmod(0o755)
    with ExitStack() as leases:
        place = Surroundings(home / "server", home / "asked.txt", leases)
        place.meter.touch()
        place.meter.chmod(0o666)
        upgrade(place.url, SCHEMA)
        try:
            yield place
        finally:
            if place._worker is not None:  # noqa: SLF001 - of this module
                place._worker.kill()  # noqa: SLF001
                place._worker.join()  # noqa: SLF001
    HomeServer.at(home / "server").stop(timeout_seconds=30)
    shutil.rmtree(home, ignore_errors=True)


@asynccontextmanager
async def _platforms(surroundings: Surroundings, count: int) -> AsyncIterator[list[Platform]]:
    async with asyncio.timeout(240):
        opened = [
            connect(surroundings.url, settings=_settings(), embedder=Metered(surroundings.meter)) for _ in range(count)
        ]
        for platform in opened:
            await platform.open()
        try:
            yield opened
        finally:
            for platform in opened:
                await platform.close()


async def _retry(platform: Platform, do: str = "status") -> Any:
    """The answer, after as many retries as needed."""
    while True:
        try:
            return await platform.reembedding("docs", do, wait=False)
        except DatabaseUnreachableError:
            await asyncio.sleep(0.1)


async def _until(platform: Platform, state: ReembeddingState) -> None:
    while (await _retry(platform)).state is not state:  # noqa: ASYNC110 - another process changes it
        await asyncio.sleep(0.1)


async def test_nothing_is_lost_stale_or_compared_with_another_space(surroundings: Surroundings) -> None:
    """This holds during the fill, the switch, the return and the second switch; no text is paid for twice."""
    chance = random.Random(SEED)
    summary = f"RETRIEVAL_TEST_SEED={SEED}"
    load = Load(chance)
    async with connect(surroundings.url, settings=_settings(), embedder=HashingEmbedder()) as before:
        docs = await before.collection("docs")
        await docs.add([{"_id": item_id, "text": text} for item_id, text in load.texts.items()])
    async with _platforms(surroundings, 3) as (first, second, third):
        handles = [await platform.collection("docs") for platform in (first, second, third)]
        await first.reembed("docs", batch_texts=BATCH)
        surroundings.start_worker()
        tasks = [
            *(asyncio.create_task(load.read(handle)) for handle in handles[:2]),
            asyncio.create_task(load.write(handles[2])),
        ]
        await _disturbed(surroundings, chance)
        await _until(first, ReembeddingState.READY)
        for step in ("switch", "rollback", "switch"):
            await _retry(first, step)
            if step == "switch":
                await asyncio.sleep(chance.uniform(0, 0.4))
                await asyncio.to_thread(surroundings.kill_worker)
                surroundings.start_worker()
                await _until(second, ReembeddingState.SWITCHED)
            await load.goes_on()
        load.is_over = True
        await asyncio.wait_for(asyncio.gather(*tasks), 60)
        await _check(first, handles[0], load)
    summary += f", {load.reads} reads, {len(load.lost_reads)} lost with their connection, {load.writes} writes"
    sys.stderr.write(f"{summary}, killed: {surroundings.killed}, {_check_paid(surroundings, load)}\n")


async def _disturbed(surroundings: Surroundings, chance: random.Random) -> None:
    """Kill the worker and the server at random."""
    until = time.monotonic() + FILLING_SECONDS
    while time.monotonic() < until or not all(surroundings.killed.values()):
        await asyncio.sleep(chance.uniform(0.3, 1.5))
        if chance.random() < 0.25 or (surroundings.killed["server"] == 0 and time.monotonic() > until):
            surroundings.kill_server()
            await asyncio.to_thread(surroundings.start_server)
        else:
            await asyncio.to_thread(surroundings.kill_worker)
            surroundings.start_worker()


async def _check(platform: Platform, collection: Collection, load: Load) -> None:
    """Every item has the vector of its text in the space in use, and no other has one; the same in the former space."""
    assert load.wrong == []
    assert load.reads > 150
    expected = load.texts | {item_id: text for item_id, text in load.written.items() if text is not None}
    number = (await collection.refresh()).collection_id
    where = CollectionPlace(platform.database, platform.tenant_id, number)
    for seed in (1, 0):
        space: StoredSpace = await register_space(platform.database, HashingEmbedder(seed=seed).space)
        while await count_pending(where, space):  # noqa: ASYNC110 - the worker is at it
            await asyncio.sleep(0.2)
        vectors = dict(await sample_vectors(where, space, 10_000))
        assert set(vectors) == set(expected)
        for item_id, text in expected.items():
            assert float(np.dot(vectors[item_id], hashed_vector(text, 256, seed))) > 0.999, (item_id, seed)
    for item_id, text in list(expected.items())[-50:]:
        [hit] = await collection.search(text, legs=["dense"], limit=1)
        assert (hit.item_id, round(hit.score, 2)) == (item_id, 1.0)
    for tag in range(3):
        tagged = await collection.search("changing", legs=["dense"], where={"tags": [f"t{tag}"]}, limit=500)
        assert {hit.item_id for hit in tagged} == {item_id for item_id, value in load.tags.items() if value == tag}


def _check_paid(surroundings: Surroundings, load: Load) -> str:
    """Check that at most the batch that a kill interrupted was paid for twice."""
    texts = surroundings.meter.read_text().splitlines()
    stable = [text for text in texts if text.startswith("stable")]
    assert set(stable) == set(load.texts.values())
    again = len(stable) - len(set(stable))
    assert again <= BATCH * sum(surroundings.killed.values())
    return f"{again} of {len(load.texts)} texts asked for twice"
