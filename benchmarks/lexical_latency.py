"""Lexical search by size: latency inside the database, agreement with full BM25, and what writing costs.

    python benchmarks/lexical_latency.py DATA [--sizes 5000,100000,300000] [--queries 200]

DATA holds the folders of ``lexical_corpus.SETS`` in BEIR's format. Acts as the application role under the policies, on
one warm connection. Each query is asked in full and as a search asks it, one after the other, so that whatever else the
machine does slows both. The result goes to ``benchmarks/results/lexical.json``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from command import write_json
from lexical_corpus import SETS, documents, queries

from retrieval import Collection, Platform, connect
from retrieval.adapters.store.database import Connection
from retrieval.settings import Settings

SEARCH = "SELECT item_id FROM lexical_search(%s, %s, '{}', 100, %s)"
EXPLAIN = f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {SEARCH}"
FULL = 10**9
"""The number of items to find at least, for a search that leaves nothing out."""
WRITES = 100
LOADED = 1000
"""Items stored in one call."""

Figures = dict[str, float]


def spread(values: list[float]) -> Figures:
    """p50 and p95, in milliseconds."""
    p50, p95 = np.percentile(values, [50, 95])
    return {"p50_ms": round(float(p50), 2), "p95_ms": round(float(p95), 2)}


async def fill(platform: Platform, data: Path, size: int) -> tuple[Collection, float]:
    """A collection of that size, and the seconds that storing it took (0 where it was there)."""
    collection = await platform.collection(f"lexical {size}", space=None)
    if (await collection.info()).items >= size:
        return collection, 0.0
    started = time.perf_counter()
    texts = enumerate(documents(data, size))
    while batch := [{"_id": f"{number:07}", "text": text} for number, text in islice(texts, LOADED)]:
        await collection.add(batch)
    return collection, time.perf_counter() - started


async def milliseconds(connection: Connection, collection_id: int, query: str, at_least: int | None) -> float:
    """Planning and execution of one search."""
    row = await (await connection.execute(EXPLAIN, (collection_id, query, at_least))).fetchone()
    plan = row[0][0] if row else {}
    return float(plan["Planning Time"] + plan["Execution Time"])


async def searched(platform: Platform, collection_id: int, texts_asked: list[str]) -> dict[str, Any]:
    """Latency in full and as searches ask, and how much of the full top 10 and top 100 the latter has."""
    times: dict[int | None, list[float]] = {FULL: [], None: []}
    shares: dict[int, list[float]] = {10: [], 100: []}
    async with platform.database.transaction(platform.tenant_id) as connection:
        for query in texts_asked:
            figures = {}
            for at_least, measured in times.items():
                # The first query is a warm-up.
                rows = await (await connection.execute(SEARCH, (collection_id, query, at_least))).fetchall()
                figures[at_least] = [row[0] for row in rows]
                measured.append(await milliseconds(connection, collection_id, query, at_least))
            for depth, share in shares.items():
                true = set(figures[FULL][:depth])
                share.append(len(true & set(figures[None][:depth])) / max(len(true), 1))
    return {
        "full": spread(times[FULL]),
        "search": spread(times[None]),
        **{f"overlap_{depth}": round(float(np.mean(share)), 4) for depth, share in shares.items()},
    }


async def timed(act: Callable[[int], Awaitable[object]]) -> Figures:
    """The times of writes, one after another."""
    times = []
    for number in range(WRITES):
        started = time.perf_counter()
        await act(number)
        times.append((time.perf_counter() - started) * 1e3)
    return spread(times)


async def write_costs(collection: Collection, texts: list[str]) -> dict[str, Figures]:
    """Single inserts, updates and deletes, each a call with its transaction and statistics."""
    return {
        "insert": await timed(lambda number: collection.add([{"_id": f"new {number}", "text": texts[number]}])),
        "update": await timed(lambda number: collection.add([{"_id": f"new {number}", "text": texts[-1 - number]}])),
        "delete": await timed(lambda number: collection.delete([f"new {number}"])),
    }


async def beside_a_writer(
    platform: Platform, collection: Collection, query_texts: list[str], texts: list[str]
) -> Figures:
    """A search's latency while single items are written without a pause."""
    collection_id = (await collection.refresh()).collection_id
    finished = asyncio.Event()

    async def write() -> None:
        number = 0
        while not finished.is_set():
            await collection.add([{"_id": f"beside {number % 50}", "text": texts[number % len(texts)]}])
            number += 1

    writer = asyncio.create_task(write())
    async with platform.database.transaction(platform.tenant_id) as connection:
        times = [await milliseconds(connection, collection_id, query, None) for query in query_texts]
    finished.set()
    await writer
    await collection.delete([f"beside {number}" for number in range(50)])
    return spread(times)


async def measure(platform: Platform, data: Path, size: int, query_texts: list[str]) -> dict[str, Any]:
    """Everything about one size."""
    collection, seconds = await fill(platform, data, size)
    async with platform.database.maintenance() as connection:
        await connection.execute(f'VACUUM ANALYZE "{platform.database.names.schema}".item_terms')
    texts = list(documents(data, 2 * WRITES, seed=3))
    result: dict[str, Any] = {"documents": size, "queries": len(query_texts)}
    if seconds:
        result["bulk_items_per_second"] = round(size / seconds)
    result |= await searched(platform, (await collection.refresh()).collection_id, query_texts)
    result["writes"] = await write_costs(collection, texts)
    result["search_beside_a_writer"] = await beside_a_writer(platform, collection, query_texts, texts)
    return result


async def main(data: Path, sizes: list[int], number: int) -> None:
    """Measure, print, write. Words alone: no vectors are needed."""
    settings = Settings().changed(embedder="none", tenant="lexical latency")
    results = []
    async with connect(settings=settings) as platform:
        for size in sizes:
            results.append(await measure(platform, data, size, queries(data, number)))
            print(json.dumps(results[-1]))
    write_json("lexical", results)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sizes", default="5000,100000", help="documents, separated by commas")
    parser.add_argument("--queries", type=int, default=200)
    arguments = parser.parse_args()
    missing = [name for name in SETS if not (arguments.data / name).is_dir()]
    if missing:
        sys.exit(f"{arguments.data} lacks {', '.join(missing)}; give the folder of the test collections")
    asyncio.run(main(arguments.data, [int(size) for size in arguments.sizes.split(",")], arguments.queries))
