"""The application: its routes, and what happens around each request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from retrieval.domain.embedding import Embedder
from retrieval.domain.llm import LLM
from retrieval.settings import Settings
from retrieval.surfaces.http.routes import ROUTERS
from retrieval.surfaces.http.service import Service
from retrieval.surfaces.version import installed_version


def create_app(settings: Settings, *, embedder: Embedder | None = None, llm: LLM | None = None) -> FastAPI:
    """The application, to be run by a server of ASGI; it opens the platform when it starts and closes it at its end."""

    @asynccontextmanager
    async def opened(app: FastAPI) -> AsyncIterator[None]:
        async with Service(settings, embedder=embedder, llm=llm) as service:
            app.state.service = service
            yield

    app = FastAPI(title="Retrieval", version=installed_version() or "0", lifespan=opened)
    for router in ROUTERS:
        app.include_router(router)
    return app
