"""A refused body leaves nothing behind once it is answered."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from httpx2 import ASGITransport, AsyncClient
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from retrieval.adapters.aside import LONG_BODY
from retrieval.surfaces.http.json_bodies import MOST_VALUES, JSONBodies
from retrieval.surfaces.http.problems import MalformedBodyError

_SPACE = " " * LONG_BODY


class _Search(BaseModel, extra="forbid"):
    tags: list[str] = []


async def _on_malformed(_request: Request, error: Exception) -> Response:
    return JSONResponse(str(error), status_code=400)


@pytest.fixture
def service() -> FastAPI:
    """A service with one route, whose bodies are read as a search's."""
    routes = APIRouter(route_class=JSONBodies)

    @routes.post("/search")
    async def search(body: _Search) -> int:
        return len(body.tags)

    app = FastAPI(exception_handlers={MalformedBodyError: _on_malformed})
    app.include_router(routes)
    app.state.large = asyncio.Semaphore(1)
    return app


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"tags": ["a"]}, id="right"),
        pytest.param({"tags": [1]}, id="wrong"),
        pytest.param({"tags": [1] * 1000}, id="wrong in many places"),
        pytest.param({"tags": [1] * (MOST_VALUES + 1)}, id="too many values"),
        pytest.param({"tags": float("nan")}, id="not JSON"),
    ],
)
@pytest.mark.parametrize("space", ["", _SPACE], ids=["small", "large"])
async def test_a_body_goes_with_its_answer(service: FastAPI, body: Any, space: str) -> None:
    """It does not wait for the garbage collector, which would have hundreds of large ones to free at once.

    The last one may be held by the thread that reads large ones, until that has something else to do.
    """
    content = space + json.dumps(body)
    async with AsyncClient(transport=ASGITransport(service), base_url="http://service") as client:
        gc.collect()
        gc.disable()
        try:
            for _ in range(4):
                await client.post("/search", content=content, headers={"Content-Type": "application/json"})
            candidates = [
                candidate
                for candidate in gc.get_objects()
                if isinstance(candidate, Request) and hasattr(candidate, "_body")
            ]
        finally:
            gc.enable()
    assert len(candidates) <= 1
