"""Searches while an embedder or a language model does not answer: soon, by words, and by meaning once it is back."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from typing import Any

import numpy as np
import psutil
import pytest
from aiohttp import web
from httpx2 import ASGITransport, AsyncClient
from mcp import Client
from pydantic import SecretStr

from retrieval import Collection, Platform, Settings, connect
from retrieval import sync as plain
from retrieval.adapters.embedders.cached import wait_seconds
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.embedders.openai import OpenAIEmbedder
from retrieval.adapters.llms.openai import OpenAILLM
from retrieval.adapters.store.deadline import Deadline, deadline
from retrieval.apps.memories import MemoryStore
from retrieval.apps.principles import PrincipleStore
from retrieval.apps.recall import DualRetriever
from retrieval.collection import handle_of
from retrieval.domain.errors import EmbedderUnavailableError
from retrieval.domain.items.embedding import TextRole, Vectors
from retrieval.services.evaluate import evaluate_collection, parse_metrics
from retrieval.services.judgements import JudgedQuery
from retrieval.surfaces.http import readiness
from retrieval.surfaces.http.app import create_app
from retrieval.surfaces.mcp.served import Served
from retrieval.surfaces.mcp.server import RetrievalServer
from tests.support.openai_server import Fault, OpenAIServer, answer, broken_off, dripping, hanging, status

BUDGET = 0.3
SLACK = 10.0
"""Time that a busy machine may take for the rest of a search: a fraction of any endpoint's time limit."""

ITEMS = [
    {"_id": "1", "title": "Connection timeout", "text": "The database refuses connections."},
    {"_id": "2", "title": "Disk full", "text": "The log fills the disk."},
]


@pytest.fixture
async def server() -> AsyncIterator[OpenAIServer]:
    """An endpoint of embeddings."""
    async with OpenAIServer() as running:
        yield running


def asking(settings: Settings, database_url: str, endpoint: str, **others: object) -> Settings:
    """The settings of a platform that asks that endpoint."""
    return settings.changed(
        database_url=SecretStr(database_url),
        embedder="openai",
        embedding_api_key=SecretStr("key"),
        embedding_base_url=endpoint,
        embedding_model="small",
        embedding_dimensions=64,
        embedding_budget_seconds=BUDGET,
        **others,
    )


@asynccontextmanager
async def open_stored(settings: Settings) -> AsyncIterator[tuple[Platform, Collection]]:
    """An open platform with two items, whose endpoint answered when they came."""
    async with connect(settings=settings) as platform:
        collection = await platform.collection("docs")
        assert (await collection.add(ITEMS)).pending == 0
        yield platform, collection


async def by_words(collection: Collection, query: str, within: float = BUDGET + SLACK) -> str:
    """The note of a search that words alone answer, in time."""
    started = time.monotonic()
    hits = await collection.search(query)
    assert time.monotonic() - started < within
    assert [hit.item_id for hit in hits][:1] == ["1"]
    [note] = hits.notes
    assert note.startswith("the dense leg did not run: ")
    return note


async def by_meaning(collection: Collection, query: str) -> None:
    """A search that both legs answer, as soon as the breaker allows a probe."""
    for _ in range(100):
        hits = await collection.search(query)
        if not hits.notes:
            return
        await asyncio.sleep(0.1)
    pytest.fail(f"the dense leg does not come back: {hits.notes}")


@pytest.mark.parametrize("fault", [hanging, dripping, broken_off, status(500), status(429, retry_after="30")])
async def test_an_endpoint_that_fails_costs_its_budget_once(
    settings: Settings, database_url: str, server: OpenAIServer, fault: Fault
) -> None:
    """Words answer in each case; the next searches do not call the endpoint, and call it again after its recovery."""
    async with open_stored(asking(settings, database_url, server.url)) as (platform, collection):
        before = len(server.received)
        server.faults.extend([fault] * 100)
        await by_words(collection, "database timeout 1")
        for number in range(2, 5):
            await by_words(collection, f"database timeout {number}")
        [outage] = platform.outages
        assert (outage.role, outage.name) == ("embedder", "openai-elsewhere/small (64)")
        asked = len(server.received)
        assert asked - before < 12
        assert "is skipped for now, because its last calls failed" in await by_words(
            collection, "database timeout 5", SLACK
        )
        assert len(server.received) == asked

        server.faults.clear()
        await by_meaning(collection, "database timeout 6")
        assert not platform.outages
        await until(lambda: not server.waiting)


@contextmanager
def silent(*, accepts: bool) -> Iterator[int]:
    """A port whose server never answers; unless it ``accepts``, connections wait too."""
    with closing(socket.socket()) as listener, closing(socket.socket()) as first, closing(socket.socket()) as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(100 if accepts else 0)
        for client in () if accepts else (first, second):
            client.settimeout(0)
            client.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


@pytest.mark.parametrize(
    ("scheme", "accepts"), [("http", False), ("https", True), ("http", True)], ids=["connect", "TLS", "headers"]
)
async def test_the_budget_holds_whatever_hangs(
    settings: Settings, database_url: str, scheme: str, *, accepts: bool
) -> None:
    """The endpoint may hang before it reads a request; no connection is left open."""
    with silent(accepts=accepts) as port:
        endpoint = f"{scheme}://127.0.0.1:{port}/v1"
        async with connect(settings=asking(settings, database_url, endpoint)) as platform:
            collection = await platform.collection("docs")
            await collection.add(ITEMS, embeddings=np.eye(2, 64))
            await by_words(collection, "database timeout")
            await until(lambda: connections_to(port) == (0 if accepts else 2))


def connections_to(port: int) -> int:
    """The number of this process's connections to that port."""
    return sum(
        bool(connection.raddr) and connection.raddr.port == port
        for connection in psutil.Process().net_connections("tcp")
    )


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for it, at most ten seconds."""
    for _ in range(200):
        if is_so():
            return
        await asyncio.sleep(0.05)
    assert is_so()


async def test_an_endpoint_is_used_as_soon_as_it_accepts_connections(settings: Settings, database_url: str) -> None:
    """No server listened at its port before."""
    async with OpenAIServer() as first:
        port, url = int(first.url.rsplit(":", 1)[1].split("/")[0]), first.url
    # A busy machine may need longer than the short budget for it.
    own_settings = asking(settings, database_url, url).changed(embedding_budget_seconds=2)
    async with connect(settings=own_settings) as platform:
        collection = await platform.collection("docs")
        await collection.add(ITEMS, embeddings=np.eye(2, 64))
        for number in range(4):
            assert "does not answer at 127.0.0.1" in await by_words(collection, f"database timeout {number}")
        async with OpenAIServer(port=port):
            await by_meaning(collection, "database timeout 5")


async def test_cached_queries_are_searched_by_meaning_during_an_outage(
    settings: Settings, database_url: str, server: OpenAIServer
) -> None:
    """Any process may have cached it; in a batch only new texts are searched by words alone, and so are rewrites."""
    own_settings = asking(settings, database_url, server.url)
    async with open_stored(own_settings) as (_, collection):
        assert not (await collection.search("database timeout")).notes
    async with connect(settings=own_settings) as platform:
        collection = await platform.collection("docs")
        server.faults.extend([hanging] * 100)
        await by_words(collection, "timeout of a database")
        assert platform.outages
        assert not (await collection.search("database timeout")).notes
        batch = await collection.search_each(["database timeout", "disk full", "database timeout"])
        assert [bool(hits.notes) for hits in batch] == [False, True, False]
        assert [hits[0].item_id for hits in batch] == ["1", "2", "1"]
        hits = await collection.search("database timeout", rewrites=["disk full"])
        assert {part.leg for part in hits[0].explanation.contributions} == {"dense", "lexical"}
        assert [note.partition(":")[0] for note in hits.notes] == ["rewrites without a vector were left out"]


async def test_by_meaning_alone_it_fails_at_once(settings: Settings, database_url: str, server: OpenAIServer) -> None:
    """No other leg can answer; the error gives the reason."""
    async with open_stored(asking(settings, database_url, server.url)) as (_, collection):
        server.faults.extend([hanging] * 100)
        for _ in range(3):
            started = time.monotonic()
            with pytest.raises(EmbedderUnavailableError, match="did not answer within"):
                await collection.search("database timeout", legs=["dense"])
            with pytest.raises(EmbedderUnavailableError):
                await collection.vectors_of(["database timeout"])
            assert time.monotonic() - started < BUDGET + SLACK


async def test_many_at_once_wait_for_one_budget_and_leave_nothing_behind(
    settings: Settings, database_url: str, server: OpenAIServer
) -> None:
    """All of them start before the outage is known; none waits for another."""
    async with open_stored(asking(settings, database_url, server.url)) as (_, collection):
        server.faults.extend([hanging] * 100)
        await asyncio.gather(*(by_words(collection, f"database timeout {number}") for number in range(20)))
        await until(lambda: not server.waiting)


class Blocked(HashingEmbedder):
    """A model on this machine whose thread hangs."""

    def __init__(self) -> None:
        super().__init__(64)
        self.gate = threading.Event()
        self.gate.set()
        self.asked = 0

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """The vectors, once the gate is open."""
        self.asked += 1
        await asyncio.to_thread(self.gate.wait)
        return np.asarray(await super().embed(texts, role))


async def test_a_model_on_this_machine_that_hangs_costs_its_budget_once(settings: Settings, database_url: str) -> None:
    """One thread hangs with it, and no more, however many searches there are."""
    embedder = Blocked()
    own_settings = settings.changed(embedding_budget_seconds=BUDGET)
    async with connect(database_url, settings=own_settings, embedder=embedder) as platform:
        collection = await platform.collection("docs")
        await collection.add(ITEMS)
        embedder.gate.clear()
        try:
            calls = embedder.asked
            for number in range(10):
                await by_words(collection, f"database timeout {number}")
            assert embedder.asked - calls < 5
        finally:
            embedder.gate.set()
        await by_meaning(collection, "database timeout 11")


async def test_ingest_and_measurements_are_patient(settings: Settings, database_url: str, server: OpenAIServer) -> None:
    """Neither the budget nor an open breaker ends them; a single failure is retried."""
    async with open_stored(asking(settings, database_url, server.url)) as (platform, collection):
        server.faults.extend([hanging] * 100)
        await by_words(collection, "database timeout")
        assert platform.outages
        server.faults.clear()
        server.faults.append(status(500))
        assert (await collection.add([{"_id": "3", "text": "A third one."}])).pending == 0

        async def slow(endpoint: OpenAIServer, request: web.Request, body: dict[str, Any]) -> web.Response:
            await asyncio.sleep(2 * BUDGET)
            return await answer(endpoint, request, body)

        server.faults.append(slow)
        report = await evaluate_collection(
            handle_of(collection),
            [JudgedQuery(query_id="q", text="connections refused")],
            {"q": {"1": 1}},
            metrics=parse_metrics("R@1"),
        )
        assert not report.notes


async def test_a_write_ends_before_its_deadline(settings: Settings, database_url: str, server: OpenAIServer) -> None:
    """The item is stored; its vector follows later."""
    async with open_stored(asking(settings, database_url, server.url)) as (_, collection):
        server.faults.extend([hanging] * 100)
        with deadline(Deadline(time.monotonic() + 4)):
            report = await collection.add([{"_id": "3", "text": "A third one."}])
        assert (report.added, report.pending) == (1, 1)
        assert "no answer within" in report.notes[0]


async def test_looking_for_duplicates_has_the_budget_of_a_search(
    settings: Settings, database_url: str, server: OpenAIServer
) -> None:
    """It holds a transaction meanwhile."""
    async with open_stored(asking(settings, database_url, server.url)) as (platform, _):
        store = MemoryStore(platform)
        server.faults.append(hanging)
        started = time.monotonic()
        await store.store_memory("p", "note", "prefers tea")
        assert time.monotonic() - started < BUDGET + SLACK


def test_the_sync_door_degrades_alike(settings: Settings, database_url: str) -> None:
    """The same budget, the same breaker."""
    embedder = Blocked()
    own_settings = settings.changed(embedding_budget_seconds=BUDGET, database_url=SecretStr(database_url))
    with plain.connect(settings=own_settings, embedder=embedder) as platform:
        collection = platform.collection("docs")
        collection.add(ITEMS)
        assert platform.try_embedder()
        embedder.gate.clear()
        try:
            for number in range(3):
                hits = collection.search(f"database timeout {number}")
                assert hits[0].item_id == "1"
                assert hits.notes
            assert [outage.role for outage in platform.outages] == ["embedder"]
            with pytest.raises(EmbedderUnavailableError):
                platform.try_embedder()
        finally:
            embedder.gate.set()


@asynccontextmanager
async def client_of(settings: Settings) -> AsyncIterator[AsyncClient]:
    """A client of the service over ASGI, whose two items are stored."""
    app = create_app(settings, insecure_local=True)
    async with (
        app.router.lifespan_context(app),
        AsyncClient(transport=ASGITransport(app=app), base_url="http://localhost") as client,
    ):
        docs = await (await app.state.service.host()).collection("docs")
        assert (await docs.add(ITEMS)).pending == 0
        yield client


async def test_over_http_words_answer_in_time(settings: Settings, database_url: str, server: OpenAIServer) -> None:
    """Searches, batches and writes: none fails with a deadline error."""
    own_settings = asking(settings, database_url, server.url, http_deadline_seconds=20)
    async with client_of(own_settings) as client:
        server.faults.extend([hanging] * 200)
        path, started = "/v1/collections/docs", time.monotonic()
        for number in range(3):
            response = await client.post(f"{path}/search", json={"query": f"database timeout {number}"})
            assert response.status_code == 200, response.text
            assert response.json()["hits"][0]["id"] == "1"
            assert "the dense leg did not run" in response.json()["notes"][0]
        batch = await client.post(f"{path}/search/batch", json={"queries": ["database log", "disk database"]})
        assert [bool(result["notes"]) for result in batch.json()["results"]] == [True, True]
        assert time.monotonic() - started < BUDGET + SLACK
        assert (await client.post(f"{path}/search", json={"query": "why", "legs": ["dense"]})).status_code == 503
        written = await client.put(f"{path}/items/3", json={"title": "A third one"})
        assert written.status_code == 201, written.text


async def test_a_client_that_allows_less_than_the_budget_is_answered(
    settings: Settings, database_url: str, server: OpenAIServer
) -> None:
    """The embedder gets half of the client's time; other clients' searches still call it."""
    own_settings = asking(settings, database_url, server.url).changed(embedding_budget_seconds=60)
    async with client_of(own_settings) as client:
        path, body = "/v1/collections/docs/search", {"query": "database timeout"}
        server.faults.append(hanging)
        response = await client.post(path, json=body, headers={"X-Request-Timeout": "8"})
        assert response.status_code == 200, response.text
        assert response.json()["notes"]
        assert not (await client.post(path, json=body)).json()["notes"]


async def test_readiness_reports_the_outage_that_searches_noticed(
    settings: Settings, database_url: str, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, although it was well a moment ago; and its own question is the probe that brings the embedder back."""
    monkeypatch.setattr(readiness, "ILL_EMBEDDER_HOLDS_SECONDS", 1.0)
    async with client_of(asking(settings, database_url, server.url)) as client:
        assert (await client.get("/readyz")).json()["status"] == "ready"
        server.faults.extend([hanging] * 200)
        await client.post("/v1/collections/docs/search", json={"query": "database timeout"})
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
        assert ready.json()["checks"]["embedder"] == "the embedding service did not answer; try again in a moment"
        server.faults.clear()
        for _ in range(100):
            if (await client.get("/readyz")).json()["status"] == "ready":
                break
            await asyncio.sleep(0.1)
        else:
            pytest.fail("it is not ready again")
        response = await client.post("/v1/collections/docs/search", json={"query": "a new timeout"})
        assert not response.json()["notes"]


async def test_the_tools_of_agents_answer_in_time(settings: Settings, database_url: str, server: OpenAIServer) -> None:
    """A principle is found by its words, and kept, before the client gives up."""
    async with Served(asking(settings, database_url, server.url)) as served:
        tools = RetrievalServer(served)
        tools.seconds = 20
        store = await PrincipleStore.open(await served.platform())
        await store.add_principle("Restart the pool", "When connections time out.", ["pool"])
        server.faults.extend([hanging] * 200)
        async with Client(tools) as client:
            for name, arguments in (
                ("search_principles", {"query": "restart the pool"}),
                ("add_principle", {"title": "Read the log first"}),
                ("search_principles", {"query": "the log"}),
            ):
                result = await client.call_tool(name, arguments)
                assert not result.is_error, result.content


async def test_a_model_that_has_to_be_loaded_has_more_time(settings: Settings, database_url: str) -> None:
    """Once: afterwards the budget holds; and a batch has it once for each part of it."""
    embedder = Loaded()
    assert wait_seconds(embedder, 2.0, 25) == 12.0
    async with connect(database_url, settings=settings.changed(embedding_budget_seconds=0.05), embedder=embedder) as it:
        collection = await it.collection("docs")
        await collection.add(ITEMS, embeddings=np.eye(2, 64))
        assert not (await collection.search("database timeout")).notes
        assert wait_seconds(embedder, 2.0, 26) == 4.0


class Loaded(HashingEmbedder):
    """A model that takes its time to be loaded."""

    needs_loading = True

    def __init__(self) -> None:
        super().__init__(64)

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """The vectors, once it is loaded."""
        await asyncio.sleep(0.3 if self.needs_loading else 0)
        self.needs_loading = False
        return np.asarray(await super().embed(texts, role))


@pytest.mark.parametrize("fault", [hanging, dripping, status(500)])
async def test_a_language_model_that_fails_costs_its_budget_once(
    database_url: str, settings: Settings, fault: Fault
) -> None:
    """The next questions run without new rewrites at once, and with them after the model's recovery."""
    async with (
        OpenAIServer() as server,
        connect(database_url, settings=settings, embedder=HashingEmbedder()) as platform,
    ):
        collection = await platform.collection("docs")
        await collection.add(ITEMS)
        llm = OpenAILLM(model="chat", base_url=server.url, timeout_seconds=2)
        retriever = DualRetriever(collection, llm, rewrite_timeout_seconds=BUDGET)
        patient = DualRetriever(collection, llm, rewrite_timeout_seconds=60)
        assert (await patient.search("Who knows the database?")).queries

        server.faults.extend([fault] * 200)
        for number in range(4):
            started = time.monotonic()
            assert (await retriever.search(f"Who knows disk {number}?")).degraded
            assert time.monotonic() - started < BUDGET + SLACK
        [outage] = platform.outages
        assert outage.role == "language model"
        degraded = (await retriever.search("Who knows disk 5?")).degraded
        assert degraded is not None
        assert "is skipped for now, because its last calls failed" in degraded
        assert (await retriever.search("Who knows the database?")).queries

        server.faults.clear()
        for _ in range(100):
            if (await patient.search("Who knows disk 6?")).degraded is None:
                break
            await asyncio.sleep(0.1)
        assert not platform.outages
        await llm.aclose()


async def test_documents_do_not_keep_queries_waiting(server: OpenAIServer) -> None:
    """An ingest that hangs, or is slow, fills its own places at the endpoint."""
    embedder = OpenAIEmbedder(
        api_key="key", base_url=server.url, model="small", dimensions=64, max_texts=1, max_concurrency=2
    )
    server.faults.extend([hanging] * 2)
    ingest = asyncio.create_task(embedder.embed(["a", "b", "c"], TextRole.DOCUMENT))
    await server.arrived(2)
    assert (await asyncio.wait_for(embedder.embed(["a"], TextRole.QUERY), 10)).shape == (1, 64)
    ingest.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ingest
    await embedder.aclose()
