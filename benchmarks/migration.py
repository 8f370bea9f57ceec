"""Stores that langchain-postgres made, copied into collections: nothing lost, the same found, and how long it takes.

    python benchmarks/migration.py --peers-python PATH [--quick] [--server URL] [--out DIRECTORY]

PATH is the Python of the environment that ``requirements-peers.txt`` was installed into; it makes a ``PGVector`` and a
``PGVectorStore``, whose answers are the reference. Results go to ``benchmarks/results/migration.{json,md}``.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from command import parser_of, write
from corpora import Corpus, clustered
from pydantic import SecretStr
from server import running
from workers import printed

from retrieval import Collection, Settings, connect
from retrieval.domain.items.embedding import EmbeddingSpace
from retrieval.surfaces.langchain.migrate import LangChainStore, copy_store

SIZE, QUICK = (10_000, 384, 100), (300, 16, 5)
"""Documents, dimensions, questions."""

STORES = {"PGVector": LangChainStore(name="articles"), "PGVectorStore": LangChainStore(table="articles")}


async def copied(
    source: str, target: str, corpus: Corpus, questions: Any, reference: Mapping[str, list[list[str]]]
) -> list[dict[str, Any]]:
    """A row of figures for each store."""
    space = EmbeddingSpace(provider="benchmark", model="clustered", dimensions=corpus.dimensions)
    settings = Settings(database_url=SecretStr(target), embedder="none")
    rows = []
    async with connect(settings=settings) as platform:
        for name, store in STORES.items():
            collection = await platform.collection(name.lower(), space=space)
            seconds = []
            for _ in range(2):
                began = time.monotonic()
                report = await copy_store(source, store, collection)
                seconds.append(time.monotonic() - began)
            same = await overlap(collection, questions, reference[name])
            rows.append(
                {
                    "store": name,
                    "documents": len(corpus),
                    "as they were": await faithful(collection, corpus),
                    "same top 10": same,
                    "copy s": seconds[0],
                    "second copy s": seconds[1],
                    "second copy changes": report.copied,
                }
            )
    return rows


async def overlap(collection: Collection, questions: Any, reference: Sequence[Sequence[str]]) -> float:
    """The share of what the library found that the collection finds by the same vectors."""
    shares = []
    for vector, ids in zip(questions, reference, strict=True):
        item_ids = [hit.item_id for hit in await collection.search(vector=vector, limit=len(ids), legs=["dense"])]
        shares.append(len(set(item_ids) & set(ids)) / len(ids))
    return float(np.mean(shares))


async def faithful(collection: Collection, corpus: Corpus) -> int:
    """The number of documents with their text, their metadata, and a vector within the error of half precision."""
    count = 0
    for start in range(0, len(corpus), 1000):
        ids = list(corpus.ids[start : start + 1000])
        items, vectors = await collection.get(ids), await collection.embeddings(ids)
        for place, item_id in enumerate(ids, start):
            item, vector = items.get(item_id), vectors.get(item_id)
            count += (
                item is not None
                and vector is not None
                and (item.body, dict(item.attributes)) == (corpus.texts[place], dict(corpus.attributes[place]))
                and bool(np.allclose(vector, corpus.vectors[place], atol=1e-3))
            )
    return count


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """The figures for people."""
    lines = [
        "# Copied from langchain-postgres",
        "",
        "Stores made by langchain-postgres 0.0.19, copied by `copy_store`. The reference of the top 10 is what the",
        "store itself found for the same vectors.",
        "",
        "| store | documents | as they were | same top 10 | copy | second copy | changes of it |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    table = [
        f"| {row['store']} | {row['documents']:,} | {row['as they were']:,} | {row['same top 10']:.3f} "
        f"| {row['copy s']:.0f} s | {row['second copy s']:.0f} s | {row['second copy changes']} |"
        for row in rows
    ]
    return "\n".join([*lines, *table]) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = parser_of(__doc__, "a few items, to see that it runs")
    parser.add_argument("--peers-python", required=True, help="the Python of the peers' environment")
    options = parser.parse_args(arguments)
    corpus = clustered(*(QUICK if options.quick else SIZE))
    questions = np.stack([question.vector for question in corpus.questions])
    with running(options.server) as server, tempfile.TemporaryDirectory() as name:
        folder = corpus.corpus.save(Path(name))
        np.save(folder / "questions.npy", questions)
        source, target = server.database("langchain_source"), server.database("langchain_target", platform=True)
        library_url = source.replace("postgresql://", "postgresql+psycopg://")
        reference = printed(options.peers_python, "peers.langchain_made", library_url, str(folder))
        rows = asyncio.run(copied(source, target, corpus.corpus, questions, reference))
        for database in ("langchain_source", "langchain_target"):
            server.drop(database)
    write("migration", rows, page(rows), options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
