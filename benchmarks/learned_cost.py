"""What a learned model adds to a search: processor time of Python and PostgreSQL together, and latency.

    python benchmarks/learned_cost.py DATA

DATA holds SciFact and LoCoMo. The users of ``learning_curve.py`` give 500 verdicts, after which the job ``learn``
publishes a model. Then questions that nobody asked are searched by words and vector, with the model and without it, in
alternating blocks, recorded and not recorded. Their vectors are given, so no embedding is timed.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from command import data_of, machine, say, write
from learning_curve import LOOKS, PATIENT, WORLDS, Crowd, Remembering, World, curve, fill
from server import Server, ServerTime, running

from retrieval import Collection, Profile, connect
from retrieval.domain.items.embedding import TextRole, Vectors
from retrieval.domain.search.profile_parts import Combination, Learned

NAMES = ("scifact", "locomo")
WANTED_MS = 1.5
"""The most processor time that a model may add to a search."""
QUESTIONS = 100
"""The searches of a block."""
BLOCKS = 16
"""Blocks with the model, and as many without it; one more of each fills the caches first."""
LINGER_SECONDS = 0.5
"""After a block: its records are written in this time, which is a part of its processor time."""


@dataclass(frozen=True, slots=True)
class Asking:
    """The questions of one collection, and the clock of its server."""

    collection: Collection
    world: World
    vectors: Vectors
    clock: ServerTime

    async def block(self, profile: Profile) -> tuple[float, float]:
        """Milliseconds of processor time a search, and the median latency in milliseconds."""
        latencies = []
        server_started, own_started = self.clock.seconds(), time.process_time()
        questions = self.world.held_out[:QUESTIONS]
        for question, vector in zip(questions, self.vectors, strict=True):
            started = time.perf_counter()
            await self.collection.search(
                question.text, vector=vector, where=question.where, profile=profile, syntax=False
            )
            latencies.append(time.perf_counter() - started)
        await asyncio.sleep(LINGER_SECONDS)
        spent = self.clock.seconds() - server_started + time.process_time() - own_started
        return spent / len(questions) * 1e3, median(latencies) * 1e3

    async def row(self) -> dict[str, Any]:
        """The medians over the blocks with the model and without it, and their differences, in milliseconds."""
        own = self.collection.profile
        profiles = {"with": own, "without": replace(own, learned=Learned(combination=Combination.OFF))}
        blocks: dict[str, list[tuple[float, float]]] = {name: [] for name in profiles}
        for number, name in itertools.product(range(BLOCKS + 1), profiles):
            figures = await self.block(profiles[name])
            if number:
                blocks[name].append(figures)
        row: dict[str, Any] = {}
        for figure, place in (("cpu", 0), ("p50", 1)):
            with_model, without = (median(figures[place] for figures in blocks[name]) for name in profiles)
            row[f"{figure}_with_ms"], row[f"{figure}_without_ms"] = round(with_model, 2), round(without, 2)
            row[f"{figure}_added_ms"] = round(with_model - without, 2)
        return row


async def measured(server: Server, data: Path, name: str, embedder: Remembering) -> list[dict[str, Any]]:
    """The rows of one collection, recorded and not. Raises ``RuntimeError`` if no model was published."""
    world = WORLDS[name](data)
    place = await fill(server, data, world, Learned(combination=Combination.LOGIT_STACK), embedder)
    vectors = await embedder.embed([question.text for question in world.held_out[:QUESTIONS]], TextRole.QUERY)
    async with connect(server.url_of(place.database), settings=PATIENT, embedder=embedder) as platform:
        points = await curve(platform, place, Crowd(seed=0, noise=0.3, wrong=0.0), LOOKS[:2])
        if not any(point.get("published") for point in points):
            raise RuntimeError(f"{name} got no model within {LOOKS[1]} verdicts")
        collection = await platform.collection(world.task.collection)
        clock = ServerTime(server.url_of("postgres"))
        rows = []
        for is_recorded in (True, False):
            asked = collection if is_recorded else collection.unrecorded()
            row = await Asking(asked, world, np.asarray(vectors), clock).row()
            rows.append({"collection": name, "recorded": is_recorded, **row})
            say(str(rows[-1]))
        return rows


def page(result: dict[str, Any]) -> str:
    """The page ``learned_cost.md``."""
    about, rows = result["about"], result["rows"]
    most = max(row["cpu_added_ms"] for row in rows)
    lines = "\n".join(map(_line, rows))
    verdict = "met" if most <= WANTED_MS else "**not met**"
    return f"""# What a learned model costs

Searches by words and vector, 10 hits, with a published `logit_stack` and without it; {about["cores"]} cores,
{about["date"]}. Medians of {BLOCKS} alternating blocks of {QUESTIONS} searches (`benchmarks/learned_cost.py`).
Processor: Python and PostgreSQL together, with the record.

| collection | recorded | processor with, ms | without | added | p50 with, ms | without | added |
|---|---|---|---|---|---|---|---|
{lines}

Added at most {most} ms of processor time; wanted: at most {WANTED_MS} ms ({verdict}).
"""


def _line(row: dict[str, Any]) -> str:
    figures: Sequence[str] = [str(value) for key, value in row.items() if key.endswith("_ms")]
    return f"| {row['collection']} | {'yes' if row['recorded'] else 'no'} | {' | '.join(figures)} |"


async def run(server: Server, data: Path) -> dict[str, Any]:
    """The content of the JSON file."""
    embedder = Remembering()
    rows = [row for name in NAMES for row in await measured(server, data, name, embedder)]
    return {"about": machine(), "rows": rows}


if __name__ == "__main__":
    folder = data_of(__doc__)
    with running() as started_server:
        result_of_run = asyncio.run(run(started_server, folder))
    write("learned_cost", result_of_run, page(result_of_run))
