"""Tickets over HTTP, as the service in Python answers."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio
from fastapi import FastAPI
from httpx2 import AsyncClient
from pydantic import ValidationError

from retrieval import Platform
from retrieval.apps.tickets import TICKET_FILTERABLE, RetrievalRequest, RetrievalService, ticket_item
from retrieval.domain.errors import DatabaseUnreachableError
from retrieval.surfaces.http.app import create_app

pytestmark = pytest.mark.asyncio(loop_scope="module")

TICKETS: list[dict[str, Any]] = [
    {"ticket_id": "MM-1", "title": "Database connection timeout", "priority": "High", "resolution_time_hours": 4.5,
     "domain": "MM", "labels": ["Code Fix"], "created": "2024-05-01T08:00Z", "resolution": "A larger pool"},
    {"ticket_id": "MM-2", "title": "Connection pool exhausted", "priority": "Low", "resolution_time_hours": 90,
     "domain": "MM"},
    {"ticket_id": "CIW-1", "title": "Report database timeout", "priority": "Critical", "domain": "CIW"},
]  # fmt: skip


async def test_without_tickets_the_answer_says_so(client: AsyncClient) -> None:
    """``health`` is 503, a search 404; the history is not stored yet."""
    health = await client.get("/v2/retrieval/health")
    assert (health.status_code, health.json()["status"], health.json()["index_loaded"]) == (503, "unhealthy", False)
    for answer in (
        await client.post("/v2/retrieval/search", json={"query_text": "timeout"}),
        await client.post("/v2/retrieval/preview", json={"title": "timeout"}),
        await client.get("/v2/retrieval/stats"),
    ):
        assert (answer.status_code, answer.json()["type"]) == (404, "/problems/unknown-collection")
        assert "make it with: PUT /v1/collections/" in answer.json()["detail"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(platform: Platform) -> RetrievalService:
    """The service in Python, with the history stored."""
    collection = await platform.collection("tickets", filterable=TICKET_FILTERABLE)
    await collection.add([ticket_item(ticket) for ticket in TICKETS])
    return RetrievalService(platform=platform)


@pytest.mark.parametrize(
    "body",
    [
        {"title": "Database connection timeout", "description": "At peak hours", "domain_filter": "MM", "top_k": 10,
         "vector_weight": 0.8, "metadata_weight": 0.2},
        {"query_text": "timeout", "preset": "fast_resolution", "exclude_self": "MM-1"},
        {"query_text": "timeout", "vector_weight": 0.9, "candidates": 100},
        {"query_embedding": [1.0] * 256, "priority_weights": {"High": 0.9}, "as_of": "2024-05-02T00:00:00Z"},
    ],
)  # fmt: skip
async def test_a_search_answers_as_the_service_does(
    client: AsyncClient, service: RetrievalService, body: dict[str, Any]
) -> None:
    """The same fields with the same values."""
    answer = await client.post("/v2/retrieval/search", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json() == (await service.process(RetrievalRequest(**body))).model_dump(mode="json")


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({"title": "a", "vector_weight": 0, "metadata_weight": 0}, [""]),
        ({"title": "a", "vector_weight": 1.5}, ["/vector_weight"]),
        ({"title": "a", "vector_weight": 10**400}, ["/vector_weight"]),
        ({"title": "a", "candidates": 5}, ["/candidates"]),
        ({"title": "a", "candidates": 1001}, ["/candidates"]),
        ({"title": "a", "top_k": 101}, ["/top_k"]),
        ({"title": "a", "topk": 1}, ["/topk"]),
        ({"title": "a", "preset": "best"}, [""]),
        ({"title": "a", "domain_filter": "M\x00"}, ["/domain_filter"]),
        ({}, []),
        ({"query_embedding": [1.0]}, ["/query_embedding"]),
        ({"title": "a" * 40_000, "description": "b"}, ["/title"]),
        ({"title": "a", "description": "b" * 40_000}, ["/description"]),
        ({"title": "a", "exclude_ids": ["ok", "a\x00"], "exclude_self": "ok"}, ["/exclude_ids"]),
        ({"title": "a", "exclude_ids": ["a\x00"]}, ["/exclude_ids"]),
        ({"title": "a", "exclude_ids": ["ok"], "exclude_self": "a\x00"}, ["/exclude_self"]),
        ({"title": "a", "exclude_self": "a\x00"}, ["/exclude_self"]),
    ],
)
async def test_a_request_that_cannot_be_is_refused(
    client: AsyncClient, service: RetrievalService, body: dict[str, Any], pointers: list[str]
) -> None:
    """422, whether the model or the service refuses it."""
    assert service is not None
    answer = await client.post("/v2/retrieval/search", json=body)
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json().get("errors", [])] == pointers


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({"title": "a", "config": {"candidates": 2, "top_k": 5}}, ["/config/candidates"]),
        ({"title": "a", "config": {"exclude_ids": ["a\x00"]}}, ["/config/exclude_ids"]),
        ({"title": "a", "config": {"top_k": 101}}, ["/config/top_k"]),
        ({"title": "a", "domain": "M\x00"}, ["/domain"]),
        ({"title": "a", "description": "b" * 40_000}, ["/description"]),
    ],
)
async def test_a_preview_that_cannot_be_is_refused(
    client: AsyncClient, service: RetrievalService, body: dict[str, Any], pointers: list[str]
) -> None:
    """The pointer leads to the member of the request, also within its configuration."""
    assert service is not None
    answer = await client.post("/v2/retrieval/preview", json=body)
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json().get("errors", [])] == pointers


async def test_health_and_statistics_are_the_services(client: AsyncClient, service: RetrievalService) -> None:
    """200 where tickets can be found, and how many there are of each domain."""
    health = await client.get("/v2/retrieval/health")
    assert (health.status_code, health.json()) == (200, await service.health_check())
    stats = (await client.get("/v2/retrieval/stats")).json()
    assert stats["domain_distribution"] == {"MM": 2, "CIW": 1}
    assert (stats["total_vectors"], stats["dimension"], stats["metadata_entries"]) == (3, 256, 3)


@pytest.mark.parametrize(
    "config", [None, ["balanced", "fast_resolution"], {"vector_weight": 0.6, "top_k": 1, "candidates": 2}]
)
async def test_a_preview_answers_as_the_service_does(
    client: AsyncClient, service: RetrievalService, config: Any
) -> None:
    """By presets, by weights, or by default."""
    body = {"title": "timeout", "description": "database", "domain": "MM", "config": config}
    answer = await client.post("/v2/retrieval/preview", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json() == (await service.preview_search("timeout", "database", "MM", config)).model_dump(mode="json")


async def test_health_reveals_no_internals(
    client: AsyncClient, app: FastAPI, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database's message is only in the log."""

    async def broken() -> dict[str, Any]:
        raise DatabaseUnreachableError("cannot reach PostgreSQL at secret-host:5432")

    monkeypatch.setattr(app.state.service.tickets(platform), "get_index_stats", broken)
    health = await client.get("/v2/retrieval/health")
    assert (health.status_code, health.json()["error_type"]) == (503, "DatabaseUnreachableError")
    assert "secret-host" not in health.text


async def test_wrong_settings_are_refused_at_the_start(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that starts can answer."""
    monkeypatch.setenv("RETRIEVAL_DEFAULT_TOP_K", "0")
    with pytest.raises(ValidationError, match="default_top_k"):
        create_app(app.state.service.settings)
