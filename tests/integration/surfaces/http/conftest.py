"""The application as a client meets it, on this test's tenant; over ASGI, without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from fastapi import FastAPI
from httpx2 import ASGITransport, AsyncClient

from retrieval import Platform
from retrieval.surfaces.http.caller import Service
from tests.support.serving import app_of


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def app(database_url: str) -> AsyncIterator[FastAPI]:
    """The application, open."""
    app = app_of(database_url)
    async with app.router.lifespan_context(app):
        yield app


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(app: FastAPI) -> AsyncIterator[AsyncClient]:
    """For a module's tests, which run on one loop and share a tenant: mark them ``asyncio(loop_scope="module")``."""
    async with AsyncClient(transport=ASGITransport(app=app), base_url="http://localhost") as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform(app: FastAPI) -> Platform:
    """The platform of the module's tenant, as the application has it."""
    service: Service = app.state.service
    return await service.host()
