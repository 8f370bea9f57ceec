"""The quantised index beside the full one: bytes, build time, recall and latency, at many dimensions.

    python benchmarks/quantised.py [--quick] [--server URL]

Two collections of one installation hold the same 20,000 items, one with ``index="full"`` and one with
``index="quantised"``. Each index is built three times more in turn, by the statement of the product. Then every
question goes to both collections through the public API, in turn, without a filter and with filters that a half, a
tenth and a fiftieth of the items match. Truth is what NumPy finds in the vectors as they are stored.

Vectors like those of texts: directions have standard deviations that fall as a power of their number, about subjects
of very different size, turned at random and moved by a common mean. The power (0.58) and the mean's length (0.33) are
those of 2,500 abstracts of SciFact in the space of all-MiniLM-L6-v2. Isotropic vectors have no such structure: most
pairs are equally far from each other, and neither bits nor a graph finds the nearest. They show what the platform then
does.
Results go to ``benchmarks/results/quantised.{json,md}``.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from command import machine, parser_of, say, write
from numpy.typing import NDArray
from psycopg import AsyncConnection
from report import table
from server import running, settle

from retrieval import Collection, EmbeddingSpace, Platform, connect
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.search.indexes import IndexForm, build_statement, drop_statement, hnsw_definition
from retrieval.services.indexes import ef_construction
from retrieval.settings import Settings

KINDS = ("full", "quantised")
K = 10
BUILDS = 3
FILTERS: Mapping[str, int] = {"none": 1, "50 %": 2, "10 %": 10, "2 %": 50}
"""A filter lets each item through whose number this divides."""

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Data:
    """The searched collection."""

    name: str
    dimensions: int
    items: int
    decay: float
    """The exponent by which standard deviations fall; 0: isotropic vectors."""
    questions: int = 200


NORMAL = (
    Data("like texts", 3072, 20_000, 0.58),
    Data("like texts", 1536, 20_000, 0.58),
    Data("isotropic", 3072, 5_000, 0.0, 40),
)
QUICK = (Data("like texts", 3072, 2_500, 0.58, 8), Data("isotropic", 3072, 2_500, 0.0, 4))


def make_vectors(data: Data, seed: int = 1) -> tuple[Vectors, Vectors]:
    """Vectors of unit length, and questions that lie near some of them."""
    chance = np.random.default_rng(seed)

    def normal(*shape: int) -> Vectors:
        return chance.standard_normal(shape, dtype=np.float32)

    if data.decay == 0:
        return _unit(normal(data.items, data.dimensions)), _unit(normal(data.questions, data.dimensions))
    spread = np.arange(1, data.dimensions + 1, dtype=np.float32) ** -np.float32(data.decay)
    spread /= np.linalg.norm(spread)
    subjects = normal(300, data.dimensions) * spread
    sizes = 1 / np.arange(1, 301)
    subject = chance.choice(300, size=data.items, p=sizes / sizes.sum())
    points = np.float32(0.6) * subjects[subject] + np.float32(0.8) * normal(data.items, data.dimensions) * spread
    near = points[chance.integers(data.items, size=data.questions)]
    queries = np.float32(0.6) * near + np.float32(0.8) * normal(data.questions, data.dimensions) * spread
    turned, _ = np.linalg.qr(normal(data.dimensions, data.dimensions))
    mean = np.float32(0.33) * _unit(normal(1, data.dimensions))
    return _unit(points @ turned + mean), _unit(queries @ turned + mean)


def _unit(vectors: Vectors) -> Vectors:
    unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def truths(vectors: Vectors, questions: Vectors, every: int) -> list[set[str]]:
    """The ids of each question's nearest items that match the filter."""
    stored = vectors[::every].astype(np.float16).astype(np.float32)
    nearest = np.argsort(-(questions @ stored.T), axis=1)[:, :K]
    return [{str(place * every) for place in row} for row in nearest]


async def measure(platform: Platform, data: Data) -> list[dict[str, Any]]:
    """Both kinds of index on the same vectors; a row a kind and filter."""
    vectors, questions = make_vectors(data)
    space = EmbeddingSpace(provider="bench", model=data.name, dimensions=data.dimensions)
    collections = {kind: await platform.collection(f"{data.name} {data.dimensions} {kind}", space=space, index=kind)
             for kind in KINDS}  # fmt: skip
    items = [
        {"_id": str(place), "text": "", **{f"by{every}": place % every for every in FILTERS.values()}}
        for place in range(data.items)
    ]
    for kind, collection in collections.items():
        say(f"{data.name}, {data.dimensions}: loading {kind}")
        await collection.add(items, embeddings=vectors)
    stored = {kind: await collection.refresh() for kind, collection in collections.items()}
    settle(platform.database.url)
    seconds = await _build_seconds(platform, stored)
    rows = []
    for name, every in FILTERS.items():
        say(f"{data.name}, {data.dimensions}: asking, filter {name}")
        where = None if every == 1 else {f"by{every}": 0}
        results = await _results(collections, questions, where, truths(vectors, questions, every))
        for kind, stored_collection in stored.items():
            index = stored_collection.ann_index
            size = {"MB": round(index.index_bytes / 2**20, 1), "build_s": seconds[kind]} if index else {}
            effort = {"effort": index.effort_10, "is_quantised": index.is_quantised} if index else {}
            rows.append({**asdict(data), "index": kind, "filter": name, **size, **effort, **results[kind]})
    return rows


async def _build_seconds(platform: Platform, stored: Mapping[str, StoredCollection]) -> dict[str, float]:
    """The median seconds of the builds, each kind in turn."""
    schema, times = platform.database.names.schema, {kind: list[float]() for kind in stored}
    vector_schema = platform.database.facts.vector_schema or "public"
    async with platform.database.maintenance({"maintenance_work_mem": "1GB"}) as connection:
        for _ in range(BUILDS):
            for kind, collection in stored.items():
                times[kind].append(
                    await _build(connection, schema, vector_schema, collection, is_quantised=kind != "full")
                )
    return {kind: round(float(np.median(each)), 2) for kind, each in times.items()}


async def _build(
    connection: AsyncConnection[Any],
    schema: str,
    vector_schema: str,
    collection: StoredCollection,
    *,
    is_quantised: bool,
) -> float:
    assert collection.space is not None  # noqa: S101 - it was made with one
    bits = collection.space.space.dimensions if is_quantised else None
    effort = ef_construction(IndexForm(is_quantised), collection.documents)
    definition = hnsw_definition(collection.collection_id, vector_schema, effort, bits)
    begun = time.perf_counter()
    await connection.execute(build_statement("bench_again", schema, collection.space.table_name, definition).encode())
    seconds = time.perf_counter() - begun
    await connection.execute(drop_statement("bench_again", schema).encode())
    return seconds


async def _results(
    collections: Mapping[str, Collection], questions: Vectors, where: dict[str, Any] | None, true: Sequence[set[str]]
) -> dict[str, dict[str, Any]]:
    """Each question to every collection, in an order shuffled each time."""
    chance = random.Random(1)  # noqa: S311 - the order of measurements is no secret
    kinds, paths = list(collections), {kind: set[str]() for kind in collections}
    times, recalls = ({kind: list[float]() for kind in collections} for _ in range(2))
    warm_up = min(20, len(questions))
    for place in [*range(warm_up), *range(len(questions))]:
        chance.shuffle(kinds)
        for kind in kinds:
            begun = time.perf_counter()
            result = await collections[kind].search(vector=questions[place], where=where, limit=K, legs=["dense"])
            times[kind].append((time.perf_counter() - begun) * 1e3)
            recalls[kind].append(len({hit.item_id for hit in result} & true[place]) / K)
            paths[kind].add(result.path.value)
    return {
        kind: {
            "path": " ".join(sorted(paths[kind])),
            "recall": round(float(np.mean(recalls[kind][warm_up:])), 4),
            "p50_ms": round(float(np.percentile(times[kind][warm_up:], 50)), 2),
            "p95_ms": round(float(np.percentile(times[kind][warm_up:], 95)), 2),
        }
        for kind in collections
    }


def ratios(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The quantised index's figures as parts of the full one's."""
    pairs = zip(rows[::2], rows[1::2], strict=True)
    return [
        {
            "data": full["name"],
            "dimensions": full["dimensions"],
            "filter": full["filter"],
            "bytes": _ratio(bits, full, "MB"),
            "build": _ratio(bits, full, "build_s"),
            "p50": _ratio(bits, full, "p50_ms"),
            "recall": bits["recall"],
        }
        for full, bits in pairs
    ]


def _ratio(row: Mapping[str, Any], other: Mapping[str, Any], name: str) -> float:
    return round(float(row[name]) / float(other[name]), 3)


def page(result: Mapping[str, Any]) -> str:
    """The result as Markdown."""
    columns = ("name", "dimensions", "items", "index", "filter", "MB", "build_s", "effort", "path", "recall", "p50_ms",
               "p95_ms")  # fmt: skip
    return f"""# The quantised index

{result["date"]}, {result["cores"]} cores for everything. {BUILDS} builds of each index in turn, the median; every
question to both, in turn; recall@{K} against NumPy. The effort is what the index was measured to need; above 1,000 no
effort is enough, and every search compares all vectors.

{table(result["rows"], columns)}

The quantised index as parts of the full one:

{table(ratios(result["rows"]))}
"""


async def run(server: str | None, extent: Sequence[Data]) -> dict[str, Any]:
    """Everything."""
    rows: list[dict[str, Any]] = []
    with running(server) as running_server:
        url = running_server.database("quantised", platform=True)
        async with connect(url, settings=Settings(tenant="bench", embedder="none", recall_sample_rate=0)) as platform:
            for data in extent:
                rows += await measure(platform, data)
    return {**machine(), "rows": rows}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    options = parser_of(__doc__, "a few items, to see that it runs").parse_args(arguments)
    result = asyncio.run(run(options.server, QUICK if options.quick else NORMAL))
    write("quantised", result, page(result), options.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
