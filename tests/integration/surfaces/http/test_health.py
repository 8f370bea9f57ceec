"""The routes that show an operator the state of the service."""

from __future__ import annotations

import re

import pytest
from httpx2 import AsyncClient

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_live_process_says_so(client: AsyncClient) -> None:
    """Without asking the database."""
    answer = await client.get("/livez")
    assert (answer.status_code, answer.json()) == (200, {"status": "alive"})


async def test_a_service_that_can_answer_is_ready(client: AsyncClient) -> None:
    """Each dependency was checked."""
    answer = await client.get("/readyz")
    models = {"embedder": "ok", "language_model": "none", "reranker": "none", "replicas": "none"}
    checks = {"database": "ok", "schema": "ok", "pool": "ok", **models}
    assert (answer.status_code, answer.json()) == (200, {"status": "ready", "checks": checks})


async def test_the_front_names_what_there_is(client: AsyncClient) -> None:
    """All its links work, without a network."""
    front = (await client.get("/", headers={"Authorization": ""})).json()
    assert front["service"] == "Retrieval"
    for name in ("docs", "openapi", "collections", "ready"):
        assert (await client.get(front[name])).status_code == 200
    page = (await client.get(front["docs"])).text
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(loaded) == 3
    assert "://" not in page
    for path in loaded:
        answer = await client.get(path)
        assert (answer.status_code, len(answer.content) > 1000) == (200, True)
