"""The gain that reranking can bring and the cost of its stage, on judged test collections, by words alone.

    python benchmarks/reranking.py DATA [--queries 100]

DATA holds the folders scifact and cranfield in BEIR's format. Three rerankers: ``perfect`` gives 1 to what is judged
relevant and 0 to the rest, which is the most that any reranker brings with so many candidates; ``embedder`` is the
local embedding model's cosine of query and text, which is no cross-encoder: it shows that a judge that is no better
than the legs gains little; ``nothing`` gives all texts the same score, which shows the time of the stage itself. Prints
a Markdown table: nDCG@10, and the median milliseconds of a search with the reranker's own time and without.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tasks import CRANFIELD, SCIFACT, Task

from retrieval import Platform, Profile, connect, read_items
from retrieval.adapters.embedders.minilm import MiniLMEmbedder
from retrieval.domain.items.embedding import TextRole
from retrieval.domain.search.reranking import Rerank, text_for_reranker
from retrieval.services.evaluate import evaluate, parse_metrics
from retrieval.services.judgements import JudgedQuery, Qrels
from retrieval.settings import Settings

WORDS = Profile(legs={"lexical": 1.0}, depth=100)


Scores = Callable[[str, Sequence[str]], Awaitable[list[float]]]
"""Scores texts for a query: one score a text."""


class TimedReranker:
    """A reranker whose scores can be changed, and which counts its own time."""

    name = "measured/1"

    def __init__(self) -> None:
        self.scores: Scores = nothing
        self.seconds = 0.0

    async def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """The scores of the present way."""
        started = time.perf_counter()
        scores = await self.scores(query, texts)
        self.seconds += time.perf_counter() - started
        return scores

    async def aclose(self) -> None:
        """Nothing is open."""


async def nothing(_query: str, texts: Sequence[str]) -> list[float]:
    """The same for all."""
    return [0.5] * len(texts)


def perfect(task: Task, data: Path, queries: Sequence[JudgedQuery], qrels: Qrels) -> Scores:
    """1 for relevant texts."""
    ids = {query.text: query.query_id for query in queries}
    lines = read_items(data / task.collection / "corpus.jsonl.gz")
    items = [line.item for line in lines if line.item is not None]
    texts_of = {item.item_id: text_for_reranker(item.title, item.body) for item in items}
    relevant = {
        (text, texts_of[item])
        for text, query_id in ids.items()
        for item, grade in qrels.get(query_id, {}).items()
        if grade > 0 and item in texts_of
    }

    async def scores(query: str, texts: Sequence[str]) -> list[float]:
        return [float((query, text) in relevant) for text in texts]

    return scores


def by_embedder(embedder: MiniLMEmbedder) -> Scores:
    """The cosine, from 0 to 1; each text is embedded once."""
    vectors: dict[str, Any] = {}

    async def scores(query: str, texts: Sequence[str]) -> list[float]:
        new = [text for text in texts if text not in vectors]
        if new:
            vectors.update(zip(new, await embedder.embed(new, TextRole.DOCUMENT), strict=True))
        [query_vector] = await embedder.embed([query], TextRole.QUERY)
        return [min(max(float(vectors[text] @ query_vector), 0.0), 1.0) for text in texts]

    return scores


async def measure(platform: Platform, data: Path, task: Task, most: int, reranker: TimedReranker) -> None:
    """Print the rows of one collection."""
    collection = (await task.ingested(platform, data)).unrecorded()
    queries, qrels = task.queries(data)
    queries = queries[:most]

    async def asked(name: str, profile: Profile) -> None:
        times: list[float] = []

        async def search(text: str, *, where: dict[str, Any] | None, limit: int, variant: str) -> list[str]:
            reranker.seconds, started = 0.0, time.perf_counter()
            hits = await collection.search(text, where=where, limit=limit, profile=profile, syntax=False)
            times.append((time.perf_counter() - started - reranker.seconds) * 1000)
            if hits.notes:
                raise RuntimeError(f"{variant}: {hits.notes}")
            return [hit.item_id for hit in hits]

        report = await evaluate(search, queries, qrels, metrics=parse_metrics("nDCG@10"), variants=["words"])
        [figure] = report.as_dict()["variants"][0]["metrics"].values()
        rerank = profile.rerank
        numbers = f"{rerank.candidates} | {rerank.weight:g}" if rerank else "- | -"
        print(f"| {task.name} | {name} | {numbers} | {figure:.4f} | {statistics.median(times):.1f} |", flush=True)

    await asked("none (warming up)", WORDS)
    await asked("none", WORDS)
    for candidates in (30, 100):
        reranker.scores = nothing
        await asked("nothing", replace(WORDS, rerank=Rerank(candidates=candidates, milliseconds=60_000)))
    reranker.scores = perfect(task, data, queries, qrels)
    for candidates in (10, 30, 100):
        await asked("perfect", replace(WORDS, rerank=Rerank(candidates=candidates, milliseconds=60_000)))
    embedder = MiniLMEmbedder()
    reranker.scores = by_embedder(embedder)
    for weight in (1.0, 0.5):
        await asked("embedder", replace(WORDS, rerank=Rerank(weight=weight, milliseconds=60_000)))
    await embedder.aclose()


async def main(data: Path, most: int) -> None:
    """Measure both collections."""
    reranker = TimedReranker()
    print("| collection | reranker | candidates | weight | nDCG@10 | median ms without the reranker's own |")
    print("|---|---|---|---|---|---|")
    async with connect(settings=Settings().changed(embedder="none"), reranker=reranker) as platform:
        for task in (CRANFIELD, SCIFACT):
            await measure(platform, data, task, most, reranker)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--queries", type=int, default=100, help="the first so many of each collection")
    given = parser.parse_args()
    asyncio.run(main(given.data, given.queries))
