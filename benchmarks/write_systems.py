"""The systems whose writes are compared, each in a process of its own: ``python write_systems.py NAME DESCRIPTOR``.

The package may be that of another tree: ``PYTHONPATH`` says which.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
import time
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import psycopg
from corpora import Corpus
from peers.by_hand import ALL_WORDS, ByHand, hybrid
from peers.serve import answer_calls
from pgvector import HalfVector
from pgvector.psycopg import register_vector

_INSERT = "INSERT INTO documents (id, body, category, region, vector) VALUES (%s, %s, %s, %s, %s)"
_UPDATE = "UPDATE documents SET body = %s, category = %s, region = %s, vector = %s WHERE id = %s"
_DELETE = "DELETE FROM documents WHERE id = %s"
_SEARCH = hybrid(ALL_WORDS, depth=20)
_WORDS = 6
"""The words of a question: the first of an item's text."""


class System(Protocol):
    """One way to write and to search. ``place`` is that of an item of the corpus."""

    async def install(self, url: str) -> None:
        """Prepare an empty database; not measured."""

    async def load(self, url: str, corpus: Corpus) -> None:
        """Store the whole corpus and build both indexes."""

    async def open(self, url: str) -> None:
        """Prepare for writes to the loaded items."""

    async def add(self, key: str, corpus: Corpus, place: int) -> None:
        """Store a new item, durably."""

    async def change(self, key: str, corpus: Corpus, place: int) -> None:
        """Give an item another text, other attributes and another vector."""

    async def remove(self, key: str, corpus: Corpus, place: int) -> None:
        """Remove an item."""

    async def search(self, key: str, corpus: Corpus, place: int) -> None:
        """Ten items by words and vector."""

    async def close(self) -> None:
        """Release the resources."""


class Platform:
    """The platform through its public API: vectors are given, nothing is declared.

    Its modules are loaded by its own processes alone.
    """

    def __init__(self) -> None:
        # Before the measurement.
        importlib.import_module("peers.ours")
        self._stack = AsyncExitStack()
        self._collection: Any = None

    async def install(self, url: str) -> None:
        """The schema."""
        from retrieval.adapters.store.installation.schema import upgrade

        await asyncio.to_thread(upgrade, url, "retrieval")

    async def load(self, url: str, corpus: Corpus) -> None:
        """One ``add``; it builds both indexes."""
        from peers.ours import COLLECTION, items, make_collection, platform_at

        async with platform_at(url) as platform:
            collection = await make_collection(platform, COLLECTION, corpus.dimensions)
            await collection.add(items(corpus), embeddings=corpus.vectors)

    async def open(self, url: str) -> None:
        """One connection, as by hand."""
        from peers.ours import COLLECTION, platform_at

        platform = await self._stack.enter_async_context(platform_at(url, pool_size=1))
        self._collection = await platform.collection(COLLECTION)

    async def add(self, key: str, corpus: Corpus, place: int) -> None:
        """One call."""
        item = {"_id": key, "text": corpus.texts[place], **corpus.attributes[place]}
        await self._collection.add([item], embeddings=corpus.vectors[place : place + 1])

    change = add

    async def remove(self, key: str, corpus: Corpus, place: int) -> None:  # noqa: ARG002
        """One call."""
        await self._collection.delete(key)

    async def search(self, key: str, corpus: Corpus, place: int) -> None:  # noqa: ARG002
        """Both legs."""
        await self._collection.search(_question(corpus, place), vector=corpus.vectors[place], limit=10)

    async def close(self) -> None:
        """Close the platform."""
        await self._stack.aclose()


class Statements:
    """SQL by hand: one table with its indexes, one prepared statement a write, committed by itself."""

    def __init__(self) -> None:
        self._searching = ByHand()
        self._connection: psycopg.Connection[Any] | None = None

    async def install(self, url: str) -> None:
        """Nothing: the table is made with what it holds."""

    async def load(self, url: str, corpus: Corpus) -> None:
        """Binary COPY, then the indexes."""
        await self._searching.load(url, corpus)
        await self._searching.close()

    async def open(self, url: str) -> None:
        """One connection."""
        self._connection = psycopg.connect(url, autocommit=True, prepare_threshold=2)
        register_vector(self._connection)

    async def add(self, key: str, corpus: Corpus, place: int) -> None:
        """One INSERT."""
        self._execute(_INSERT, (key, *_row(corpus, place)))

    async def change(self, key: str, corpus: Corpus, place: int) -> None:
        """One UPDATE."""
        self._execute(_UPDATE, (*_row(corpus, place), key))

    async def remove(self, key: str, corpus: Corpus, place: int) -> None:  # noqa: ARG002
        """One DELETE."""
        self._execute(_DELETE, (key,))

    async def search(self, key: str, corpus: Corpus, place: int) -> None:  # noqa: ARG002
        """One SELECT of both legs, with as many candidates as the platform's; the words must all be in the text."""
        vector = HalfVector(corpus.vectors[place])
        self._execute(_SEARCH, {"text": _question(corpus, place), "vector": vector, "k": 10}).fetchall()

    def _execute(self, text: str, values: tuple[Any, ...] | dict[str, Any]) -> psycopg.Cursor[Any]:
        if self._connection is None:
            raise RuntimeError("nothing is open; call open first")
        return self._connection.execute(text.encode(), values)

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()


def _question(corpus: Corpus, place: int) -> str:
    return " ".join(corpus.texts[place].split()[:_WORDS])


def _row(corpus: Corpus, place: int) -> tuple[Any, ...]:
    attributes = corpus.attributes[place]
    return corpus.texts[place], attributes["category"], attributes["region"], HalfVector(corpus.vectors[place])


class Bench:
    """The calls that measure a system. Each gives milliseconds and this process's seconds of processor."""

    def __init__(self, system: System) -> None:
        self.system = system
        self._corpus: Corpus | None = None

    async def read(self, folder: str) -> None:
        """Read the corpus whose items are stored and written."""
        self._corpus = Corpus.read(Path(folder))

    async def install(self, url: str) -> None:
        """Prepare an empty database."""
        await self.system.install(url)

    async def load(self, url: str, size: int) -> tuple[list[float], float]:
        """Store the first ``size`` items of the corpus."""
        corpus = self._given
        part = Corpus(corpus.ids[:size], corpus.texts[:size], corpus.vectors[:size], corpus.attributes[:size])
        started, worked = time.perf_counter(), time.process_time()
        await self.system.load(url, part)
        return [(time.perf_counter() - started) * 1e3], time.process_time() - worked

    async def open(self, url: str) -> None:
        """Get ready to write."""
        await self.system.open(url)

    async def each(self, what: str, keys: list[str], places: list[int]) -> tuple[list[float], float]:
        """Call ``what`` for these items, one after the other."""
        call, corpus, times = getattr(self.system, what), self._given, []
        worked = time.process_time()
        for key, place in zip(keys, places, strict=True):
            started = time.perf_counter()
            await call(key, corpus, place)
            times.append((time.perf_counter() - started) * 1e3)
        return times, time.process_time() - worked

    async def until(
        self, what: str, seconds: float, prefix: str, first: int, most: int | None = None
    ) -> tuple[list[float], float]:
        """Repeat with new keys for that many seconds, with the items from ``first`` on.

        ``most``: the number of items that no other call uses; None: the whole corpus, in a circle. Raises
        ``RuntimeError`` if they do not suffice: an index takes a vector that it holds already at next to no cost.
        """
        call, corpus, times = getattr(self.system, what), self._given, list[float]()
        begun, worked = time.perf_counter(), time.process_time()
        while (started := time.perf_counter()) < begun + seconds:
            if len(times) == most:
                raise RuntimeError(f"{most} new items do not suffice for {seconds:g} s; raise Extent.fresh")
            place = (first + len(times)) % len(corpus)
            await call(f"{prefix}-{place}", corpus, place)
            times.append((time.perf_counter() - started) * 1e3)
        return times, time.process_time() - worked

    @property
    def _given(self) -> Corpus:
        if self._corpus is None:
            raise RuntimeError("there is no corpus; call read first")
        return self._corpus


async def serve(bench: Bench, channel: Connection) -> None:
    """Answer calls to the bench."""
    await answer_calls(lambda method, arguments: getattr(bench, method)(*arguments), channel)
    await bench.system.close()


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    kinds: dict[str, type[Platform | Statements]] = {"platform": Platform, "by hand": Statements}
    asyncio.run(serve(Bench(kinds[sys.argv[1]]()), Connection(int(sys.argv[2]))))
