"""The HTTP service on a socket of this machine, within the test's own loop, and its description."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from fastapi import FastAPI
from pydantic import SecretStr

from retrieval import Settings
from retrieval.surfaces.http.app import create_app, serve
from retrieval.surfaces.listening import listening_socket, url_of


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


@cache
def description() -> dict[str, Any]:
    """The OpenAPI description of the service, created once a process; read-only."""
    return create_app(
        Settings(embedder="none", database_url=SecretStr("postgresql://nobody@127.0.0.1:1/none"))
    ).openapi()
