"""BM25 by pg_textsearch beside the portable way: quality on SciFact, and the latency of both, query by query in turn.

    RETRIEVAL_DATABASE_URL=... python benchmarks/textsearch.py DATA [--synthetic 100000]

Needs a server that has the extension. DATA holds the folder scifact in BEIR's format. ``--synthetic`` measures the
latency on that many documents of about 100 words too, made of SciFact's sentences, whose nDCG means nothing. Times are
those of a whole call; read them as a ratio. The result goes to ``benchmarks/results/textsearch.json``.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import random
import re
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from command import write_json
from tasks import SCIFACT

from retrieval import Collection, Platform, connect
from retrieval.collection import handle_of
from retrieval.engine.collection_search import leg_rankings
from retrieval.services.evaluate import measure as score
from retrieval.services.evaluate import parse_metric
from retrieval.services.judgements import JudgedQuery, Qrels
from retrieval.services.textsearch import TextsearchOutcome, keep_textsearch_index
from retrieval.settings import Settings

PORTABLE = "options=-c%20retrieval.textsearch%3Doff"
DEPTH = 100
WORDS = 100
BATCH = 5000


def synthetic(data: Path, documents: int) -> Iterator[dict[str, str]]:
    """Documents of about 100 words: SciFact's sentences, drawn anew for each."""
    chance = random.Random(0)  # noqa: S311 - a corpus is no secret
    with gzip.open(data / "scifact" / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        sentences = [part for line in lines for part in re.split(r"(?<=[.!?]) ", json.loads(line)["text"])]
    for number in range(documents):
        text: list[str] = []
        while len(text) < WORDS:
            text += chance.choice(sentences).split()
        yield {"_id": f"{number:07}", "text": " ".join(text[: WORDS + 20])}


async def fill(platform: Platform, data: Path, documents: int) -> Collection:
    """The collection of that many synthetic documents; made once."""
    collection = await platform.collection(f"synthetic {documents}")
    if (await collection.refresh()).documents != documents:
        batch: list[dict[str, str]] = []
        for item in synthetic(data, documents):
            batch.append(item)
            if len(batch) == BATCH:
                await collection.add(batch)
                batch = []
        await collection.add(batch)
    return collection


async def compare_ways(ways: dict[str, Collection], queries: list[JudgedQuery], qrels: Qrels) -> dict[str, Any]:
    """Each way's latency and quality, and how much of the first 10 and of all they share."""
    times: dict[str, list[float]] = {way: [] for way in ways}
    hits_by_way: dict[str, dict[str, list[str]]] = {way: {} for way in ways}
    for warm in (False, True):
        for query in queries:
            for way, collection in ways.items():
                began = time.perf_counter()
                ranking = (await leg_rankings(handle_of(collection), query.text, legs=["lexical"], depth=DEPTH))[
                    "lexical"
                ]
                times[way] += [time.perf_counter() - began] if warm else []
                hits_by_way[way][query.query_id] = [hit.item_id for hit in ranking]
    result: dict[str, Any] = {"queries": len(queries)}
    for way in ways:
        p50, p95 = np.percentile(times[way], [50, 95]) * 1000
        mean = fmean(score(hits_by_way[way], qrels, parse_metric("nDCG@10")).values())
        result[way] = {"p50_ms": round(p50, 2), "p95_ms": round(p95, 2), "nDCG@10": round(mean, 4)}
    first, other = hits_by_way.values()
    result["overlap"] = {str(depth): _overlap(first, other, depth) for depth in (10, DEPTH)}
    return result


def _overlap(first: dict[str, list[str]], other: dict[str, list[str]], depth: int) -> float:
    """The share of the first way's leading items that the other's has, on average."""
    shares = [
        len({*ranking[:depth]} & {*other[key][:depth]}) / len(ranking[:depth])
        for key, ranking in first.items()
        if ranking
    ]
    return round(float(np.mean(shares)), 4)


async def measure(data: Path, documents: int) -> dict[str, Any]:
    """Both ways on SciFact, and on synthetic documents if asked."""
    settings = Settings().changed(embedder="none", tenant="textsearch")
    url = settings.database_url.get_secret_value() if settings.database_url else ""
    off = f"{url}{'&' if '?' in url else '?'}{PORTABLE}"
    result: dict[str, Any] = {}
    async with AsyncExitStack() as stack:
        platform = await stack.enter_async_context(connect(url, settings=settings))
        plain = await stack.enter_async_context(connect(off, settings=settings))
        platforms = [await SCIFACT.ingested(platform, data)]
        platforms += [await fill(platform, data, documents)] if documents else []
        queries, qrels = SCIFACT.queries(data)
        for collection in platforms:
            began = time.perf_counter()
            outcome = await keep_textsearch_index(platform.database, await collection.refresh(), rows=1)
            if outcome not in (TextsearchOutcome.BUILT, TextsearchOutcome.PRESENT):
                raise SystemExit(outcome.value)
            built = round(time.perf_counter() - began, 1) if outcome is TextsearchOutcome.BUILT else None
            ways = {"portable": await plain.collection(collection.name), "textsearch": collection}
            figures = await compare_ways(ways, queries, qrels)
            result[collection.name] = {"build_seconds": built, **figures}
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--synthetic", type=int, default=0, metavar="DOCUMENTS")
    arguments = parser.parse_args()
    figures = asyncio.run(measure(arguments.data, arguments.synthetic))
    print(json.dumps(figures))
    write_json("textsearch", figures)
