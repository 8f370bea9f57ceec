"""Searches with many tenants: the same small collection for each, questions from tenants drawn at random.

An installation of each size lies in a database of its own, and questions go to them in turn, so that noise hits all
alike. A platform is one tenant's, so a few of them are opened for a round, asked, and closed again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import numpy as np
from corpora import QuestionCorpus, clustered
from peers.ours import ask, items, make_collection, platform_at
from server import Server, settle

from retrieval import Collection

TENANT_ITEMS = 200
TENANT_DIMENSIONS = 64
"""Few, so that 10,000 tenants are loaded in reasonable time."""

_AT_ONCE = 4
_ROUND = 8
"""Tenants that are asked in a round, of each installation."""
_ASKED = 5
"""Counted questions to a tenant of a round, for dense and for hybrid search; one goes before, on the new connection."""

Say = Callable[[str], None]


def measure_tenants(server: Server, counts: Sequence[int], questions: int, say: Say) -> list[dict[str, Any]]:
    """A row for each number of tenants."""
    corpus = clustered(TENANT_ITEMS, TENANT_DIMENSIONS, 100)
    urls = {}
    for count in counts:
        urls[count] = server.database(f"tenants_{count}", platform=True)
        loaded = asyncio.run(_load(urls[count], count, corpus, say))
        say(f"{count:,} tenants loaded in {loaded:.0f} s")
        settle(urls[count])
    rounds = max(1, questions // (_ROUND * _ASKED) * 2)
    return asyncio.run(_measure(urls, corpus, rounds))


async def _load(url: str, count: int, corpus: QuestionCorpus, say: Say) -> float:
    """Every tenant's collection, a few tenants at a time; gives seconds."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    gate = asyncio.Semaphore(_AT_ONCE)
    stored = items(corpus.corpus)
    count_done = 0

    async def load_tenant(number: int) -> None:
        nonlocal count_done
        async with gate, platform_at(url, _name(number), pool_size=1) as platform:
            collection = await make_collection(platform, "notes", TENANT_DIMENSIONS)
            await collection.add(stored, embeddings=corpus.corpus.vectors)
        count_done += 1
        if count_done % 500 == 0:
            say(f"{count_done:,} of {count:,} tenants, {loop.time() - started:.0f} s")

    # The first tenant alone: its load creates what all tenants share.
    await load_tenant(0)
    await asyncio.gather(*(load_tenant(number) for number in range(1, count)))
    return loop.time() - started


async def _measure(urls: dict[int, str], corpus: QuestionCorpus, rounds: int) -> list[dict[str, Any]]:
    chance = random.Random(3)  # noqa: S311 - which tenants are asked is no secret
    times: dict[tuple[int, str], list[float]] = {(count, kind): [] for count in urls for kind in ("dense", "hybrid")}
    for _ in range(rounds):
        async with AsyncExitStack() as stack:
            opened = []
            for count, url in urls.items():
                for number in chance.sample(range(count), min(_ROUND, count)):
                    platform = await stack.enter_async_context(platform_at(url, _name(number), pool_size=1))
                    opened.append((count, await platform.collection("notes")))
            await _ask(opened, corpus, times, chance)
    rows = []
    for count in urls:
        row: dict[str, Any] = {"tenants": count, "items": count * TENANT_ITEMS}
        for kind in ("dense", "hybrid"):
            p50, p95 = np.percentile(times[count, kind], [50, 95])
            row |= {f"{kind} p50_ms": round(float(p50), 3), f"{kind} p95_ms": round(float(p95), 3)}
        rows.append(row)
    return rows


async def _ask(
    opened: list[tuple[int, Collection]],
    corpus: QuestionCorpus,
    times: dict[tuple[int, str], list[float]],
    chance: random.Random,
) -> None:
    loop = asyncio.get_running_loop()
    for turn in range(_ASKED + 1):
        chance.shuffle(opened)
        for count, collection in opened:
            question = chance.choice(corpus.questions)
            for kind in ("dense", "hybrid"):
                started = loop.time()
                await ask(collection, question, kind)
                if turn:
                    times[count, kind].append((loop.time() - started) * 1e3)


def _name(number: int) -> str:
    return f"tenant-{number:05d}"
