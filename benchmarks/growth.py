"""The growth of the platform's cost: with the items of a collection, and with the tenants of an installation.

    python benchmarks/growth.py [--full] [--quick]

Sizes are 10,000, 30,000 and 100,000 items of 384 dimensions, ``--full`` adds 300,000; tenants are 10 and 1,000,
``--full`` adds 10,000. Results go to ``benchmarks/results/growth.{json,md}``.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from command import machine, parser_of, say, write
from corpora import QuestionCorpus, clustered
from interleaved import Call, measure
from report import growth_page
from server import Server, running, settle
from side_by_side import FAR, filtered_calls, hybrid_calls, plain_calls
from targets import growth_targets
from tenants import TENANT_DIMENSIONS, TENANT_ITEMS, measure_tenants
from workers import PeerError, Worker

_SIZES_OF = """
    SELECT CASE WHEN c.relkind = 'i' THEN coalesce(nullif(a.amname, 'btree'), 'btree') ELSE 'table' END AS kind,
        sum(pg_relation_size(c.oid))::bigint
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_am a ON a.oid = c.relam
    WHERE n.nspname IN ('retrieval', 'pg_toast') AND c.relkind IN ('r', 't', 'i')
    GROUP BY 1
"""
"""Bytes by kind: tables with what is stored apart from their rows, and indexes by access method."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The size of the measurement."""

    sizes: tuple[int, ...]
    tenants: tuple[int, ...]
    dimensions: int = 384
    questions: int = 200


NORMAL = Extent((10_000, 30_000, 100_000), (10, 1_000))
FULL = Extent((10_000, 30_000, 100_000, 300_000), (10, 1_000, 10_000))
QUICK = Extent((50,), (1, 2), dimensions=32, questions=2)


def run(extent: Extent, server_url: str | None) -> dict[str, Any]:
    """Measure; gives what the JSON file holds."""
    with running(server_url) as server:
        about = {
            **machine(),
            "dimensions": extent.dimensions,
            "tenant_items": TENANT_ITEMS,
            "tenant_dimensions": TENANT_DIMENSIONS,
            "server": dict(server.settings()),
        }
        measured = [measure_size(server, items, extent) for items in extent.sizes]
        tenants = measure_tenants(server, extent.tenants, extent.questions, say)
    result: dict[str, Any] = {
        "about": about,
        "loads": [load for load, _ in measured],
        "searches": [row for _, rows in measured for row in rows],
        "tenants": tenants,
    }
    return result | {"targets": growth_targets(result)}


def measure_size(server: Server, items: int, extent: Extent) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """One collection of that many items in a database of its own: its load and size, and its searches."""
    corpus = clustered(items, extent.dimensions, extent.questions)
    with Worker("ours") as worker, tempfile.TemporaryDirectory() as folder:
        corpus.corpus.save(Path(folder))
        url = server.database(f"size_{items}", platform=True)
        seconds = worker.load(url, Path(folder))["total"]
        say(f"{items:,} items loaded in {seconds:.0f} s")
        settle(url)
        searches = []
        for name, calls in _searches(corpus, extent.questions).items():
            variants = _one_fusion if name == "hybrid" else _plain
            row = measure([worker], variants, calls, warm_up=20)[0].row()
            searches.append({"items": items, "search": name, **_figures(row)})
    load = {"items": items, "ingest s": round(seconds, 1), "items per s": round(items / seconds), **_weight(url)}
    server.drop(f"size_{items}")
    say(f"{items:,} items measured")
    return load, searches


def _one_fusion(worker: Worker) -> Sequence[str]:
    return worker.fusions[:1]


def _plain(worker: Worker) -> Sequence[str]:
    return worker.plain


def _figures(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("p50_ms", "p95_ms", "recall") if name in row}


def _searches(corpus: QuestionCorpus, questions: int) -> Mapping[str, Sequence[Call]]:
    return {
        "dense": plain_calls(corpus),
        "2 % filter": filtered_calls(corpus, "2 %", questions),
        "10 % filter": filtered_calls(corpus, "10 %", questions),
        FAR: filtered_calls(corpus, FAR, questions),
        "hybrid": hybrid_calls(corpus, questions),
    }


def _weight(url: str) -> dict[str, float]:
    """Megabytes by kind."""
    with psycopg.connect(url, autocommit=True) as connection:
        return {f"{kind} MB": round(size / 2**20, 1) for kind, size in connection.execute(_SIZES_OF)}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = parser_of(__doc__, "a few items, to see that it runs")
    parser.add_argument("--full", action="store_true", help="300,000 items and 10,000 tenants as well")
    options = parser.parse_args(arguments)
    extent = QUICK if options.quick else FULL if options.full else NORMAL
    try:
        result = run(extent, options.server)
    except PeerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    write("growth", result, growth_page(result), options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
