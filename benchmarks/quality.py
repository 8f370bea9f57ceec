"""Retrieval quality on judged test collections, each leg alone and fused, with the offline embedding model.

    python benchmarks/quality.py DATA

DATA holds the folders scifact, cranfield, tickets_hadoop and locomo in BEIR's format; what is missing is skipped and
said. The collections are kept in the database of the settings, so that a second run starts warm. The result is printed
as a Markdown table and goes to ``benchmarks/results/quality.json``.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from command import data_of, write_json
from tasks import CRANFIELD, LOCOMO, SCIFACT, TICKETS, Task

from retrieval import Platform, connect
from retrieval.engine.plan import default_profile
from retrieval.services.evaluate import Report, evaluate, parse_metrics
from retrieval.settings import Settings

VARIANTS = ("lexical", "dense", "fused")
METRICS = "nDCG@10,R@10,R@100,MRR@10"


async def measure(platform: Platform, data: Path, task: Task, variants: Sequence[str] = VARIANTS) -> Report:
    """One collection, with the profile that a new collection gets."""
    collection = await task.ingested(platform, data)
    space = await collection.space()
    profile = default_profile(space)
    queries, qrels = task.queries(data)

    async def search(text: str, *, where: dict[str, Any] | None, limit: int, variant: str) -> list[str]:
        legs = None if variant == "fused" else [variant]
        hits = await collection.search(text, where=where, limit=limit, legs=legs, profile=profile, syntax=False)
        return [hit.item_id for hit in hits]

    return await evaluate(
        search,
        queries,
        qrels,
        metrics=parse_metrics(METRICS),
        variants=variants,
    )


async def main(data: Path) -> None:
    """Measure the existing collections, print, write."""
    results = {}
    async with connect(settings=Settings().changed(embedder="minilm")) as platform:
        for task in (SCIFACT, CRANFIELD, TICKETS, LOCOMO):
            if (data / task.collection).is_dir():
                results[task.name] = (await measure(platform, data, task)).as_dict()
            else:
                print(f"skipped: {data} holds no {task.collection} folder", file=sys.stderr)
    print("| collection | queries | variant | nDCG@10 | R@10 | R@100 | MRR@10 |\n|---|---|---|---|---|---|---|")
    for name, report in results.items():
        for variant in report["variants"]:
            figures = " | ".join(f"{value:.4f}" for value in variant["metrics"].values())
            print(f"| {name} | {report['queries']} | {variant['variant']} | {figures} |")
    write_json("quality", results)


if __name__ == "__main__":
    asyncio.run(main(data_of(__doc__)))
