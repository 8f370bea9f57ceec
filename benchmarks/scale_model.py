"""A model of what an installation needs as it grows: each constant is measured here, and checked at a larger size.

    python benchmarks/scale_model.py measure [--items 10000 100000 300000] [--dimensions 64 384 ...] [--replica]
    python benchmarks/scale_model.py measure --items 100000 --parts 1 2 4
    python benchmarks/scale_model.py estimate --items 100000000 --dimensions 768 --searches 200 --parts 10

``measure`` adds what it measured to ``benchmarks/results/scale_model.json`` and writes ``scale_model.md``: the model is
fitted to 10,000 and 100,000 items and held against whatever larger sizes were measured, and against indexes in parts
(``--parts``, of the sizes of ``--items``, which then are measured in no other way). Costs are seconds of processor
time, of the server's processes and of the client's, so that other work on the machine counts little. ``estimate``
prints the need of an installation as JSON. docs/scale.md is about both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, patch

import numpy as np
import psycopg
from command import RESULTS, machine, say, write_json
from corpora import Question, QuestionCorpus, clustered
from peers.ours import COLLECTION, items, make_collection, platform_at
from report import table
from server import Server, ServerTime, running, settle

from retrieval import Collection, Settings, connect
from retrieval.adapters.store.installation.embedded.home import PORT, socket_directory
from retrieval.adapters.store.installation.embedded.home_server import HomeServer
from retrieval.adapters.store.installation.embedded.server import start_embedded
from retrieval.domain.items.collection import MAX_PARTS
from retrieval.domain.search.hit import Path as Path_
from retrieval.services import indexes
from retrieval.services.indexes import _LEAST_MEMORY, _MOST_MEMORY, GRAPH_BYTES, IndexOutcome, keep_index

FITTED = (10_000, 100_000)
"""The sizes that the model is fitted to; larger ones check it."""

DIMENSIONS = 64
FEW = 4_000
"""Items of each number of dimensions, from which bytes and build time are measured."""

SEARCHES = 300
BUSY_SHARE = 0.6
"""The share of its cores that a server's load may use; the rest is for peaks, vacuum and index builds."""

_ROUNDING = 1e-5
"""The largest difference of two scores of the same pair."""

_ENDED_SECONDS = 0.5
"""The time after which a connection's process has ended, and the postmaster has its processor time and pages."""

Rows = Sequence[Mapping[str, Any]]

KINDS: Mapping[str, Callable[[Collection, Question], Awaitable[Any]]] = {
    "dense": lambda collection, question: collection.search(vector=question.vector, legs=["dense"]),
    "10 % filter": lambda collection, question: collection.search(
        vector=question.vector, legs=["dense"], where={"category": "tenth-0"}
    ),
    "words": lambda collection, question: collection.search(question.text, legs=["lexical"]),
    "hybrid": lambda collection, question: collection.search(question.text, vector=question.vector),
}

_RELATIONS = r"""
    SELECT regexp_replace(coalesce(o.relname || ' (texts apart)', c.relname), '_\d+(_\d+)?', ''), c.relkind = 'i',
        sum(pg_relation_size(c.oid))::bigint
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    LEFT JOIN pg_class AS o ON o.reltoastrelid = c.oid
    WHERE n.nspname IN ('retrieval', 'pg_toast') AND c.relkind IN ('r', 't', 'i') AND pg_relation_size(c.oid) > 8192
    GROUP BY 1, 2
"""


@dataclass(frozen=True, slots=True)
class Spent:
    """The seconds that were spent between two looks: processor time of both sides, and the wall clock."""

    client_s: float
    server_s: float
    wall_s: float


class Meter:
    """The processor time of this process, and of a server."""

    def __init__(self, url: str) -> None:
        self._server = ServerTime(url)

    def look(self) -> Spent:
        """Processor time so far."""
        time.sleep(_ENDED_SECONDS)
        own = resource.getrusage(resource.RUSAGE_SELF)
        return Spent(own.ru_utime + own.ru_stime, self._server.seconds(), time.perf_counter())

    @contextmanager
    def spending(self, into: dict[str, float], per: int = 1) -> Iterator[None]:
        """Note what the block spends, divided by ``per``."""
        before = self.look()
        yield
        after = self.look()
        into["client_s"] = (after.client_s - before.client_s) / per
        into["server_s"] = (after.server_s - before.server_s) / per
        into["wall_s"] = (after.wall_s - before.wall_s) / per


def _ask(url: str, statement: str) -> Any:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(statement.encode()).fetchall()


def _wal(url: str) -> int:
    return int(_ask(url, "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")[0][0])


def _relations(url: str) -> dict[str, int]:
    """Bytes by table and index."""
    rows = _ask(url, _RELATIONS)
    return {f"{name}{' (index)' if is_index else ''}": int(size) for name, is_index, size in rows}


def _buffers(url: str) -> int:
    return int(_ask(url, "SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = current_database()")[0][0])


async def _load(url: str, corpus: QuestionCorpus) -> None:
    """Add all items. The HNSW index is left out: it is built apart, so that its cost is seen apart."""
    left_out = AsyncMock(return_value=IndexOutcome.NOT_NEEDED)
    async with platform_at(url) as platform:
        collection = await make_collection(platform, COLLECTION, corpus.corpus.dimensions)
        await collection.make_filterable(dict.fromkeys(corpus.corpus.names, "text"))
        with patch("retrieval.services.items.keep_index", left_out):
            await collection.add(items(corpus.corpus), embeddings=corpus.corpus.vectors)


async def _build(url: str) -> None:
    async with platform_at(url) as platform:
        collection = await platform.collection(COLLECTION, create=False)
        await keep_index(platform.database, platform.tenant_id, await collection.refresh(), rows=1)


async def _search(url: str, kind: str, questions: Sequence[Question], *, recorded: bool = False) -> float:
    """Ask all of them; gives the share that the HNSW index answered."""
    async with platform_at(url) as platform:
        collection = await platform.collection(COLLECTION, create=False)
        searched = collection if recorded else collection.unrecorded()
        walked = [(await KINDS[kind](searched, question)).path is Path_.APPROXIMATE for question in questions]
        await platform.recorded()
    return sum(walked) / len(walked)


def measure_size(server: Server, number: int, dimensions: int, *, searches: bool = True) -> dict[str, Any]:
    """Load, index, weigh and search one collection of that many items."""
    corpus, meter = clustered(number, dimensions, SEARCHES), Meter(server.url)
    url = server.database(f"scale_{number}_{dimensions}", platform=True)
    load: dict[str, float] = {}
    build: dict[str, float] = {}
    before = _wal(url)
    with meter.spending(load, per=number):
        asyncio.run(_load(url, corpus))
    load["wal_bytes"] = (_wal(url) - before) / number
    say(f"{number:,} items of {dimensions} dimensions loaded: {load['wall_s'] * number:.0f} s")
    with meter.spending(build, per=number):
        asyncio.run(_build(url))
    say(f"indexed: {build['wall_s'] * number:.0f} s")
    settle(url)
    row: dict[str, Any] = {
        "items": number, "dimensions": dimensions, "load": load, "build": build,
        "text_bytes": sum(map(len, corpus.corpus.texts)) / number, "relations": _relations(url),
    }  # fmt: skip
    if searches:
        row["searches"] = {kind: _searched(url, meter, kind, corpus.questions) for kind in KINDS}
        row["recorded"] = _record_cost(url, meter, corpus.questions)
    server.drop(f"scale_{number}_{dimensions}")
    return row


def measure_parts(server: Server, number: int, counts: Sequence[int], memory_mb: int) -> Rows:
    """Load one collection, and build and search its index in each number of parts; a build has that much memory."""
    corpus, meter = clustered(number, DIMENSIONS, SEARCHES), Meter(server.url)
    url = server.database(f"parts_{number}", platform=True)
    asyncio.run(_load(url, corpus))
    rows = []
    for parts in counts:
        build: dict[str, float] = {}
        with meter.spending(build, per=number):
            effort = asyncio.run(_split(url, parts, memory_mb << 20))
        say(f"{number:,} items in {parts} parts: {build['wall_s'] * number:.0f} s")
        settle(url)
        searches = {kind: _searched(url, meter, kind, corpus.questions) for kind in KINDS}
        recall = asyncio.run(_recall(url, corpus))
        graph = sum(size for name, size in _relations(url).items() if name.startswith("embeddings_hnsw"))
        rows.append(
            {
                "items": number, "parts": parts, "memory_mb": memory_mb, "build": build, "searches": searches,
                "effort": effort, "recall": recall, "graph_bytes": graph,
            }
        )  # fmt: skip
    server.drop(f"parts_{number}")
    return rows


async def _split(url: str, parts: int, memory: int) -> int:
    """Build the index in that many parts, replacing the former one; return the effort that it needs for ten hits."""
    async with platform_at(url) as platform:
        least = min(memory, _LEAST_MEMORY)
        with patch.object(indexes, "_MOST_MEMORY", memory), patch.object(indexes, "_LEAST_MEMORY", least):
            await platform.split(COLLECTION, parts)
        index = (await (await platform.collection(COLLECTION, create=False)).refresh()).ann_index
    if index is None or index.parts != parts:
        raise SystemExit(f"there is no index in {parts} parts")
    return index.effort_10


async def _recall(url: str, corpus: QuestionCorpus) -> float:
    """The share of the ten nearest that a dense search finds."""
    vectors, shares = corpus.corpus.vectors.astype(np.float16).astype(np.float32), []
    async with platform_at(url) as platform:
        collection = (await platform.collection(COLLECTION, create=False)).unrecorded()
        for question in corpus.questions:
            true = np.partition(vectors @ question.vector.astype(np.float16).astype(np.float32), -10)[-10]
            hits = await KINDS["dense"](collection, question)
            shares.append(sum(hit.score >= true - _ROUNDING for hit in hits) / 10)
    return float(np.mean(shares))


def _searched(url: str, meter: Meter, kind: str, questions: Sequence[Question]) -> dict[str, float]:
    """The cost of one search and the pages that it touches, without the opening of the platform."""
    walked = asyncio.run(_search(url, kind, questions))  # the first read loads the pages into memory
    once: dict[str, float] = {}
    all_of_them: dict[str, float] = {}
    touched = []
    for some, into in ((questions[:1], once), (questions, all_of_them)):
        before = _buffers(url)
        with meter.spending(into):
            asyncio.run(_search(url, kind, some))
        touched.append(_buffers(url) - before)
    number = len(questions) - 1
    spent = {name: (all_of_them[name] - once[name]) / number for name in all_of_them}
    return {**spent, "pages": (touched[1] - touched[0]) / number, "walked": walked}


def _record_cost(url: str, meter: Meter, questions: Sequence[Question]) -> dict[str, float]:
    """The cost of a search's record: the server's time, its log and its rows."""
    quiet: dict[str, float] = {}
    spoken: dict[str, float] = {}
    number = len(questions)
    with meter.spending(quiet, per=number):
        asyncio.run(_search(url, "dense", questions))
    log, size = _wal(url), _records(url)
    with meter.spending(spoken, per=number):
        asyncio.run(_search(url, "dense", questions, recorded=True))
    return {
        "client_s": spoken["client_s"] - quiet["client_s"],
        "server_s": spoken["server_s"] - quiet["server_s"],
        "wal_bytes": (_wal(url) - log) / number,
        "bytes": (_records(url) - size) / number,
    }


def _records(url: str) -> int:
    named = (
        "SELECT sum(pg_total_relation_size(relid))::bigint FROM pg_stat_user_tables WHERE relname LIKE 'retrievals%'"
    )
    return int(_ask(url, named)[0][0] or 0)


def measure_replica(server: Server, number: int) -> dict[str, Any]:
    """The cost of replaying on a replica, and the primary's part of a search that reads from the replica."""
    if server.log is None:
        raise SystemExit("a replica is made of a server that was started for the run")
    home = server.log.parent
    replica = home.parent / f"{home.name}-replica"
    replica.mkdir(mode=0o755)
    there = HomeServer.at(replica)
    there.data.mkdir(mode=0o700)
    there.binaries.account.own(there.data)
    primary = ("-h", str(socket_directory(home)), "-p", str(PORT), "-U", "postgres")
    copied = there.binaries.run("pg_basebackup", *primary, "-D", str(there.data), "-R", "-c", "fast")
    if copied.returncode:
        raise SystemExit(copied.stdout)
    corpus = clustered(number, DIMENSIONS, SEARCHES)
    with start_embedded(replica) as reader:
        url = server.database("scale_replica", platform=True)
        replay, of_primary, of_replica = Meter(reader.url), Meter(server.url), Meter(reader.url)
        replayed: dict[str, float] = {}
        with replay.spending(replayed, per=number):
            asyncio.run(_load(url, corpus))
            _follow(url, reader.url)
        asyncio.run(_build(url))
        _follow(url, reader.url)
        settings = Settings(embedder="none", tenant="bench", database_schema="retrieval").changed(
            database_url=url, read_database_urls=(Server(reader.url).url_of("scale_replica"),), read_max_lag_seconds=60
        )
        first: dict[str, float] = {}
        second: dict[str, float] = {}

        async def ask() -> None:
            async with connect(settings=settings) as platform:
                collection = await platform.collection(COLLECTION, create=False)
                for question in corpus.questions:
                    await KINDS["hybrid"](collection, question)
                await platform.recorded()
                states = platform.database.replicas.states if platform.database.replicas else []
                say(f"replica: {states}")

        asyncio.run(ask())
        with of_primary.spending(first, per=SEARCHES), of_replica.spending(second, per=SEARCHES):
            asyncio.run(ask())
    server.drop("scale_replica")
    return {
        "items": number,
        "replay_server_s": replayed["server_s"],
        "primary_server_s": first["server_s"],
        "replica_server_s": second["server_s"],
    }


def _follow(primary: str, replica: str) -> None:
    position = _wal(primary)
    while int(_ask(replica, "SELECT pg_last_wal_replay_lsn() - '0/0'::pg_lsn")[0][0]) < position:
        time.sleep(0.05)


# The model.

VECTORS, GRAPH = "embeddings", "embeddings_hnsw (index)"
"""The relations whose size follows the dimensions."""


@dataclass(frozen=True, slots=True)
class Line:
    """``start + slope * x``, through two points."""

    start: float
    slope: float

    @classmethod
    def through(cls, first: tuple[float, float], second: tuple[float, float]) -> Line:
        """The line of two points."""
        slope = (second[1] - first[1]) / (second[0] - first[0])
        return cls(first[1] - slope * first[0], slope)

    def at(self, x: float) -> float:
        """Its value."""
        return self.start + self.slope * x


class Model:
    """The constants: bytes grow with the items, what an item or a search costs with the logarithm of their number."""

    def __init__(self, stored: Mapping[str, Any]) -> None:
        rows: Rows = stored["measured"]
        self.sizes = {row["items"]: row for row in rows if row["dimensions"] == DIMENSIONS and row["items"] != FEW}
        self.few = {row["dimensions"]: row for row in rows if row["items"] == FEW}
        self.replica: Mapping[str, float] = stored.get("replica", {})
        self._low, self._high = (self.sizes[number] for number in FITTED)

    @property
    def relations(self) -> list[str]:
        """The tables and indexes that grow, the largest first."""
        last = self._high["relations"]
        grown = [name for name in last if self.bytes_of(name) >= 1]
        return sorted(grown, key=self.bytes_of, reverse=True)

    def bytes_of(self, relation: str) -> float:
        """Bytes an item of a table or an index, with 64 dimensions."""
        points = [(row["items"], row["relations"].get(relation, 0)) for row in (self._low, self._high)]
        return Line.through(points[0], points[1]).slope

    def total(self, number: int) -> float:
        """Bytes of all tables and indexes together, with 64 dimensions."""
        points = [(row["items"], sum(row["relations"].values())) for row in (self._low, self._high)]
        return Line.through(points[0], points[1]).at(number)

    def cost(self, *path: str, at: float) -> float:
        """A cost of one item or search in a collection of that size, and no less than in the larger one measured."""
        points = [(math.log(row["items"]), _value(row, path)) for row in (self._low, self._high)]
        return max(points[1][1], Line.through(points[0], points[1]).at(math.log(at)))

    def by_dimensions(self, dimensions: int, *path: str) -> float:
        """A measure at that number of dimensions, between the measured ones on a straight line."""
        few = sorted(self.few)
        lower = max((size for size in few if size <= dimensions), default=few[0])
        upper = min((size for size in few if size > lower), default=lower)
        first = _value(self.few[lower], path)
        if upper == lower:
            return first
        return Line.through((lower, first), (upper, _value(self.few[upper], path))).at(dimensions)

    def bytes_an_item(self, dimensions: int) -> tuple[float, float]:
        """Bytes of one item: of all, and of what searches touch, which is all but the texts of items."""
        alike = sum(self.bytes_of(name) for name in self.relations if name not in (VECTORS, GRAPH))
        vectors = sum(self.by_dimensions(dimensions, "relations", name) for name in (VECTORS, GRAPH)) / FEW
        return alike + vectors, alike + vectors - self.bytes_of("items")

    def slower(self, dimensions: int) -> float:
        """The factor of a build's time with that many dimensions against 64."""
        return self.by_dimensions(dimensions, "build", "server_s") / self.by_dimensions(64, "build", "server_s")


def _value(row: Mapping[str, Any], path: Sequence[str]) -> float:
    value: Any = row
    for name in path:
        value = value.get(name, 0)
    return float(value)


def graph_items(dimensions: int) -> int:
    """The items whose graph fits into the memory that the platform gives to a build."""
    return int(_MOST_MEMORY / (2 * dimensions + GRAPH_BYTES))


def estimate(
    model: Model, *, items: int, dimensions: int, searches: float, writes: float = 0, parts: int = 1
) -> dict[str, Any]:
    """The need of an installation: ``searches`` hybrid ones a second at the peak, ``writes`` items a day.

    ``parts``: of the index of vectors, all of which each search walks; the words have one index.
    """
    each = items / parts
    all_bytes, hot_bytes = model.bytes_an_item(dimensions)
    slower = model.slower(dimensions)
    dense = model.cost("searches", "hybrid", "server_s", at=each) - model.cost("searches", "words", "server_s", at=each)
    server_s = model.cost("searches", "words", "server_s", at=items) + parts * max(0.0, dense) * slower
    recorded = model.sizes[FITTED[1]]["recorded"]
    remaining = model.replica["primary_server_s"]
    return {
        "items": items, "dimensions": dimensions, "parts": parts, "searches_a_second": searches,
        "disk_gb": items * all_bytes / 1e9,
        "memory_gb": items * hot_bytes / 1e9,
        "load_core_hours": items * model.cost("load", "server_s", at=items) / 3600,
        "build_core_hours": items * model.cost("build", "server_s", at=each) * slower / 3600,
        "graph_fits": each <= graph_items(dimensions),
        "search_server_ms": server_s * 1000,
        "search_cores": searches * server_s / BUSY_SHARE,
        "primary_cores_with_replicas": (
            searches * remaining + writes / 86400 * model.cost("load", "server_s", at=each)
        ) / BUSY_SHARE,
        "client_cores": searches * model.cost("searches", "hybrid", "client_s", at=each) / BUSY_SHARE,
        "records_gb_a_month": searches * 86400 * 30 * recorded["bytes"] / 1e9,
        "log_gb_a_day": (writes * model.cost("load", "wal_bytes", at=each) + searches * 86400 * recorded["wal_bytes"])
        / 1e9,
    }  # fmt: skip


WORKED: Sequence[Mapping[str, Any]] = (
    {"items": 1_000_000, "dimensions": 384, "searches": 50, "writes": 10_000, "parts": 2},
    {"items": 1_000_000, "dimensions": 1536, "searches": 50, "writes": 10_000, "parts": 4},
    {"items": 10_000_000, "dimensions": 384, "searches": 50, "writes": 100_000, "parts": 11},
    {"items": 100_000_000, "dimensions": 384, "searches": 500, "writes": 1_000_000, "parts": MAX_PARTS},
    {"items": 10_000_000_000, "dimensions": 384, "searches": 500, "writes": 10_000_000, "parts": MAX_PARTS},
)
"""The installations of docs/scale.md."""


def checks(model: Model) -> list[dict[str, Any]]:
    """The model's figures of the larger sizes, compared with the measured ones."""
    rows = []
    for number, row in sorted(model.sizes.items()):
        if number <= FITTED[1]:
            continue
        pairs = [
            ("bytes of all", model.total(number), float(sum(row["relations"].values()))),
            ("load, server µs an item", *_pair(model, row, "load", "server_s", unit=1e6)),
            ("build, server µs an item", *_pair(model, row, "build", "server_s", unit=1e6)),
        ]
        for kind in KINDS:
            pairs.append((f"{kind}, server ms", *_pair(model, row, "searches", kind, "server_s", unit=1e3)))
            pairs.append((f"{kind}, pages", *_pair(model, row, "searches", kind, "pages")))
        rows += [
            {"items": number, "what": what, "model": predicted, "measured": was, "measured / model": was / predicted}
            for what, predicted, was in pairs
        ]
    return rows


def checks_of_parts(model: Model, rows: Rows) -> list[dict[str, Any]]:
    """The model's figures of indexes in parts, compared with the measured ones."""
    checked = []
    for row in rows:
        number, parts = row["items"], row["parts"]
        each = number / parts
        dense = model.cost("searches", "dense", "server_s", at=each) * parts * 1e3
        measured = {kind: row["searches"][kind]["server_s"] * 1e3 for kind in KINDS}
        checked.append(
            {
                "items": number, "parts": parts, "memory of a build, MB": row["memory_mb"],
                "build, server µs an item": row["build"]["server_s"] * 1e6,
                "effort of ten hits": row["effort"], "recall of ten": row["recall"],
                "graph, bytes an item": round(row["graph_bytes"] / number),
                "dense, server ms": measured["dense"], "the model says": dense,
                "measured / model": measured["dense"] / dense,
                **{f"{kind}, server ms": cost for kind, cost in measured.items() if kind != "dense"},
                "dense by the index": row["searches"]["dense"]["walked"],
            }
        )  # fmt: skip
    return checked


def _pair(model: Model, row: Mapping[str, Any], *path: str, unit: float = 1) -> tuple[float, float]:
    return model.cost(*path, at=row["items"]) * unit, _value(row, path) * unit


def page(stored: Mapping[str, Any]) -> str:
    """The page of the results."""
    model = Model(stored)
    high = model.sizes[FITTED[1]]
    sizes = [
        {"table or index": name, "bytes an item": round(model.bytes_of(name))}
        for name in model.relations
        if model.bytes_of(name) >= 5
    ]
    dimensions = [
        {
            "dimensions": size, "vectors, bytes": round(_value(row, ("relations", VECTORS)) / FEW),
            "HNSW, bytes": round(_value(row, ("relations", GRAPH)) / FEW),
            "build, server µs an item": round(row["build"]["server_s"] * 1e6),
            "items whose graph fits into 1 GB": graph_items(size),
        }
        for size, row in sorted(model.few.items())
    ]  # fmt: skip
    searches = [
        {
            "search": kind, "items": number, "server ms": row["searches"][kind]["server_s"] * 1000,
            "client ms": row["searches"][kind]["client_s"] * 1000,
            "searches a second a server core": round(1 / row["searches"][kind]["server_s"]),
            "pages": round(row["searches"][kind]["pages"]), "by the index": row["searches"][kind]["walked"],
        }
        for kind in KINDS
        for number, row in sorted(model.sizes.items())
    ]  # fmt: skip
    writes = [
        {
            "items": number, "load, server µs an item": row["load"]["server_s"] * 1e6,
            "load, client µs an item": row["load"]["client_s"] * 1e6, "log, bytes an item": row["load"]["wal_bytes"],
            "build, server µs an item": row["build"]["server_s"] * 1e6,
        }
        for number, row in sorted(model.sizes.items())
    ]  # fmt: skip
    recorded, replica = high["recorded"], model.replica
    worked = [estimate(model, **case) for case in WORKED]
    about = (
        f"`benchmarks/scale_model.py`, {stored['about']}. Processor time; texts of {high['text_bytes']:.0f} bytes, two "
        "declared attributes. [What follows from it](../../docs/scale.md)."
    )
    record = (
        f"The record of a search adds {recorded['server_s'] * 1e3:.2f} ms of the server and "
        f"{recorded['client_s'] * 1e3:.2f} ms of the client, {recorded['bytes']:,.0f} bytes of rows and "
        f"{recorded['wal_bytes']:,.0f} bytes of log."
    )
    read_there = (
        f"{replica['items']:,} items. Replaying an item takes {replica['replay_server_s'] * 1e6:.0f} µs there. "
        f"Of a recorded hybrid search that reads there, the replica has {replica['replica_server_s'] * 1e3:.2f} ms and "
        f"the primary {replica['primary_server_s'] * 1e3:.2f} ms, with the opening of both connections."
    )
    fitted = (
        f"Fitted to {FITTED[0]:,} and {FITTED[1]:,} items: bytes on a straight line, costs of an item or a search "
        "on one over the logarithm of the items."
    )
    divided = checks_of_parts(model, stored.get("parts", []))
    in_parts = (
        f"{stored.get('about_parts', '')}. {DIMENSIONS} dimensions. The model takes a walk of a part for one of a "
        "collection of its size, and a search for as many walks as there are parts."
    )
    parts = [
        "# Scale model", about,
        "## Bytes", f"{DIMENSIONS} dimensions, the slope from {FITTED[0]:,} to {FITTED[1]:,} items:", table(sizes),
        f"By dimensions, {FEW:,} items:", table(dimensions),
        "## Writing", f"{DIMENSIONS} dimensions; the HNSW index is built apart, from all items.", table(writes),
        "## Searching", "Ten hits, not recorded; all pages in memory.", table(searches), record,
        "## A replica", read_there,
        "## The model beside larger sizes", fitted,
        table(checks(model)) if checks(model) else "No larger size was measured.",
        "## The model beside indexes in parts", in_parts, table(divided) if divided else "None was measured.",
        "## Worked", f"Cores are given {BUSY_SHARE:.0%} to do.", _side_by_side(worked),
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _side_by_side(worked: Rows) -> str:
    names = [name for name in worked[0] if name not in ("items", "dimensions")]
    heads = [f"{row['items']:,} × {row['dimensions']}" for row in worked]
    rows = [[name.replace("_", " "), *(_text(row[name]) for row in worked)] for name in names]
    lines = [["", *heads], ["---"] * (len(worked) + 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _text(value: float | bool) -> str:  # noqa: FBT001 - a cell
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def measure(options: argparse.Namespace, stored: dict[str, Any], keep: Callable[[], None]) -> None:
    """Measure what is asked for; each result replaces an earlier one of its kind, and is kept at once."""
    about = "{cores} cores, {memory_gb} GB, {date}, {note}".format(**machine(), note=options.note)
    stored["about_parts" if options.parts else "about"] = about
    for number in options.items if options.parts else ():
        with running() as server:
            rows = measure_parts(server, number, options.parts, options.memory_mb)
        former = {(row["items"], row["memory_mb"], row["parts"]): row for row in (*stored.get("parts", ()), *rows)}
        stored["parts"] = [former[key] for key in sorted(former)]
        keep()
    sizes = [] if options.parts else [(number, DIMENSIONS, True) for number in options.items]
    few = [(FEW, dimensions, False) for dimensions in options.dimensions]
    for number, dimensions, searches in [*few, *sizes]:
        with running() as server:
            row = measure_size(server, number, dimensions, searches=searches)
        stored["measured"] = [
            *(measurement for measurement in stored["measured"] if _key(measurement) != _key(row)),
            row,
        ]
        stored["measured"].sort(key=_key)
        keep()
    if options.replica:
        with running() as server:
            stored["replica"] = measure_replica(server, FITTED[0])
        keep()


def _key(row: Mapping[str, Any]) -> tuple[int, int]:
    return row["dimensions"], row["items"]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure", help="measure, fit, check, and write the page")
    measuring.add_argument("--items", type=int, nargs="*", default=[])
    measuring.add_argument("--dimensions", type=int, nargs="*", default=[])
    measuring.add_argument("--parts", type=int, nargs="*", default=[])
    measuring.add_argument("--memory-mb", type=int, default=_MOST_MEMORY >> 20, help="of a build of an index in parts")
    measuring.add_argument("--replica", action="store_true")
    measuring.add_argument("--note", default="a quiet machine", help="what else the machine did")
    estimating = commands.add_parser("estimate", help="print the need of an installation")
    for name, what in (("items", "all of them"), ("dimensions", "of a vector"), ("searches", "a second at the peak")):
        estimating.add_argument(f"--{name}", type=int, required=True, help=what)
    estimating.add_argument("--writes", type=int, default=0, help="items a day")
    estimating.add_argument("--parts", type=int, default=1, help="of the index of vectors")
    options = parser.parse_args(arguments)
    file: Path = options.out / "scale_model.json"
    stored = json.loads(file.read_text()) if file.exists() else {"measured": []}

    if options.command == "estimate":
        names = ("items", "dimensions", "searches", "writes", "parts")
        print(json.dumps(estimate(Model(stored), **{name: getattr(options, name) for name in names}), indent=2))
        return 0
    measure(options, stored, lambda: write_json("scale_model", stored, options.out))
    if {number for number in FITTED if (DIMENSIONS, number) in map(_key, stored["measured"])} == set(FITTED):
        (options.out / "scale_model.md").write_text(page(stored), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
