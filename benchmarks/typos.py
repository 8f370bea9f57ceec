"""Typo tolerance on judged test collections: one seeded typo in each query, by words alone, without and with ``typos``.

    python benchmarks/typos.py DATA

DATA holds the folders scifact and cranfield in BEIR's format. A typo leaves out, doubles, exchanges or replaces a
letter of one word of four letters or more; nothing says that the word is then unknown. Prints a Markdown table: nDCG@10
of the lexical leg on the queries as they are and with the typo, and the milliseconds of a search.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import string
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from command import data_of
from tasks import CRANFIELD, SCIFACT, Task

from retrieval import Platform, connect
from retrieval.domain.search.spelling import SHORTEST, checkable
from retrieval.services.evaluate import evaluate, parse_metrics
from retrieval.services.judgements import JudgedQuery
from retrieval.settings import Settings

SEEDS = (1, 2, 3)


def with_typo(text: str, chance: random.Random) -> str:
    """The text with one typo; as it is where no word is long enough."""
    words = [word for word in checkable(text, syntax=False) if len(word.spelling) >= SHORTEST]
    if not words:
        return text
    word = chance.choice(words)
    place = word.start + chance.randrange(len(word.spelling) - 1)
    head, letter, following, tail = text[:place], text[place], text[place + 1], text[place + 2 :]
    other = chance.choice(string.ascii_lowercase)
    return head + chance.choice([following, letter * 2 + following, following + letter, other + following]) + tail


async def measure(platform: Platform, data: Path, task: Task) -> None:
    """Print the rows of one collection."""
    collection = (await task.ingested(platform, data)).unrecorded()
    queries, qrels = task.queries(data)

    async def asked(name: str, variants: list[JudgedQuery], *, typos: bool) -> None:
        times: list[float] = []

        async def search(text: str, *, where: dict[str, Any] | None, limit: int, variant: str) -> list[str]:
            started = time.perf_counter()
            hits = await collection.search(text, where=where, limit=limit, legs=[variant], syntax=False, typos=typos)
            times.append((time.perf_counter() - started) * 1000)
            return [hit.item_id for hit in hits]

        report = await evaluate(search, variants, qrels, metrics=parse_metrics("nDCG@10"), variants=["lexical"])
        [figure] = report.as_dict()["variants"][0]["metrics"].values()
        print(f"| {task.name} | {name} | {typos} | {figure:.4f} | {statistics.median(times):.1f} |", flush=True)

    for typos in (False, True):
        await asked("as they are", queries, typos=typos)
    for seed in SEEDS:
        chance = random.Random(seed)  # noqa: S311 - seeded test data
        misspelt = [replace(query, text=with_typo(query.text, chance)) for query in queries]
        for typos in (False, True):
            await asked(f"one typo, seed {seed}", misspelt, typos=typos)


async def main(data: Path) -> None:
    """Measure both collections."""
    print("| collection | queries | typos= | nDCG@10 | median ms |\n|---|---|---|---|---|")
    async with connect(settings=Settings().changed(embedder="none")) as platform:
        for task in (CRANFIELD, SCIFACT):
            await measure(platform, data, task)


if __name__ == "__main__":
    asyncio.run(main(data_of(__doc__)))
