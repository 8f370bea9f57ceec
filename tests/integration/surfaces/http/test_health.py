"""What tells an operator how the service is."""

from __future__ import annotations

import pytest
from httpx2 import AsyncClient

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_live_process_says_so(client: AsyncClient) -> None:
    """Without asking the database."""
    answer = await client.get("/livez")
    assert (answer.status_code, answer.json()) == (200, {"status": "alive"})


async def test_a_service_that_can_answer_is_ready(client: AsyncClient) -> None:
    """Everything that it needs was asked."""
    answer = await client.get("/readyz")
    checks = {"database": "ok", "schema": "ok", "pool": "ok", "embedder": "ok", "language_model": "none"}
    assert (answer.status_code, answer.json()) == (200, {"status": "ready", "checks": checks})
