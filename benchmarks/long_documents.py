"""Whether passages are found within long documents as well as alone, and whether cutting harms short ones.

    python benchmarks/long_documents.py DATA [--all]

DATA holds the folders cranfield and scifact in BEIR's format; what is missing is skipped and said. Of each, abstracts
that are judged relevant and others (of Cranfield all, of SciFact 400, with ``--all`` all) are stored in four ways:

- alone: each is an item, as ``ingest`` stores it;
- documents: each is a document, cut where it is longer than the model reads, and found by its best chunk;
- sections: 20 of them are joined to one long Markdown document, each under its title as a heading;
- plain: 20 of them are joined to one long text, whose paragraphs nothing but a blank line divides.

A chunk of a long document shows an abstract if it holds half of it, or if half of the chunk is of it: measured in runs
of four words. The abstracts that the chunks show, in the order of the chunks, are ranked against the judgements. The
result goes to ``benchmarks/results/long_documents.json`` and ``.md``.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from command import write
from tasks import CRANFIELD, SCIFACT, Task

from retrieval import Collection, Item, Platform, connect, read_items
from retrieval.domain.items.chunking import Chunking
from retrieval.domain.search.hit import Hit
from retrieval.services.evaluate import evaluate, parse_metrics
from retrieval.services.judgements import Qrels
from retrieval.settings import Settings

METRICS = "R@10,nDCG@10"
JOINED = 20
FEW = 400
"""Abstracts of SciFact."""
WAYS = ("alone", "documents", "sections", "plain")
_RUN, _HALF, _LIMIT, _DEEP = 4, 0.5, 10, 40


def runs(text: str) -> set[tuple[str, ...]]:
    """The runs of four words of a text; of a shorter one all of it."""
    words = text.lower().split()
    return {tuple(words[at : at + _RUN]) for at in range(max(len(words) - _RUN + 1, 1))}


@dataclass(frozen=True)
class AbstractIndex:
    """The abstracts that a chunk shows."""

    passages: dict[str, set[tuple[str, ...]]]
    """The runs of each abstract."""
    owners: dict[tuple[str, ...], list[str]]

    @classmethod
    def of(cls, items: Iterable[Item]) -> AbstractIndex:
        """Make it of the abstracts."""
        passages = {item.item_id: runs(item.body) for item in items if item.body.strip()}
        owners: dict[tuple[str, ...], list[str]] = {}
        for name, item_ids in passages.items():
            for run in item_ids:
                owners.setdefault(run, []).append(name)
        return cls(passages, owners)

    def by(self, hits: Sequence[Hit]) -> list[str]:
        """The abstracts in the order in which the chunks show them, each once."""
        return list(dict.fromkeys(name for hit in hits for name in self._by(hit.body)))[:_LIMIT]

    def _by(self, body: str) -> list[str]:
        matches = runs(body)
        shared = Counter(name for run in matches for name in self.owners.get(run, ()))
        return [
            name
            for name, number in shared.most_common()
            if number >= _HALF * len(self.passages[name]) or number >= _HALF * len(matches)
        ]


def joined(items: Sequence[Item]) -> list[dict[str, str]]:
    """Long Markdown documents, each of 20 abstracts under headings."""
    return [
        {
            "id": f"volume-{at // JOINED}",
            "title": f"Volume {at // JOINED}",
            "text": "\n\n".join(map(_section, items[at : at + JOINED])),
        }
        for at in range(0, len(items), JOINED)
    ]


def joined_plain(items: Sequence[Item]) -> list[dict[str, str]]:
    """The same as plain texts."""
    return [
        {
            **document,
            "format": "text",
            "text": "\n\n".join(f"{item.title}\n{item.body}" for item in items[at : at + JOINED]),
        }
        for document, at in zip(joined(items), range(0, len(items), JOINED), strict=True)
    ]


def _section(item: Item) -> str:
    return f"## {item.title}\n\n{item.body}"


async def measure(platform: Platform, data: Path, task: Task, most: int, chunking: Chunking) -> dict[str, Any]:
    """One set of abstracts in all four ways."""
    queries, qrels = task.queries(data)
    items = sample_of(data, task, qrels, most)
    name = f"{task.collection}_{len(items)}"
    alone = await anew(platform, name)
    added = await alone.add(items)
    alike = [{"id": i.item_id, "title": i.title, "text": i.body, "format": "text"} for i in items if i.indexed_text]
    collections: dict[str, tuple[Collection, Any]] = {}
    for way, documents in (("documents", alike), ("sections", joined(items)), ("plain", joined_plain(items))):
        collections[way] = await store(platform, f"{name}_{way}", documents, chunking)
    abstracts = AbstractIndex.of(items)
    rank: dict[str, Callable[[str], Any]] = {
        "alone": lambda text: _ids(alone, text),
        "documents": lambda text: _documents(collections["documents"][0], text),
        "sections": lambda text: _found_abstracts(collections["sections"][0], text, abstracts),
        "plain": lambda text: _found_abstracts(collections["plain"][0], text, abstracts),
    }

    async def search(text: str, *, where: dict[str, Any] | None, limit: int, variant: str) -> list[str]:  # noqa: ARG001
        ranked: list[str] = await rank[variant](text)
        return ranked

    report = await evaluate(search, queries, qrels, metrics=parse_metrics(METRICS), variants=WAYS)
    return {
        "abstracts": len(items),
        "cut": added.cut,
        "chunks": {way: (await collections[way][0].info()).items for way in collections},
        **report.as_dict(),
    }


def sample_of(data: Path, task: Task, qrels: Qrels, most: int) -> list[Item]:
    """The relevant abstracts and as many others, in the order of the file."""
    items = [line.item for line in read_items(data / task.collection / "corpus.jsonl.gz") if line.item is not None]
    items = [replace(item, attributes={}) for item in items]
    relevant = {item_id for judged in qrels.values() for item_id in judged}
    others = max(most - sum(item.item_id in relevant for item in items), 0) if most else len(items)
    sample: list[Item] = []
    for item in items:
        if item.item_id in relevant:
            sample.append(item)
        elif others:
            others -= 1
            sample.append(item)
    return sample


async def anew(platform: Platform, name: str) -> Collection:
    """An empty collection; vectors of an earlier run are in the cache."""
    if name in [collection.name for collection in await platform.collections()]:
        await platform.remove_collection(name)
    return await platform.collection(name)


async def store(platform: Platform, name: str, documents: list[dict[str, str]], chunking: Chunking) -> Any:
    """The collection of those documents' chunks, and what became of them."""
    collection = await anew(platform, name)
    report = await collection.add_documents(documents, chunking=chunking)
    if set(dict(report.failed).values()) - {"holds no text"}:
        raise SystemExit(f"{name}: {report.failed[:3]}")
    return collection, report


async def _ids(collection: Collection, text: str) -> list[str]:
    return [hit.item_id for hit in await collection.search(text, limit=_LIMIT, syntax=False)]


async def _documents(collection: Collection, text: str) -> list[str]:
    hits = await collection.search(text, limit=_LIMIT, group_by="document", syntax=False)
    return [str(hit.attributes["document"]) for hit in hits]


async def _found_abstracts(collection: Collection, text: str, abstracts: AbstractIndex) -> list[str]:
    return abstracts.by((await collection.search(text, limit=_DEEP, syntax=False)).hits)


_ABOUT = """# Passages of long documents

By `python benchmarks/long_documents.py DATA`, with the local model (256 tokens), chunks of at most {} tokens that
overlap by {}, and a new collection's profile. *Alone*: every abstract is an item. *Documents*: every abstract is a
document, found by its best chunk. *Sections* and *plain*: {} abstracts are one long document, with and without
headings; an abstract is found where a chunk shows half of it, or half of the chunk is of it.

| Data | Abstracts | too long for the model | Queries | Stored | Chunks | R@10 | of alone | nDCG@10 | of alone |
|---|---|---|---|---|---|---|---|---|---|"""


def page(results: dict[str, Any], chunking: Chunking) -> str:
    """The results as Markdown."""
    lines = _ABOUT.format(chunking.max_tokens, chunking.overlap, JOINED).split("\n")
    for name, result in results.items():
        figures = {variant["variant"]: variant["metrics"] for variant in result["variants"]}
        for way in WAYS:
            recall, gain = figures[way]["R@10"], figures[way]["nDCG@10"]
            first = figures["alone"]
            lines.append(
                f"| {name} | {result['abstracts']:,} | {result['cut']:,} | {result['queries']} | {way} | "
                f"{result['chunks'].get(way, result['abstracts']):,} | {recall:.4f} | {recall / first['R@10']:.3f} | "
                f"{gain:.4f} | {gain / first['nDCG@10']:.3f} |"
            )
    return "\n".join(lines) + "\n"


async def main(data: Path, most: int, chunking: Chunking) -> None:
    """Measure the existing collections, print, write."""
    results = {}
    async with connect(settings=Settings().changed(embedder="minilm")) as platform:
        for task in (CRANFIELD, SCIFACT):
            if (data / task.collection).is_dir():
                results[task.name] = await measure(platform, data, task, most if task is SCIFACT else 0, chunking)
                write("long_documents", results, page(results, chunking))
            else:
                print(f"skipped: {data} holds no {task.collection} folder", file=sys.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--all", action="store_true", help="all abstracts of SciFact, which takes long")
    parser.add_argument("--max-tokens", type=int, default=Chunking().max_tokens)
    parser.add_argument("--overlap", type=int, default=Chunking().overlap)
    given = parser.parse_args()
    asyncio.run(main(given.data, 0 if given.all else FEW, Chunking(max_tokens=given.max_tokens, overlap=given.overlap)))
