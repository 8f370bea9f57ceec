"""What the metadata's weight does to the search for duplicates: the tickets application on judged bug reports.

    python benchmarks/tickets.py DATA

DATA holds the folder tickets_hadoop in BEIR's format: a query is a later duplicate's title, with its description beside
it. Only what existed at its time is searched, without itself, and a resolution that was still to come is not known.
With the offline embedding model. The result goes to ``benchmarks/results/tickets.md``.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from tasks import TICKETS

from retrieval import Collection, Platform, connect
from retrieval.apps.tickets import PRESETS, TICKET_FILTERABLE, RetrievalConfig, RetrievalService, ticket_item
from retrieval.apps.tickets.profile import tickets_profile
from retrieval.domain.signals.signal import Asked, Facts
from retrieval.engine.defaults import default_profile
from retrieval.jobs.judgements import Qrels, Query
from retrieval.jobs.metrics import measure, parse_metrics
from retrieval.settings import Settings

RESULTS = Path(__file__).parent / "results" / "tickets.md"
COLLECTION = "tickets_hadoop_history"
METADATA_WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.5)
DEPTHS = (10, 20, 100, 500, 1000)
PAGE = 20

Run = dict[str, list[str]]
Text = Callable[[Query], str]


def title(query: Query) -> str:
    """The title alone."""
    return query.text


def whole(query: Query) -> str:
    """Title and description."""
    return f"{query.text}\n{query.metadata.get('description', '')}".strip()


QUESTIONS: Mapping[str, Text] = {"title": title, "title and description": whole}


async def loaded(platform: Platform, data: Path) -> Collection:
    """The tickets, as the application keeps them; a second time at no cost."""
    collection = await platform.collection(COLLECTION, filterable=TICKET_FILTERABLE)
    with gzip.open(data / TICKETS.collection / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        await collection.add([ticket_item(json.loads(line)) for line in lines])
    return collection.unrecorded()


async def by_vector(platform: Platform, queries: Sequence[Query], text: Text) -> dict[float, Run]:
    """By metadata weight, what the service finds: similarity is the cosine."""
    service = RetrievalService(RetrievalConfig(collection=COLLECTION), platform)
    weightings = {f"{weight:g}": (1 - weight, weight) for weight in METADATA_WEIGHTS}
    runs: dict[float, Run] = {weight: {} for weight in METADATA_WEIGHTS}
    for query in queries:
        config = {
            "weightings": weightings,
            "top_k": 10,
            "as_of": query.metadata["as_of"],
            "exclude_ids": [query.metadata["self_id"]],
        }
        found = await service.preview_search(text(query), config=config)
        for one in found.previews:
            runs[float(one.weighting.name)][query.query_id] = [moved.ticket.ticket_id for moved in one.tickets]
    return runs


async def by_both(collection: Collection, queries: Sequence[Query], text: Text) -> dict[float, Run]:
    """By metadata weight, the same formula over the fused score of words and vectors: the default profile's."""
    runs: dict[float, Run] = {weight: {} for weight in METADATA_WEIGHTS}
    profile = default_profile(await collection.space())
    _, *metadata = tickets_profile(0.0, 1.0).signals
    for query in queries:
        where, now = narrowed(query)
        hits = await collection.search(text(query), where=where, limit=100, profile=profile, syntax=False)
        asked = Asked(now=now)
        scored = [
            (hit.score, sum(one.weight * one.value(Facts(attributes=hit.attributes), asked) for one in metadata), hit)
            for hit in hits
        ]
        for weight, run in runs.items():
            ranked = sorted((-(1 - weight) * text_ - weight * meta, hit.item_id) for text_, meta, hit in scored)
            run[query.query_id] = [item_id for _, item_id in ranked[:10]]
    return runs


async def by_depth(collection: Collection, queries: Sequence[Query]) -> dict[int, Run]:
    """By the number of nearest tickets that are scored, the first page under the default weights."""
    runs: dict[int, Run] = {depth: {} for depth in DEPTHS}
    for query in queries:
        where, now = narrowed(query)
        for depth, run in runs.items():
            limit = min(PAGE, depth)
            profile = replace(tickets_profile(), depth=depth)
            hits = await collection.search(
                query.text, where=where, limit=limit, profile=profile, syntax=False, as_of=now
            )
            run[query.query_id] = [hit.item_id for hit in hits]
    return runs


def narrowed(query: Query) -> tuple[dict[str, object], datetime]:
    """The filter of what existed at the query's time, without its own ticket; and that time."""
    as_of = datetime.fromisoformat(str(query.metadata["as_of"]))
    return {"occurred_at": {"lt": as_of}, "item_id": {"ne": query.metadata["self_id"]}}, as_of


def figures(run: Run, qrels: Qrels) -> tuple[float, float]:
    """nDCG@10 and R@10."""
    means = measure(run, qrels, parse_metrics("nDCG@10,R@10")).means
    return means["nDCG@10"], means["R@10"]


def shared(run: Run, full: Run) -> float:
    """The mean share of ``full``'s pages that ``run``'s pages have too."""
    shares = [len(set(run[key]) & set(page)) / len(page) for key, page in full.items() if page]
    return sum(shares) / len(shares)


ABOUT = """\
# Tickets: duplicates, and what the metadata's weight does

{documents:,} Hadoop bug reports, {queries} later duplicates as queries; only what existed at the query's time, without
the query's own ticket; all-MiniLM-L6-v2 (8-bit). Made by `python benchmarks/tickets.py DATA`.

## nDCG@10 (R@10) by metadata weight

`vector`: the cosine, as `RetrievalService` has it, over the 100 nearest. `words and vector`: the same formula over the
fused score of the collection's own profile (dense 0.6, lexical 0.4), its best 100. The presets' metadata weights:
{presets}.

| similarity | asked by | {weights} |
|---|---|{columns}
{quality}

## How many of the nearest are scored

Weights .7 and .3, asked by title, pages of {page}.

| scored | nDCG@10 | share of the page that scoring {deepest:,} gives |
|---|---|---|
{depths}
"""


async def report(data: Path) -> str:
    """The page of results."""
    queries, qrels = TICKETS.queries(data)
    async with connect(settings=Settings().changed(embedder="minilm")) as platform:
        collection = await loaded(platform, data)
        runs: dict[tuple[str, str], dict[float, Run]] = {}
        for asked, text in QUESTIONS.items():
            runs["vector", asked] = await by_vector(platform, queries, text)
            runs["words and vector", asked] = await by_both(collection, queries, text)
        depths = await by_depth(collection, queries)
        documents = (await collection.info()).documents
    return ABOUT.format(
        documents=documents,
        queries=len(queries),
        presets=", ".join(f"{name} {one.weights.metadata:g}" for name, one in PRESETS.items()),
        weights=" | ".join(f"{weight:g}" for weight in METADATA_WEIGHTS),
        columns="---|" * len(METADATA_WEIGHTS),
        quality="\n".join(quality_row(*name, by_weight, qrels) for name, by_weight in runs.items()),
        page=PAGE,
        deepest=DEPTHS[-1],
        depths="\n".join(depth_row(depth, run, depths[DEPTHS[-1]], qrels) for depth, run in depths.items()),
    )


def quality_row(similarity: str, asked: str, by_weight: Mapping[float, Run], qrels: Qrels) -> str:
    """A row of the first table."""
    cells = [f"{ndcg:.3f} ({recall:.2f})" for ndcg, recall in (figures(run, qrels) for run in by_weight.values())]
    return f"| {similarity} | {asked} | {' | '.join(cells)} |"


def depth_row(depth: int, run: Run, full: Run, qrels: Qrels) -> str:
    """A row of the second table."""
    first = {key: page[:10] for key, page in run.items()}
    return f"| {depth:,} | {figures(first, qrels)[0]:.3f} | {shared(run, full):.2f} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    folder = parser.parse_args().data
    if not (folder / TICKETS.collection).is_dir():
        sys.exit(f"{folder} holds no {TICKETS.collection} folder; give the folder of the test collections")
    page = asyncio.run(report(folder))
    print(page)
    RESULTS.write_text(page, encoding="utf-8")
