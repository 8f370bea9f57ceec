"""The answers of the health routes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from fastapi import Request

from retrieval.surfaces.http.readiness import OK, Readiness
from retrieval.surfaces.http.routes.installation import readyz


@pytest.mark.parametrize(("database", "status", "retry_after"), [(OK, 200, None), ("away", 503, "1")])
async def test_an_unready_service_sends_retry_after(database: str, status: int, retry_after: str | None) -> None:
    """As every answer does that may be another one soon."""

    async def check() -> Readiness:
        return Readiness(database=database, schema=OK, pool=OK, embedder=OK, language_model=OK, reranker=OK)

    app = SimpleNamespace(state=SimpleNamespace(readiness=check))
    answer = await readyz(cast("Request[Any]", SimpleNamespace(app=app)))
    assert (answer.status_code, answer.headers.get("Retry-After")) == (status, retry_after)
