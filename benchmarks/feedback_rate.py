"""The rate of durable feedback beside the upsert that one would write by hand; and whether all of it is right.

    python benchmarks/feedback_rate.py [--quick] [--server URL]

Eight processes write at once, a quarter of the events are replays, all are late and in any order. By hand: one table,
one row an item, one ``INSERT ... ON CONFLICT DO UPDATE`` an event, sums and counts alone: no events, keys, tenants.
Both write in turns in one run, because only ratios within a run mean something. Results go to
``benchmarks/results/feedback_rate.{json,md}``.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import psycopg
from command import machine, parser_of, write
from feedback_events import COLLECTION, HALF_LIFE, LANDMARK, expected_arms, item_ids, made_events, worst_difference
from report import target_table
from server import running, settle
from targets import target

from retrieval import Feedback, Settings, connect

ITEMS = 3_000
LEAST_RATIOS = {"one by one": 0.4, "in batches": 0.6}

BY_HAND = """
    INSERT INTO by_hand AS arm SELECT item_id, sum(successes), sum(failures), sum(uses), sum(raw), max(used)
    FROM unnest(%s::text[], %s::float8[], %s::float8[], %s::int[], %s::int[], %s::timestamptz[])
        AS event (item_id, successes, failures, uses, raw, used)
    GROUP BY 1 ORDER BY 1
    ON CONFLICT (item_id) DO UPDATE SET successes = arm.successes + excluded.successes,
        failures = arm.failures + excluded.failures, uses = arm.uses + excluded.uses, raw = arm.raw + excluded.raw,
        used = greatest(arm.used, excluded.used)
"""
BY_HAND_ONE = """
    INSERT INTO by_hand AS arm VALUES (%s, %s, %s, %s, %s, %s)
    ON CONFLICT (item_id) DO UPDATE SET successes = arm.successes + excluded.successes,
        failures = arm.failures + excluded.failures, uses = arm.uses + excluded.uses, raw = arm.raw + excluded.raw,
        used = greatest(arm.used, excluded.used)
"""


@dataclass(frozen=True, slots=True)
class Extent:
    """The settings of the measurement."""

    writers: int = 8
    rounds: int = 6
    """Turns of each way."""
    events: int = 150
    """Events that a writer sends one by one in a turn; in batches it is ten times as many."""
    batch: int = 100


NORMAL = Extent()
QUICK = Extent(writers=2, rounds=1, events=20, batch=10)


def run(extent: Extent, server_url: str | None) -> dict[str, Any]:
    """Measure; gives what the JSON file holds."""
    with running(server_url) as server:
        url = server.database("feedback_rate", platform=True)
        asyncio.run(_prepare(url))
        settle(url)
        single = made_events(extent.writers * extent.rounds * extent.events, items=ITEMS, seed=1)
        many = made_events(extent.writers * extent.rounds * extent.events * 10, items=ITEMS, seed=2)
        with _writers(url, extent.writers) as writers:
            ways = {
                "one by one": _compare(writers, single, extent.rounds, 1),
                "in batches": _compare(writers, many, extent.rounds, extent.batch),
            }
        stored = asyncio.run(_stored_arms(url))
        # Both runs use the same keys: the first event with a key counts.
        exact = expected_arms([*many, *single])
        wrong, worst = worst_difference(exact, stored)
        about = {
            **machine(),
            "writers": extent.writers, "items": ITEMS, "batch": extent.batch, "events": len(single) + len(many),
            "server": dict(server.settings()),
        }  # fmt: skip
    return {"about": about, "ways": ways, "arms": len(stored), "wrong raw counts": wrong, "worst difference": worst}


def _compare(writers: Sequence[Writer], events: Sequence[Feedback], rounds: int, batch: int) -> dict[str, Any]:
    """Turns of both ways, the second first in every other round; rates in events a second over all writers."""
    share = len(events) // (rounds * len(writers))
    parts = [events[start : start + share] for start in range(0, len(events), share)]
    rates: dict[str, list[float]] = {"ours": [], "by hand": []}
    times: dict[str, list[float]] = {"ours": [], "by hand": []}
    failures: list[str] = []
    for turn in range(rounds):
        mine = parts[turn * len(writers) : (turn + 1) * len(writers)]
        for way in list(rates)[:: 1 if turn % 2 else -1]:
            begun = time.perf_counter()
            for writer, part in zip(writers, mine, strict=True):
                writer.channel.send((way, part, batch))
            answers = [writer.channel.recv() for writer in writers]
            rates[way].append(share * len(writers) / (time.perf_counter() - begun))
            times[way] += [milliseconds for answer in answers for milliseconds in answer[0]]
            failures += [error for answer in answers for error in answer[1]]
    ratios = [ours / theirs for ours, theirs in zip(rates["ours"], rates["by hand"], strict=True)]
    return {
        "ours per s": round(statistics.median(rates["ours"])),
        "by hand per s": round(statistics.median(rates["by hand"])),
        "ratio": round(statistics.median(ratios), 3),
        "ours p50 ms": round(float(np.percentile(times["ours"], 50)), 2),
        "ours p99 ms": round(float(np.percentile(times["ours"], 99)), 2),
        "by hand p50 ms": round(float(np.percentile(times["by hand"], 50)), 2),
        "by hand p99 ms": round(float(np.percentile(times["by hand"], 99)), 2),
        "failures": failures,
    }


@dataclass(frozen=True, slots=True)
class Writer:
    """A process that writes the items that it receives."""

    channel: Connection


@contextmanager
def _writers(url: str, count: int) -> Iterator[list[Writer]]:
    context = multiprocessing.get_context("spawn")
    pairs = [context.Pipe() for _ in range(count)]
    processes = [context.Process(target=_serve, args=(url, there)) for _, there in pairs]
    for process in processes:
        process.start()
    for here, _ in pairs:
        here.recv()
    yield [Writer(here) for here, _ in pairs]
    for here, _ in pairs:
        here.send(None)
    for process in processes:
        process.join(30)


def _serve(url: str, channel: Connection) -> None:
    asyncio.run(_write(url, channel))


async def _write(url: str, channel: Connection) -> None:
    settings = Settings(tenant="bench", embedder="none", pool_size=1)
    async with connect(url, settings=settings) as platform:
        with psycopg.connect(url, autocommit=True, prepare_threshold=2) as connection:
            channel.send("ready")
            while (task := channel.recv()) is not None:
                way, events, batch = task
                times: list[float] = []
                failures: list[str] = []
                for start in range(0, len(events), batch):
                    part = events[start : start + batch]
                    begun = time.perf_counter()
                    try:
                        if way == "ours":
                            await platform.feedback_each(part)
                        elif batch == 1:
                            connection.execute(BY_HAND_ONE, _terms(part[0]))
                        else:
                            connection.execute(
                                BY_HAND, [list(column) for column in zip(*map(_terms, part), strict=True)]
                            )
                    except Exception as error:  # noqa: BLE001 - it is counted, and makes the run fail
                        failures.append(f"{way}: {error!r}")
                    times.append((time.perf_counter() - begun) * 1000)
                channel.send((times, failures))


def _terms(event: Feedback) -> tuple[Any, ...]:
    at = event.at or LANDMARK
    share = event.weight * 2.0 ** ((at - LANDMARK) / HALF_LIFE)
    return event.item_id, event.reward * share, (1 - event.reward) * share, 1, int(event.reward >= 0.5), at


async def _prepare(url: str) -> None:
    async with connect(url, settings=Settings(tenant="bench", embedder="none")) as platform:
        collection = await platform.collection(COLLECTION)
        await collection.add([{"_id": item_id, "text": "a principle"} for item_id in item_ids(ITEMS)])
        # The cap is for people; here each actor has one or two events.
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            'CREATE TABLE by_hand (item_id text COLLATE "C" PRIMARY KEY, successes float8 NOT NULL, failures float8 '
            "NOT NULL, uses bigint NOT NULL, raw bigint NOT NULL, used timestamptz) WITH (fillfactor = 70)"
        )


async def _stored_arms(url: str) -> list[tuple[Any, ...]]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        cursor = await connection.execute(
            "SELECT item_id, context, successes, failures, uses, raw_successes, last_used_at FROM retrieval.arms "
            "WHERE uses > 0"
        )
        return await cursor.fetchall()


def targets(result: dict[str, Any]) -> list[dict[str, Any]]:
    """The targets, and this run's results."""
    ways = result["ways"]
    failures = sum(len(way["failures"]) for way in ways.values())
    return [
        *(
            target(f"ratio to the upsert by hand, {name}", ways[name]["ratio"], least, "at least", at_least=True)
            for name, least in LEAST_RATIOS.items()
        ),
        target("arms with wrong raw counts", result["wrong raw counts"], 0, "none"),
        target("relative difference of a decayed sum, 1e-12", result["worst difference"] * 1e12, 1, "at most"),
        target("deadlocks and other failures", failures, 0, "none"),
    ]


def page(result: dict[str, Any]) -> str:
    """The figures for people."""
    about = result["about"]
    lines = [
        "# Feedback: rate and correctness", "",
        (
            f"{about['date']}, {about['cores']} cores, PostgreSQL {about['server']['server_version']}; "
            f"{about['writers']} writing processes, {about['events']:,} events over {about['items']} items, a quarter "
            "of them replays, up to 200 days late, in any order. Durable: `fsync` and `synchronous_commit` are "
            f"{about['server']['fsync']} and {about['server']['synchronous_commit']}."
        ), "",
        "| | ours, events/s | by hand | ratio | ours p50 / p99, ms | by hand p50 / p99 |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    lines += [
        f"| {name} | {way['ours per s']:,} | {way['by hand per s']:,} | {way['ratio']:.2f} | "
        f"{way['ours p50 ms']} / {way['ours p99 ms']} | {way['by hand p50 ms']} / {way['by hand p99 ms']} |"
        for name, way in result["ways"].items()
    ]
    return "\n".join([*lines, "", target_table(result["targets"]), ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    options = parser_of(__doc__, "a few events, to see that it works").parse_args(arguments)
    result = run(QUICK if options.quick else NORMAL, options.server)
    result["targets"] = targets(result)
    write("feedback_rate", result, page(result), options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
