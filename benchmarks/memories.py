"""Memories of one project: how fast the engine answers, and how often it misses a member of the true top ten.

    python benchmarks/memories.py [--quick] [--server URL] [--out DIRECTORY]

100,000 memories, usual and hard (see ``memory_world``). The truth is the design's formula over all of them. Results go
to ``benchmarks/results/memories.{json,md}``.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import memory_world
import numpy as np
import psycopg
from command import parser_of, write
from memory_world import NOW, PROJECT, Question, World, true_scores
from pydantic import SecretStr
from report import table
from server import Server, running, settle

from retrieval import Platform, Settings
from retrieval.apps.memories.engine import RetrievalEngine
from retrieval.apps.memories.requests import MIN_SCORE
from retrieval.apps.memories.store import memories_collection

GOAL_MS = 25.0
GOAL_OVERLAP = 0.99
_BATCH = 2000


@dataclass(frozen=True, slots=True)
class Extent:
    """The settings of the measurement."""

    memories: int
    questions: int


NORMAL = Extent(100_000, 100)
QUICK = Extent(300, 3)


def item_id(number: int) -> str:
    """The key of a memory."""
    return f"m{number:06}"


async def fill(platform: Platform, world: World, url: str) -> None:
    """Store the memories: the items as anybody does, the rest by COPY."""
    collection = await memories_collection(platform)
    for start in range(0, len(world), _BATCH):
        await collection.add(
            [
                {
                    "_id": item_id(number),
                    "title": " ".join(world.texts[number].split()[:8]),
                    "text": world.texts[number],
                    "kind": world.types[number],
                    "occurred_at": world.happened_at(number),
                    "metadata": {"project_id": PROJECT, "user_id": f"u{number % 20}"},
                }
                for number in range(start, min(start + _BATCH, len(world)))
            ]
        )
    collection_id = (await collection.refresh()).collection_id
    with psycopg.connect(url) as connection:
        _copy(connection, collection_id, world)
    settle(url)


def _copy(connection: psycopg.Connection[Any], collection_id: int, world: World) -> None:
    connection.execute("SET search_path = retrieval, public")
    columns = "collection_id, item_id, happened_at, base_relevance, accesses"
    with connection.cursor().copy(f"COPY memories ({columns}) FROM STDIN".encode()) as rows:
        for number in range(len(world)):
            figures = float(world.relevance[number]), world.accesses[number]
            rows.write_row((collection_id, item_id(number), world.happened_at(number), *figures))
    columns = "collection_id, entity_type, entity_id, item_id, happened_at"
    with connection.cursor().copy(f"COPY memory_links ({columns}) FROM STDIN".encode()) as rows:
        for number, links in enumerate(world.links):
            for kind, entity_id in links:
                rows.write_row((collection_id, kind, entity_id, item_id(number), world.happened_at(number)))


async def measure_kinds(
    engine: RetrievalEngine, world: World, by_kind: dict[str, list[Question]]
) -> list[dict[str, Any]]:
    """Each kind's time and agreement with the truth; the kinds take turns, in an order shuffled each time."""
    chance = random.Random(3)  # noqa: S311 - the order of measurements is no secret
    times: dict[str, list[float]] = {kind: [] for kind in by_kind}
    overlaps: dict[str, list[float]] = {kind: [] for kind in by_kind}
    calls = [(kind, question) for kind, questions in by_kind.items() for question in questions]
    chance.shuffle(calls)
    for kind, question in [*calls[:: len(by_kind)], *calls]:
        words, entities = question
        started = time.perf_counter()
        memories = await engine.retrieve_relevant_memories(PROJECT, words, limit=10, **entities)  # type: ignore[arg-type]
        times[kind].append((time.perf_counter() - started) * 1e3)
        overlaps[kind].append(overlap([int(memory.memory_id[1:]) for memory in memories], true_scores(world, question)))
    return [row(kind, times[kind], overlaps[kind]) for kind in by_kind]


def overlap(numbers: Sequence[int], scores: memory_world.Floats, limit: int = 10) -> float:
    """The share of the true best that was found; of equals any will do."""
    true = np.sort(scores[scores >= MIN_SCORE])[::-1][:limit]
    if not len(true):
        return 1.0
    return float(np.sum(scores[list(numbers)] >= true[-1] - 1e-9)) / len(true)


def row(kind: str, milliseconds: list[float], overlaps: list[float]) -> dict[str, Any]:
    """The figures of one kind in the tables."""
    p50, p95 = np.percentile(milliseconds, [50, 95])
    return {
        "questions": kind,
        "p50_ms": round(float(p50), 1),
        "p95_ms": round(float(p95), 1),
        "overlap_10": round(float(np.mean(overlaps)), 4),
    }


def platform_of(url: str, tenant: str) -> Platform:
    """A platform without vectors, for whom it is always the same moment."""
    settings = Settings(tenant=tenant, embedder="none", database_url=SecretStr(url))
    return Platform(settings, wall_clock=NOW.timestamp)


async def run_world(server: Server, extent: Extent, *, is_hard: bool) -> list[dict[str, Any]]:
    """Fill and measure one world."""
    name = "memories_hard" if is_hard else "memories"
    url = server.database(name, platform=True)
    world = memory_world.make_world(extent.memories, is_hard=is_hard)
    async with platform_of(url, name) as platform:
        started = time.perf_counter()
        await fill(platform, world, url)
        print(f"{name}: filled in {time.perf_counter() - started:.0f} s", file=sys.stderr)
        return await measure_kinds(
            RetrievalEngine(platform, count_accesses=False), world, memory_world.questions(extent.questions)
        )


def page(result: dict[str, Any]) -> str:
    """The results for people."""
    about = f"""# Memories

{result["memories"]:,} memories of one project, {result["each"]} questions of each kind, ten hits wanted;
one process, PostgreSQL on the same machine. Overlap is the share of the true ten best, by the formula over
all memories, that the answer holds. `python benchmarks/memories.py` measures it again."""
    worlds = [f"## {world}\n\n{table(rows)}" for world, rows in result["worlds"].items()]
    return "\n\n".join([about, *worlds]) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    options = parser_of(__doc__, "a few memories, to see that it runs").parse_args(arguments)
    extent = QUICK if options.quick else NORMAL
    with running(options.server) as server:
        worlds = {
            name: asyncio.run(run_world(server, extent, is_hard=is_hard))
            for name, is_hard in (("The usual world", False), ("The hard world", True))
        }
    result = {"memories": extent.memories, "each": extent.questions, "worlds": worlds}
    write("memories", result, page(result), options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
