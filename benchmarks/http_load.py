"""The HTTP service under load, beside one bare FastAPI route that runs the same statements by hand.

    python benchmarks/http_load.py [--quick] [--server URL]

32 clients at once, each sending its next search (words and a vector, top 10) when it has its answer; 20,000 items of
384 dimensions. Both services run all the time, each in one process with 8 connections to the same PostgreSQL; they are
pressed in turns, in a new random order, so that other work on the machine hits both alike. Then 512 clients at once
press ours. Service, PostgreSQL and clients share the machine's cores; the processor's time of each is told beside the
throughput, for it differs less with what else runs. Results go to ``benchmarks/results/http_load.{json,md}``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import resource
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from command import machine, parser_of, write
from corpora import QuestionCorpus, clustered
from http_client import LoadResult, posts, press
from http_services import PATHS
from peers.ours import Ours
from report import table, target_table
from server import Server, ServerTime, running, settle
from targets import target

from retrieval.surfaces.listening import new_loop

FOLDER = Path(__file__).parent
LEAST_SHARE, LEAST_KEPT, MOST_SPREAD = 0.75, 0.6, 6.0
"""The targets: the share of the bare route's throughput, the share of throughput kept under the crowd, and the ratio of
the 99th percentile to the median."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The extent of a run."""

    items: int = 20_000
    dimensions: int = 384
    questions: int = 500
    clients: int = 32
    rounds: int = 8
    seconds: float = 3.0
    crowd: int = 512
    crowd_seconds: float = 10.0


NORMAL = Extent()
QUICK = Extent(items=300, dimensions=32, questions=20, clients=4, rounds=1, seconds=0.3, crowd=8, crowd_seconds=0.3)


@dataclass(slots=True)
class Service:
    """A service that runs, and what its rounds came to."""

    name: str
    process: subprocess.Popen[str]
    url: str
    rounds: list[LoadResult] = field(default_factory=list)
    worked: list[tuple[float, float, float]] = field(default_factory=list)
    """Seconds of the processor by round: the service's, PostgreSQL's, the clients'."""


def run(extent: Extent, server_url: str | None) -> dict[str, Any]:
    """Measure; gives what the JSON file holds."""
    corpus = clustered(extent.items, extent.dimensions, extent.questions)
    with running(server_url) as server:
        url = server.database("http_load", platform=True)
        asyncio.run(_load(url, corpus))
        settle(url)
        bodies = [
            {"query": question.text, "vector": [round(float(x), 6) for x in question.vector], "limit": 10}
            for question in corpus.questions
        ]
        with _start("ours", url) as ours, _start("bare", url) as bare:
            load = os.getloadavg()[0]
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(_in_turns((ours, bare), bodies, ServerTime(url), extent))
                crowd = runner.run(
                    press(ours.url, posts(ours.url, bodies), clients=extent.crowd, seconds=extent.crowd_seconds)
                )
            about = _about(extent, server, load)
    return {
        "about": about,
        "rows": [row_of(ours), row_of(bare)],
        "ratios": ratios_of(ours, bare),
        "crowd": _crowd(crowd),
    }


async def _load(url: str, corpus: QuestionCorpus) -> None:
    ours = Ours()
    await ours.load(url, corpus.corpus)
    await ours.close()


@contextlib.contextmanager
def _start(name: str, url: str) -> Iterator[Service]:
    command = [sys.executable, str(FOLDER / "http_services.py"), name, url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        place = process.stdout.readline().strip() if process.stdout else ""
        if not place:
            raise RuntimeError(f"the service {name} did not start; see its message above")
        yield Service(name, process, place.rstrip("/") + PATHS[name])
    finally:
        process.terminate()
        process.wait(timeout=60)
        if process.stdout:
            process.stdout.close()


async def _in_turns(
    services: Sequence[Service], bodies: Sequence[dict[str, Any]], postgres: ServerTime, extent: Extent
) -> None:
    chance = random.Random(7)  # noqa: S311 - an order
    requests = {service.name: posts(service.url, bodies) for service in services}
    for service in services:
        await press(service.url, requests[service.name], clients=extent.clients, seconds=extent.seconds / 2)
    for _ in range(extent.rounds):
        for service in chance.sample(services, len(services)):
            before = _worked(service, postgres)
            service.rounds.append(
                await press(service.url, requests[service.name], clients=extent.clients, seconds=extent.seconds)
            )
            await asyncio.sleep(0.2)  # records are stored after the answers
            after = _worked(service, postgres)
            service.worked.append((after[0] - before[0], after[1] - before[1], after[2] - before[2]))


def _worked(service: Service, postgres: ServerTime) -> tuple[float, float, float]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    own = psutil.Process(service.process.pid).cpu_times()
    return own.user + own.system, postgres.seconds(), used.ru_utime + used.ru_stime


def row_of(service: Service) -> dict[str, Any]:
    """The results of a service's rounds."""
    latencies = np.array([latency for measured in service.rounds for latency in measured.latencies]) * 1e3
    answered = len(latencies)
    p50, p99 = np.percentile(latencies, (50, 99))
    worked = [1e3 * sum(part) / answered for part in zip(*service.worked, strict=True)]
    return {
        "service": service.name,
        "searches": answered,
        "errors": sum(
            number for measured in service.rounds for status, number in measured.statuses.items() if status != 200
        ),
        "searches_a_second": round(statistics.median(measured.a_second for measured in service.rounds), 1),
        "p50_ms": round(float(p50), 1),
        "p99_ms": round(float(p99), 1),
        "p99_to_p50": round(float(p99 / p50), 2),
        "service_ms": round(worked[0], 3),
        "postgres_ms": round(worked[1], 3),
        "clients_ms": round(worked[2], 3),
    }


def ratios_of(ours: Service, bare: Service) -> dict[str, float]:
    """Compare ours with the bare route: throughput by pairs of rounds, and processor time of service and PostgreSQL."""
    pairs = [first.a_second / second.a_second for first, second in zip(ours.rounds, bare.rounds, strict=True)]
    each = [
        sum(python + postgres for python, postgres, _ in service.worked)
        / sum(measured.answered for measured in service.rounds)
        for service in (ours, bare)
    ]
    return {
        "throughput": round(statistics.median(pairs), 3),
        "lowest": round(min(pairs), 3),
        "highest": round(max(pairs), 3),
        "by_processor_time": round(each[1] / each[0], 3),
    }


def _crowd(measured: LoadResult) -> dict[str, Any]:
    latencies = np.array(measured.latencies or [0.0]) * 1e3
    return {
        "answered": measured.answered,
        "turned_away": measured.statuses[503],
        "errors": sum(number for status, number in measured.statuses.items() if status not in (200, 503)),
        "searches_a_second": round(measured.a_second, 1),
        "p50_ms": round(float(np.percentile(latencies, 50)), 1),
        "p99_ms": round(float(np.percentile(latencies, 99)), 1),
    }


def _about(extent: Extent, server: Server, load: float) -> dict[str, Any]:
    return {
        **{name: getattr(extent, name) for name in ("items", "dimensions", "clients", "rounds", "seconds", "crowd")},
        **machine(),
        "loop": type(new_loop()).__module__,
        "load": round(load, 1),
        "server": dict(server.settings()),
    }


def targets_of(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List each target with the value that was reached."""
    ours, ratios, crowd = result["rows"][0], result["ratios"], result["crowd"]
    checks: list[tuple[str, float, float, str]] = [
        ("errors", ours["errors"], 0, "at most"),
        ("p99 beside the median", ours["p99_to_p50"], MOST_SPREAD, "at most"),
        ("throughput beside the bare route", ratios["throughput"], LEAST_SHARE, "at least"),
        ("the same by the processor's time", ratios["by_processor_time"], LEAST_SHARE, "at least"),
        ("errors under the crowd", crowd["errors"], 0, "at most"),
        ("turned away of the crowd", crowd["turned_away"], 1, "at least"),
        ("throughput under the crowd beside 32 clients", _kept(result), LEAST_KEPT, "at least"),
    ]
    return [target(what, reached, goal, rule, at_least=rule == "at least") for what, reached, goal, rule in checks]


def _kept(result: Mapping[str, Any]) -> float:
    return round(float(result["crowd"]["searches_a_second"]) / float(result["rows"][0]["searches_a_second"]), 3)


_SETTING = """
{items:,} items × {dimensions}, hybrid search (words and a vector, top 10), {clients} clients at once, {rounds} rounds
of {seconds:g} s in turns; {cores} cores for service, PostgreSQL and clients together, {date}, Python {python}, loop
{loop}. Load of the machine before the run: {load}.
"""
_SERVICES = """
*Ours* is `retrieval serve` with its defaults: each search is validated, limited, timed, counted, explained, and
recorded durably behind its answer. *Bare* is one FastAPI route with the same statements by hand, which does none of
that (see [http_services.py](../http_services.py)). Milliseconds of the processor are those of one search.
"""
_RATIOS = """
Throughput of ours beside the bare route's, by pairs of rounds: median {throughput}, from {lowest} to {highest}; by the
processor's time of service and PostgreSQL: {by_processor_time}.
"""
_CROWD = "Ours answers what it can and turns the others away with 503, at once; those come again after half a second."


def page(result: Mapping[str, Any]) -> str:
    """The page of the measurements."""
    about = result["about"]
    server = ", ".join(f"{name} {value}" for name, value in about["server"].items())
    parts = [
        "# HTTP under load",
        f"{_paragraph(_SETTING, about)} Server: {server}.",
        _paragraph(_SERVICES, {}),
        table(result["rows"]),
        _paragraph(_RATIOS, result["ratios"]),
        f"## {about['crowd']} clients at once",
        _CROWD,
        table([result["crowd"]]),
        "## Targets",
        target_table(targets_of(result)),
    ]
    return "\n\n".join(parts) + "\n"


def _paragraph(text: str, values: Mapping[str, Any]) -> str:
    return " ".join(text.format(**values).split())


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    options = parser_of(__doc__, "few items and clients, in seconds: to try it out").parse_args(arguments)
    result = run(QUICK if options.quick else NORMAL, options.server)
    write("http_load", result, page(result), options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
