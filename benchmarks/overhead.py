"""The cost of the Python side of a search: time through the public API, less the server's reported time.

The server writes the duration of every statement of a connection into its log; a mark before each search tells which
statements are its own.
"""

from __future__ import annotations

import asyncio
import cProfile
import pstats
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from corpora import Question, QuestionCorpus
from peers.ours import COLLECTION, ask, platform_at
from psycopg import sql
from server import Server

from retrieval import Collection

_WARM_UP = 20
_MARK = "benchmark mark"
_DURATION = re.compile(r"duration: ([0-9.]+) ms")
_SHOWN = 12


def measure_overhead(server: Server, corpus: QuestionCorpus, rounds: int, database: str = "peer_0") -> dict[str, Any]:
    """Microseconds of one indexed top-10 search that are not the server's, and where Python spends them.

    The former only of a server whose log can be read.
    ``database`` is where the platform's corpus was loaded; ``rounds`` searches are measured, asking in turn.
    """
    return asyncio.run(_measure(server, corpus, rounds, database))


async def _measure(server: Server, corpus: QuestionCorpus, rounds: int, database: str) -> dict[str, Any]:
    url = server.url_of(database)
    questions = [corpus.questions[place % len(corpus.questions)] for place in range(rounds)]
    result: dict[str, Any] = {}
    async with platform_at(url, pool_size=1) as platform:
        collection = await platform.collection(COLLECTION)
        for kind in ("dense", "hybrid"):
            result[kind] = await _timed(collection, questions, kind)
            result[kind]["top_costs"] = await _profiled(collection, questions, kind)
    if server.log is None:
        return result
    _log_durations(server, database, on=True)
    try:
        async with platform_at(url, pool_size=1) as platform:
            collection = await platform.collection(COLLECTION)
            for kind in ("dense", "hybrid"):
                result[kind] |= await _in_the_server(server.log, url, collection, questions, kind)
    finally:
        _log_durations(server, database, on=False)
    for kind in ("dense", "hybrid"):
        result[kind]["overhead_us"] = result[kind]["through_the_api_us"] - result[kind]["in_the_server_us"]
    return result


async def _warm(collection: Collection, questions: Sequence[Question], kind: str) -> None:
    for question in questions[:_WARM_UP]:
        await ask(collection, question, kind)


async def _timed(collection: Collection, questions: Sequence[Question], kind: str) -> dict[str, Any]:
    """Median time of a search, and this process's share of the processor in it, which other work hardly changes."""
    await _warm(collection, questions, kind)
    times, worked = [], []
    for question in questions:
        started, began = time.perf_counter(), time.process_time()
        await ask(collection, question, kind)
        times.append((time.perf_counter() - started) * 1e6)
        worked.append((time.process_time() - began) * 1e6)
    return {"through_the_api_us": _median(times), "python_cpu_us": _median(worked)}


async def _profiled(collection: Collection, questions: Sequence[Question], kind: str) -> list[dict[str, Any]]:
    """The functions with the most own processor time, in microseconds a search, the profiler's own cost included."""
    profile = cProfile.Profile(time.process_time)
    profile.enable()
    for question in questions:
        await ask(collection, question, kind)
    profile.disable()
    rows = []
    for (file, line, name), (_, calls, own, whole, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        place = name if file == "~" else f"{'/'.join(file.split('/')[-2:])}:{line} {name}"
        rows.append(
            {
                "function": place,
                "calls": round(calls / len(questions), 1),
                "own_us": round(own / len(questions) * 1e6, 1),
                "with_callees_us": round(whole / len(questions) * 1e6, 1),
            }
        )
    return sorted(rows, key=lambda row: -row["own_us"])[:_SHOWN]


async def _in_the_server(
    log: Path, url: str, collection: Collection, questions: Sequence[Question], kind: str
) -> dict[str, float]:
    """Median over the searches of the sum of their statements' durations, and how many durations that were."""
    await _warm(collection, questions, kind)
    start = await asyncio.to_thread(_size, log)
    with psycopg.connect(url, autocommit=True) as marking:
        for question in questions:
            marking.execute(f"SELECT '{_MARK}'".encode())
            await ask(collection, question, kind)
        marking.execute(f"SELECT '{_MARK} end'".encode())
        sums, counts = by_search(await _logged(log, start))
    return {"in_the_server_us": _median([total * 1e3 for total in sums]), "messages": float(np.median(counts))}


async def _logged(log: Path, start: int) -> str:
    """The text added to the log since; the last mark may take a moment to be written."""
    for _ in range(100):
        text = await asyncio.to_thread(_tail, log, start)
        if f"{_MARK} end" in text:
            return text
        await asyncio.sleep(0.02)
    raise RuntimeError(f"the server's log {log} does not show the statements' durations")


def _size(path: Path) -> int:
    return path.stat().st_size


def _tail(path: Path, start: int) -> str:
    with path.open("rb") as file:
        file.seek(start)
        return file.read().decode(errors="replace")


def by_search(text: str) -> tuple[list[float], list[int]]:
    """For each search, the sum of its statements' durations in milliseconds, and how many there were."""
    sums, counts = [], []
    for part in text.split(f"SELECT '{_MARK}'")[1:]:
        # The last duration belongs to the next mark, not to the search.
        durations = [float(number) for number in _DURATION.findall(part)][:-1]
        sums.append(sum(durations))
        counts.append(len(durations))
    return sums, counts


def _log_durations(server: Server, database: str, *, on: bool) -> None:
    change = sql.SQL("ALTER DATABASE {} SET log_min_duration_statement = {}" if on else "ALTER DATABASE {} RESET {}")
    value = sql.Literal(0) if on else sql.Identifier("log_min_duration_statement")
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(change.format(sql.Identifier(database), value))


def _median(values: Sequence[float]) -> float:
    return round(float(np.median(values)), 1)
