"""Metrics for Prometheus, and the token that they need."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from fastapi import FastAPI
from httpx2 import ASGITransport, AsyncClient
from prometheus_client.parser import text_string_to_metric_families

from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.search.recall import Measurement, store_measurements
from retrieval.domain.items.item import Item
from retrieval.platform import Platform
from retrieval.surfaces.http.caller import Service
from tests.support.serving import app_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROOT = Path(__file__).parents[4]
PAGE = ROOT / "docs" / "how-to" / "observe.md"
DASHBOARD = ROOT / "deploy" / "grafana" / "retrieval.json"
TOKEN = "prometheus-" + "0123456789"
NOBODY = "postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=1"
"""An address without a server."""


@dataclass(frozen=True)
class Running:
    """The application, its clients' way in, and its platform."""

    app: FastAPI
    client: AsyncClient
    platform: Platform

    @property
    def service(self) -> Service:
        """The state that all requests share."""
        service: Service = self.app.state.service
        return service

    async def metrics(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """Each sample's value by name and labels."""
        text = (await self.client.get("/metrics")).text
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }


def client_of(app: FastAPI) -> AsyncClient:
    """A client of the application, without a socket."""
    return AsyncClient(transport=ASGITransport(app=app), base_url="http://localhost")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(database_url: str) -> AsyncIterator[Running]:
    """A service without keys, with a collection of two items."""
    app = app_of(database_url, insecure_local=True)
    async with app.router.lifespan_context(app), client_of(app) as client:
        platform = await app.state.service.host()
        collection = await platform.collection("docs")
        await collection.add([Item(item_id=name, body=f"{name} connection timeout") for name in "ab"])
        yield Running(app, client, platform)


async def test_the_page_lists_every_metric(running: Running) -> None:
    """Name and type of each, and no other."""
    text = (await running.client.get("/metrics")).text
    types = dict(re.findall(r"^# TYPE (retrieval_\w+) (\w+)$", text, re.MULTILINE))
    listed = dict(re.findall(r"^\| `(retrieval_\w+)` \| (\w+) \|", PAGE.read_text(), re.MULTILINE))

    assert {name: kind for name, kind in types.items() if not name.endswith("_created")} == listed


async def test_requests_are_counted_by_route_as_it_is_written(running: Running) -> None:
    """All unknown paths are one series, and so are all unknown methods."""
    for path in ("/livez", "/nowhere/1", "/nowhere/2"):
        await running.client.get(path)
    await running.client.request("BREW", "/livez")

    metrics = await running.metrics()
    routes = {
        (labels["method"], labels["route"], labels["status"]): value
        for (name, pairs), value in metrics.items()
        if name == "retrieval_http_request_duration_seconds_count" and (labels := dict(pairs))
    }
    assert routes["GET", "/livez", "200"] >= 1
    assert routes["GET", "none", "404"] == 2
    assert any(method == "OTHER" for method, _, _ in routes)


async def test_searches_feedback_and_records_are_counted(running: Running) -> None:
    """Searches by path with their stages, feedback by what became of it."""
    collection = await running.platform.collection("docs")
    result = await collection.search("connection timeout")
    await collection.search("connection", legs=["lexical"])
    for _ in range(2):
        await running.platform.feedback(result.retrieval_id, "a", helpful=True, key=result.retrieval_id)

    metrics = await running.metrics()
    assert metrics["retrieval_searches_total", (("path", "exact"),)] == 1
    assert metrics["retrieval_searches_total", (("path", "none"),)] == 1
    for stage in ("embed", "candidates", "learn", "items", "total"):
        assert metrics["retrieval_search_duration_seconds_count", (("path", "exact"), ("stage", stage))] == 1
    assert metrics["retrieval_feedback_events_total", (("outcome", "recorded"),)] == 1
    assert metrics["retrieval_feedback_events_total", (("outcome", "repeated"),)] == 1
    assert metrics["retrieval_recorded_searches_total", ()] + metrics["retrieval_recordings_waiting", ()] == 2


async def test_the_metrics_show_the_current_state(running: Running) -> None:
    """The pool and the requests that are being answered, among them this one or not."""
    metrics = await running.metrics()
    assert metrics["retrieval_pool_connections_limit", ()] == 8
    assert 1 <= metrics["retrieval_pool_connections", ()] <= 8
    assert metrics["retrieval_pool_waiting", ()] == metrics["retrieval_pool_timeouts_total", ()] == 0
    assert metrics["retrieval_http_requests_limit", ()] == running.service.settings.http_max_requests
    assert metrics["retrieval_http_requests_shed_total", ()] == 0


def asked_for(expression: str) -> list[tuple[str, set[str]]]:
    """The metrics that an expression of PromQL asks for, each with the labels that it selects or sums by."""
    selected = re.findall(r"([a-z_]+)\{([^}]*)\}", expression)
    grouped = {name.strip() for names in re.findall(r"\bby \(([^)]*)\)", expression) for name in names.split(",")}
    return [
        (metric, {*re.findall(r"(\w+)(?:=|!)", within), *grouped} - {"job", "instance"}) for metric, within in selected
    ]


async def test_the_dashboard_asks_for_metrics_that_exist(running: Running) -> None:
    """A service that has searched, added and rated exposes each panel's metrics, with the labels that it selects by."""
    collection = await running.platform.collection("docs")
    await collection.add([Item(item_id="c", body="a disk that is full")])
    result = await collection.search("disk")
    await running.platform.feedback(result.retrieval_id, "c", helpful=True)
    await running.client.get("/livez")
    text = (await running.client.get("/metrics")).text
    declared = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    exposed = {name: {label for label, _ in pairs} for name, pairs in await running.metrics()}
    listed = {f"{name}{end}" for name in declared for end in ("", "_bucket", "_count")}
    panels = [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]

    met = set()
    for panel in panels:
        for target in panel["targets"]:
            queried = asked_for(target["expr"])
            assert queried, panel["title"]
            for metric, labels in queried:
                assert metric in listed, f"{panel['title']}: there is no {metric}"
                assert labels <= exposed.get(metric, labels), f"{panel['title']}: {metric} has no {labels}"
                met.add(metric.removesuffix("_bucket").removesuffix("_count"))

    ours = {name for name in declared if name.startswith("retrieval_") and not name.endswith("_created")}
    assert not ours - met, "no panel shows these"


async def test_recall_and_jobs_are_read_from_the_database_seldom(running: Running) -> None:
    """The lowest recall of a collection, as last measured; a second scrape within the minute reads nothing."""
    stored = await (await running.platform.collection("docs")).refresh()
    assert stored.space is not None
    where = (
        CollectionPlace(running.platform.database, running.platform.tenant_id, stored.collection_id),
        stored.space.space_id,
    )
    measured = [
        Measurement(bucket=bucket, samples=10, recall=recall, short_pages=0, effort=40)
        for bucket, recall in (("no filter", 0.998), ("under 1 %", 0.97))
    ]
    await store_measurements(*where, measured)
    running.service.figures._read_at = None  # noqa: SLF001 - they are as if never read

    metrics = await running.metrics()
    whose = (("collection", "docs"), ("tenant", running.platform.settings.tenant))
    assert metrics["retrieval_recall", whose] == pytest.approx(0.97)
    assert metrics["retrieval_recall_measured_timestamp_seconds", whose] > 1.7e9
    assert metrics["retrieval_database_up", ()] == 1
    assert metrics["retrieval_workers", ()] >= 0

    await store_measurements(*where, [Measurement(bucket="no filter", samples=1, recall=0.5, short_pages=0, effort=40)])
    assert (await running.metrics())["retrieval_recall", whose] == pytest.approx(0.97)


async def test_metrics_open_to_their_token_alone(database_url: str) -> None:
    """Another one, or none, is refused."""
    app = app_of(database_url, insecure_local=False, metrics_token=TOKEN)
    async with app.router.lifespan_context(app), client_of(app) as client:
        tried = [None, "Bearer wrong", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}", f"bearer {TOKEN}"]
        answers = [
            await client.get("/metrics", headers={"Authorization": authorization} if authorization else {})
            for authorization in tried
        ]

    assert [answer.status_code for answer in answers] == [401, 401, 401, 401, 200, 200]
    assert answers[0].headers["WWW-Authenticate"] == 'Bearer realm="metrics"'
    assert TOKEN not in answers[1].text


async def test_without_a_token_no_metrics_are_shown(database_url: str) -> None:
    """The answer says how to set one."""
    app = app_of(database_url, insecure_local=False)
    async with app.router.lifespan_context(app), client_of(app) as client:
        answer = await client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})

    assert answer.status_code == 403
    assert "RETRIEVAL_METRICS_TOKEN" in answer.json()["detail"]


async def test_metrics_are_there_while_the_database_is_not() -> None:
    """Requests are counted, and the pool has no connection."""
    app = app_of(NOBODY, insecure_local=True)
    async with app.router.lifespan_context(app), client_of(app) as client:
        answer = await client.get("/metrics")

    assert answer.status_code == 200
    assert "retrieval_pool_connections 0.0" in answer.text
    assert "retrieval_database_up 0.0" in answer.text
