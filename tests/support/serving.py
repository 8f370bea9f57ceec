"""The HTTP service on a socket of this machine, within the test's own loop or in a thread, and its description."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from anyio.from_thread import start_blocking_portal
from fastapi import FastAPI
from pydantic import SecretStr

from retrieval import Settings
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.surfaces.http.app import create_app, serve
from retrieval.surfaces.listening import listening_socket, url_of
from tests.support.database import SCHEMA


def app_of(database_url: str, *, insecure_local: bool = True, **changes: object) -> FastAPI:
    """The application on a tenant of its own, with vectors without a model."""
    settings = Settings(
        tenant=f"tenant-{uuid.uuid4()}", database_schema=SCHEMA, embedder="none", database_url=SecretStr(database_url)
    ).changed(**changes)
    return create_app(settings, embedder=HashingEmbedder(), insecure_local=insecure_local)


@dataclass(frozen=True)
class Served:
    """A running service."""

    url: str
    port: int
    stop: asyncio.Event
    ended: asyncio.Task[None]


@asynccontextmanager
async def served(app: FastAPI) -> AsyncIterator[Served]:
    """The application, served until the end of the block."""
    with listening_socket("127.0.0.1", 0) as listener:
        stop = asyncio.Event()
        async with app.router.lifespan_context(app):
            ended = asyncio.create_task(serve(app, listener, stop))
            try:
                yield Served(url_of(listener), listener.getsockname()[1], stop, ended)
            finally:
                stop.set()
                await ended


@contextmanager
def serving(settings: Settings, *, insecure_local: bool = True) -> Iterator[str]:
    """The URL of a service with vectors without a model, which runs in a thread of its own."""
    app = create_app(settings, embedder=HashingEmbedder(), insecure_local=insecure_local)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(served(app)) as service:
        yield service.url


@cache
def description() -> dict[str, Any]:
    """The OpenAPI description of the service, created once a process; read-only."""
    return create_app(
        Settings(embedder="none", database_url=SecretStr("postgresql://nobody@127.0.0.1:1/none"))
    ).openapi()
