"""Hybrid quality on SciFact's test queries: the same MiniLM vectors for everyone, nDCG@10 beside the latency."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from corpora import Corpus, Vectors
from interleaved import Call, K, measure
from peers import PEERS
from server import Server, settle
from tasks import SCIFACT
from workers import Worker, installed

from retrieval import Item, read_items
from retrieval.domain.items.embedding import TextRole
from retrieval.services.evaluate import measure as score
from retrieval.services.evaluate import parse_metric
from retrieval.services.judgements import JudgedQuery

Say = Callable[[str], None]
_BATCH = 512


def measure_quality(
    server: Server, data: Path | None, peers_python: str | None, cache: Path, say: Say
) -> dict[str, Any]:
    """nDCG@10 and latency of every hybrid variant, or why there are none."""
    if data is None or not (data / SCIFACT.collection).is_dir():
        reason = "no folder that holds scifact was named: make bench DATA=..."
        say(f"HYBRID QUALITY IS NOT MEASURED: {reason}")
        return {"skipped": reason}
    queries, qrels = SCIFACT.queries(data)
    lines = read_items(data / SCIFACT.collection / "corpus.jsonl.gz")
    items = [line.item for line in lines if line.item is not None]
    cache.mkdir(exist_ok=True)
    vectors, query_vectors = asyncio.run(embedded(items, queries, cache, say))
    corpus = Corpus(
        [item.item_id for item in items], [item.indexed_text for item in items], vectors, [{} for _ in items]
    )
    names = [name for name in PEERS if installed(name, peers_python)]
    calls = [Call("hybrid", (query.text, vector, K)) for query, vector in zip(queries, query_vectors, strict=True)]
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(Worker(name, peers_python)) for name in names]
        workers = [worker for worker in workers if worker.fusions]
        _load(server, workers, corpus)
        say("SciFact loaded")
        units = measure(workers, lambda worker: worker.fusions, calls, warm_up=10)
    rows = []
    for unit in units:
        run = {query.query_id: ids for query, ids in zip(queries, unit.found, strict=True)}
        mean = fmean(score(run, qrels, parse_metric("nDCG@10")).values())
        rows.append(unit.row() | {"ndcg_at_10": round(mean, 4)})
    return {"documents": len(corpus), "queries": len(queries), "rows": rows}


def _load(server: Server, workers: Sequence[Worker], corpus: Corpus) -> None:
    with tempfile.TemporaryDirectory() as folder:
        corpus.save(Path(folder))
        for number, worker in enumerate(workers):
            url = server.database(f"quality_{number}", platform=worker.name == "ours")
            worker.load(url, Path(folder))
            settle(url)
            worker.call("open")


async def embedded(
    items: Sequence[Item], queries: Sequence[JudgedQuery], cache: Path, say: Say
) -> tuple[Vectors, Vectors]:
    """Vectors of the documents and of the queries, from the last run if they are there."""
    from retrieval.adapters.embedders.minilm import MiniLMEmbedder

    embedder = MiniLMEmbedder()
    try:
        vectors = []
        for role, texts in (
            (TextRole.DOCUMENT, [item.indexed_text for item in items]),
            (TextRole.QUERY, [query.text for query in queries]),
        ):
            path = cache / f"scifact_{embedder.space.revision}_{role.value}_{len(texts)}.npy"
            if not path.exists():
                parts = []
                for start in range(0, len(texts), _BATCH):
                    parts.append(await embedder.embed(texts[start : start + _BATCH], role))
                    say(f"embedded {min(start + _BATCH, len(texts)):,} of {len(texts):,} {role.value} texts")
                np.save(path, np.concatenate(parts))
            vectors.append(np.load(path))
    finally:
        await embedder.aclose()
    return vectors[0], vectors[1]
