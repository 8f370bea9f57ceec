"""Whether one key can stall the others: how long ``/livez`` waits while 32 clients do their worst.

    python benchmarks/stalls.py [--quick] [--server URL]

A real ``retrieval serve``, 20,000 items in one collection and a few in another that the local model embeds, where it is
installed. Each attack is as large as the bounds of a search allow, and is sent by 32 clients at once, who send the next
when they have their answer. Another process asks ``/livez`` every 5 ms. The same is told of an idle service, and of 32
clients with searches of every day. Service, PostgreSQL and both kinds of clients share the machine's cores: what the
first two rows say is the machine's own. Results go to ``benchmarks/results/stalls.{json,md}``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import string
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from command import machine, parser_of, write
from corpora import clustered
from http_client import LoadResult, posts, press
from peers.ours import COLLECTION, TENANT, Ours
from report import table
from server import running, settle

from retrieval import Settings, connect
from retrieval.adapters.embedders.minilm import installed_files
from retrieval.domain.errors import RetrievalError
from retrieval.domain.search.filters import MAX_CONDITIONS
from retrieval.domain.search.query import MAX_FILTER_VALUES, MAX_QUERY_BYTES
from retrieval.engine.request import MAX_HITS, MAX_LIMIT, MAX_REWRITES

MOST_MS = 200.0
"""The target: no ``/livez`` waits longer."""

DEADLINE_SECONDS = 10
"""The deadline of a request to the service; by default it is 30."""

EVERY_SECONDS = 0.005
"""The interval of requests to ``/livez``."""

SMALL = "embedded"
"""The collection that the local model embeds."""

BODY = 2**20 - 1024
"""Bytes of the largest body of a search, less what stands around its values."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The settings of the measurement."""

    items: int = 20_000
    dimensions: int = 384
    clients: int = 32
    seconds: float = 4.0


NORMAL = Extent()
QUICK = Extent(items=300, dimensions=32, clients=4, seconds=0.3)


@dataclass(frozen=True, slots=True)
class Attack:
    """A request that is as large as it may be."""

    name: str
    body: Callable[[int], dict[str, Any]]
    """The body of the request of that number: no two are the same, for answers are kept."""
    path: str = "search"
    is_embedded: bool = False
    """True if it is about words, which the local model reads too."""


def _words(number: int, size: int = MAX_QUERY_BYTES) -> str:
    return " ".join(f"w{number}x{place}" for place in range(size // 4)).encode()[:size].decode()


def _repeated(number: int, part: str) -> str:
    head = f"u{number} "
    return (head + part * MAX_QUERY_BYTES).encode()[:MAX_QUERY_BYTES].decode(errors="ignore")


def _unspaced(number: int) -> str:
    return f"u{number} " + "".join(chr(0x4E00 + place * 7 % 20_000) for place in range((MAX_QUERY_BYTES - 20) // 3))


def _one_of(number: int) -> dict[str, Any]:
    return {"category": [f"v{number}-{place}" for place in range(MAX_FILTER_VALUES)]}


def _conditions(number: int) -> dict[str, Any]:
    return {"or": [{f"/category/{number}/{place}": {"gt": place}} for place in range(MAX_CONDITIONS)]}


_TWO = ["".join(pair) for pair in itertools.product(string.ascii_lowercase, repeat=2)]

EVERY_DAY = Attack("searches of every day", lambda number: {"query": f"common words {number}", "limit": 10})

ATTACKS = (
    Attack("distinct words", lambda number: {"query": _words(number)}, is_embedded=True),
    Attack("letters", lambda number: {"query": _repeated(number, "a b c d ")}, is_embedded=True),
    Attack("quotes", lambda number: {"query": _repeated(number, '"a ')}, is_embedded=True),
    Attack("exclusions", lambda number: {"query": _repeated(number, "-a ")}, is_embedded=True),
    Attack("opened brackets", lambda number: {"query": _repeated(number, "「")}, is_embedded=True),
    Attack("prefixes", lambda number: {"query": _repeated(number, " ".join(f"{two}*" for two in _TWO))}),
    Attack("Chinese", lambda number: {"query": _unspaced(number)}, is_embedded=True),
    Attack(
        "rewrites",
        lambda number: {"query": _words(number), "rewrites": [_words(number + n) for n in range(MAX_REWRITES)]},
        is_embedded=True,
    ),
    Attack("values of a filter", lambda number: {"query": "common", "where": _one_of(number)}),
    Attack("two such filters", lambda n: {"query": "common", "where": _one_of(n), "prefer": _one_of(n + 1)}),
    Attack("conditions", lambda number: {"query": "common", "where": _conditions(number)}),
    Attack("a page of hits", lambda number: {"query": f"common {number}", "limit": MAX_LIMIT}),
    Attack("a page of groups", lambda n: {"query": f"common {n}", "limit": MAX_LIMIT, "group_by": "category"}),
    Attack(
        "a batch of hits",
        lambda number: {"queries": [f"common {number + n}" for n in range(100)], "limit": MAX_HITS // 100},
        "search/batch",
    ),
    Attack(
        "a batch of words",
        lambda number: {"queries": [_words(number + n, BODY // 110) for n in range(100)], "limit": 1},
        "search/batch",
        is_embedded=True,
    ),
    Attack(
        "a batch with a filter",
        lambda number: {"queries": [f"common {n}" for n in range(100)], "limit": 1, "where": _one_of(number)},
        "search/batch",
    ),
    Attack(
        "a preview",
        lambda number: {
            "query": f"common {number}",
            "limit": 100,
            "profiles": {f"p{n}": {"legs": {"lexical": 1.0, "recent": n + 1.0}} for n in range(10)},
        },
        "preview",
    ),
    Attack("lists in a body", lambda number: {"query": f"{number}", "where": {"n": {"is": [[]] * (BODY // 4)}}}),
    Attack("unknown members", lambda number: {f"x{number}x{n}": 1 for n in range(BODY // 22)}),
    Attack("wrong values", lambda number: {"query": f"{number}", "tags": [1] * (BODY // 3)}),
    Attack("a long vector", lambda number: {"query": f"{number}", "vector": [0.5] * (BODY // 5)}),
)


def run(extent: Extent, server_url: str | None) -> dict[str, Any]:
    """Measure; gives what the JSON file holds."""
    with running(server_url) as server:
        url = server.database("stalls", platform=True)
        asyncio.run(_load(url, extent))
        is_embedded = asyncio.run(_load_embedded(url))
        settle(url)
        load = os.getloadavg()[0]
        with _serving(url, is_embedded=is_embedded) as service:
            _press(service, EVERY_DAY, extent)  # to warm up
            rows = [_idle(service, extent), _row(service, EVERY_DAY, extent)]
            for attack in ATTACKS:
                rows.append(_row(service, attack, extent, SMALL if attack.is_embedded and is_embedded else COLLECTION))
                print(rows[-1], file=sys.stderr, flush=True)
        about = {
            "items": extent.items,
            "dimensions": extent.dimensions,
            "clients": extent.clients,
            "seconds": extent.seconds,
            "deadline": DEADLINE_SECONDS,
            "load": round(load, 1),
            **machine(),
        }
    return {"about": about, "rows": rows}


async def _load(url: str, extent: Extent) -> None:
    ours = Ours()
    await ours.load(url, clustered(extent.items, extent.dimensions, 1).corpus)
    await ours.close()


async def _load_embedded(url: str) -> bool:
    """A few items with the local model, where there is one."""
    try:
        installed_files()
    except RetrievalError:
        return False
    settings = Settings(embedder="minilm", tenant=TENANT)
    async with connect(url, settings=settings) as platform:
        collection = await platform.collection(SMALL)
        await collection.add({"_id": str(number), "text": f"common word{number}"} for number in range(100))
    return True


@contextlib.contextmanager
def _serving(url: str, *, is_embedded: bool) -> Iterator[str]:
    """The service in a process of its own; gives its URL."""
    names = {
        "RETRIEVAL_DATABASE_URL": url,
        "RETRIEVAL_TENANT": TENANT,
        "RETRIEVAL_EMBEDDER": "minilm" if is_embedded else "none",
        "RETRIEVAL_HTTP_DEADLINE_SECONDS": str(DEADLINE_SECONDS),
    }
    command = [str(Path(sys.executable).with_name("retrieval")), "serve", "--insecure-local", "--port", "0", "--json"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **names}
    )
    try:
        line = process.stdout.readline() if process.stdout else ""
        if not line:
            raise RuntimeError("the service did not start; try: retrieval serve --insecure-local")
        yield str(json.loads(line)["url"]).rstrip("/")
    finally:
        process.terminate()
        process.wait(timeout=120)


def _idle(service: str, extent: Extent) -> dict[str, Any]:
    waits = list[float]()
    with _probing(service, waits):
        time.sleep(extent.seconds)
    return {"attack": "nothing", "collection": "", "answered": "", "p50_ms": None, **_text(waits)}


def _row(service: str, attack: Attack, extent: Extent, collection: str = COLLECTION) -> dict[str, Any]:
    waits = list[float]()
    with _probing(service, waits):
        times = _press(service, attack, extent, collection)
    statuses = ", ".join(f"{number} × {status}" for status, number in sorted(times.statuses.items()))
    median = round(1e3 * float(np.median(times.latencies)), 1) if times.latencies else None
    return {"attack": attack.name, "collection": collection, "answered": statuses, "p50_ms": median, **_text(waits)}


def _press(service: str, attack: Attack, extent: Extent, collection: str = COLLECTION) -> LoadResult:
    bodies = [attack.body(1000 * number) for number in range(2 * extent.clients)]
    url = f"{service}/v1/collections/{collection}/{attack.path}"
    return asyncio.run(press(url, posts(url, bodies), clients=extent.clients, seconds=extent.seconds))


@contextlib.contextmanager
def _probing(service: str, waits: list[float]) -> Iterator[None]:
    """Ask ``/livez`` meanwhile, in a process of its own; ``waits`` gets the milliseconds of each."""
    command = [sys.executable, __file__, "--probe", service]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        if process.stdout is None or process.stdout.readline() != "ready\n":
            raise RuntimeError("the probe did not start; see its message above")
        yield
        output, _ = process.communicate()
        waits.extend(json.loads(output))


async def probe(service: str) -> list[float]:
    """Milliseconds of each ``/livez``, asked again and again on one connection until standard input ends."""
    parts = urlsplit(service)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    request, waits = f"GET /livez HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode(), list[float]()
    print("ready", flush=True)
    ending = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    while not ending.done() or not waits:
        began = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.partition(b":")[2]))
        waits.append(1e3 * (time.perf_counter() - began))
        await asyncio.sleep(EVERY_SECONDS)
    writer.close()
    return waits


def _text(waits: Sequence[float]) -> dict[str, Any]:
    p50, p99 = np.percentile(waits, (50, 99))
    return {
        "livez_p50_ms": round(float(p50), 1),
        "livez_p99_ms": round(float(p99), 1),
        "livez_max_ms": round(max(waits), 1),
    }


_SETTING = """
{clients} clients for {seconds:g} s each, {items:,} items × {dimensions} in `bench`, 100 in `embedded`; {cores} cores
for service, PostgreSQL and clients together, {date}, Python {python}. Load of the machine before the run, of other
work: {load}. Milliseconds. `/livez` is asked every 5 ms by a process of its own; what it waits beside nothing and
beside searches of every day is the machine's share. What is answered with 400 or 422 is beyond a bound that only the
content tells; 504 is what is not done within the service's deadline, here {deadline} s.
"""


def page(result: Mapping[str, Any]) -> str:
    """The page of the measurements."""
    about, rows = result["about"], result["rows"]
    worst = max(rows[2:], key=lambda row: row["livez_max_ms"])
    met = "yes" if worst["livez_max_ms"] <= MOST_MS else "**no**"
    summary = (
        f"The longest `/livez` beside an attack took {worst['livez_max_ms']:.0f} ms ({worst['attack']}); beside "
        f"nothing {rows[0]['livez_max_ms']:.0f}, beside searches of every day {rows[1]['livez_max_ms']:.0f}. At most "
        f"{MOST_MS:.0f} is aimed at: {met}."
    )
    parts = ["# Stalls", " ".join(_SETTING.format(**about).split()), table(rows), summary]
    return "\n\n".join(parts) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = parser_of(__doc__, "few items and clients, in seconds: to try it out")
    parser.add_argument("--probe", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.probe:
        print(json.dumps(asyncio.run(probe(options.probe))))
        return 0
    result = run(QUICK if options.quick else NORMAL, options.server)
    write("stalls", result, page(result), options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
