"""The two services that ``http_load.py`` presses, each in a process of its own: ``python http_services.py NAME URL``.

``ours`` is what ``retrieval serve`` runs. ``bare`` is one FastAPI route that runs the very statements of our search
by psycopg, as one would by hand: role, tenant and search path set once on each connection, the candidates of both legs
with the texts of the likely hits in one round trip, the fusion in a few lines, the same JSON by the same encoder. It
checks no keys and no limits, knows neither filters nor profiles, and records nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import uvicorn
from fastapi import FastAPI
from peers.ours import COLLECTION, TENANT, platform_at
from pgvector import HalfVector
from pgvector.psycopg import register_vector_async
from psycopg.types import TypeInfo
from psycopg_pool import AsyncConnectionPool
from pydantic import BaseModel, SecretStr

from retrieval import Settings
from retrieval.adapters.store.arrays import register_arrays
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.search.likely_hits import LIKELY
from retrieval.surfaces.http.app import run_service
from retrieval.surfaces.http.json_bodies import JSONAnswer
from retrieval.surfaces.http.telemetry import configure_service_logging
from retrieval.surfaces.listening import listening_socket, new_loop, url_of

POOL = 8
"""Connections of each."""

PATHS = {"ours": f"/v1/collections/{COLLECTION}/search", "bare": "/search"}

_K = 60
"""The constant of reciprocal rank fusion."""


class SearchBody(BaseModel):
    """The requests of a client."""

    query: str
    vector: list[float]
    limit: int = 10


@dataclass(frozen=True, slots=True)
class Statements:
    """The statement of our search, with the values that are the same for every question."""

    candidates: Compiled
    session: Mapping[str, str]
    """The settings of our search's transactions, to be set once per connection."""
    weights: Mapping[str, float]
    why: str
    """The path that our search reports."""


async def statements_of(url: str) -> Statements:
    """The statement, overheard from a search."""
    calls: list[tuple[Sequence[Compiled], Mapping[str, str]]] = []
    async with platform_at(url) as platform:
        collection = (await platform.collection(COLLECTION)).unrecorded()
        space = await collection.space()
        if space is None:
            raise RuntimeError("the collection has no vectors")
        database, read_each = platform.database, platform.database.read_each

        async def overheard(tenant_id: int | None, statements: Sequence[Compiled], settings: Any = None) -> Any:
            calls.append((statements, settings or {}))
            return await read_each(tenant_id, statements, settings)

        database.read_each = overheard  # type: ignore[method-assign]
        result = await collection.search("words", vector=[1.0] * space.dimensions)
        [([candidates], settings)] = calls
        session = {
            "role": database.names.app_role,
            "search_path": database.search_path,
            "retrieval.tenant": str(platform.tenant_id),
        }
        weights = {str(leg): weight for leg, weight in collection.profile.legs.items()}
        return Statements(candidates, {**session, **settings}, weights, result.why)


def bare(url: str, statements: Statements) -> FastAPI:
    """The bare route."""

    async def configure(connection: psycopg.AsyncConnection[Any]) -> None:
        for name, value in statements.session.items():
            await connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        await register_vector_async(connection)
        halfvec = await TypeInfo.fetch(connection, "halfvec")
        if halfvec is None:
            raise RuntimeError("the database has no pgvector")
        register_arrays(connection.adapters, halfvec)

    options = {"autocommit": True, "prepare_threshold": None}
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
        url, min_size=POOL, max_size=POOL, kwargs=options, configure=configure, open=False, timeout=30
    )

    @asynccontextmanager
    async def opened(_: FastAPI) -> AsyncIterator[None]:
        async with pool:
            yield

    app = FastAPI(lifespan=opened)

    @app.post("/search")
    async def search(request: SearchBody) -> JSONAnswer:
        began = time.perf_counter()
        candidates = statements.candidates.bind(query=request.query, vector=HalfVector(request.vector))
        async with pool.connection() as connection:
            cursor = connection.cursor(binary=True)
            await cursor.execute(candidates.text.encode(), candidates.parameters)
            rows = await cursor.fetchall()
        best = fused(rows, statements.weights)[: request.limit]
        # Fusion by rank guesses every hit; the last column says whether the hit waits for its vector.
        columns = {row[1]: row[3:-1] for row in rows if row[0] == LIKELY}
        return JSONAnswer(_answer(best, columns, statements.why, _timings(time.perf_counter() - began)))

    return app


_Parts = list[tuple[float, str, list[dict[str, Any]]]]


def fused(rows: Sequence[tuple[Any, ...]], weights: Mapping[str, float]) -> _Parts:
    """Scores, item ids and parts, best first: reciprocal rank fusion of rows of (leg, item id, score)."""
    legs: dict[str, list[tuple[float, str]]] = {leg: [] for leg in weights}
    for leg, item_id, score, *_ in rows:
        if leg in legs:
            legs[leg].append((-score, item_id))
    scores: dict[str, float] = {}
    parts: dict[str, list[dict[str, Any]]] = {}
    for leg, ranking in legs.items():
        ranking.sort()
        for rank, (negative, item_id) in enumerate(ranking, 1):
            value = weights[leg] / (_K + rank)
            scores[item_id] = scores.get(item_id, 0.0) + value
            part = {"leg": leg, "rank": rank, "raw_score": -negative, "weight": weights[leg], "value": value}
            parts.setdefault(item_id, []).append(part)
    best = sorted(scores, key=lambda item_id: (-scores[item_id], item_id))
    return [(scores[item_id], item_id, parts[item_id]) for item_id in best]


def _timings(seconds: float) -> dict[str, float]:
    spent = {"embed": 0.0, "candidates": seconds, "learn": 0.0, "items": 0.0, "total": seconds}
    return {stage: 1e3 * lasted for stage, lasted in spent.items()}


def _answer(
    best: _Parts, rows: Mapping[str, tuple[Any, ...]], why: str, timings: Mapping[str, float]
) -> dict[str, Any]:
    hits = []
    for rank, (score, item_id, parts) in enumerate(best, 1):
        title, body, kind, tags, attributes, status, source, occurred_at = rows[item_id]
        hits.append(
            {
                "id": item_id,
                "title": title,
                "text": body,
                "kind": kind,
                "tags": tags,
                "metadata": attributes,
                "status": status,
                "source": source,
                "occurred_at": occurred_at.isoformat() if occurred_at else None,
                "score": score,
                "rank": rank,
                "relevance": None,
                "slot": "exploit",
                "propensity": 1.0,
                "snippet": None,
                "explanation": {"fusion": "rrf", "score": score, "contributions": parts},
            }
        )
    return {
        "hits": hits,
        "path": "approximate",
        "why": why,
        "weighed": 0,
        "profile_version": 1,
        "notes": [],
        "timings_ms": timings,
        "retrieval_id": str(uuid.uuid4()),
    }


async def serve_ours(url: str) -> None:
    """Serve as ``retrieval serve`` does, its limits as they are by default, until SIGTERM."""
    settings = Settings(
        embedder="none", tenant=TENANT, pool_size=POOL, database_schema="retrieval", database_url=SecretStr(url)
    )
    # Like the command, without its log.
    configure_service_logging(settings, as_json=True)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await run_service(settings, "127.0.0.1", 0, stop, lambda said: print(said, flush=True), insecure_local=True)


async def serve_bare(url: str) -> None:
    """Serve the bare route on a free port, and say where, until SIGTERM."""
    app = bare(url, await statements_of(url))
    config = uvicorn.Config(
        app, log_config=None, lifespan="off", loop="none", access_log=False, server_header=False, ws="none"
    )
    server = uvicorn.Server(config)
    with listening_socket("127.0.0.1", 0) as listener:
        async with app.router.lifespan_context(app):
            print(url_of(listener), flush=True)
            await server.serve(sockets=[listener])


def main(arguments: Sequence[str] | None = None) -> int:
    """One of the services, by name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=sorted(PATHS))
    parser.add_argument("url")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(serve_ours(options.url) if options.name == "ours" else serve_bare(options.url))
    return 0


if __name__ == "__main__":
    sys.exit(main())
