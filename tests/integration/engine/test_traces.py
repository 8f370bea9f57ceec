"""Traces of a search: its stages, each leg, each round trip, and no content of the query."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from pydantic import SecretStr

from retrieval import Collection, Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.embedders.openai import OpenAIEmbedder
from retrieval.domain.errors import EmbedderRejectedError
from retrieval.domain.items.embedding import TextRole
from retrieval.domain.learning.feedback import FeedbackReport
from retrieval.domain.search.hit import SearchResult
from retrieval.jobs.registry import job_named
from retrieval.jobs.run import run_job
from retrieval.services.workplace import JobTarget
from tests.support.database import SCHEMA
from tests.support.openai_server import OpenAIServer, status
from tests.support.traces import Spans, record_spans

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform(database_url: str) -> AsyncIterator[Platform]:
    """A platform with a collection of three items."""
    settings = Settings(tenant="traced", database_schema=SCHEMA, embedder="none", database_url=SecretStr(database_url))
    async with connect(settings=settings, embedder=HashingEmbedder()) as opened:
        collection = await opened.collection("docs")
        await collection.add([{"_id": name, "text": f"{name} connection timeout", "kind_of": name} for name in "abc"])
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def docs(platform: Platform) -> Collection:
    """The collection, as a client that knows it has it."""
    collection = await platform.collection("docs")
    await collection.search("warm")
    await platform.recorded()
    return collection


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    """The spans from here on."""
    return record_spans(monkeypatch)


async def test_a_search_has_a_span_for_each_stage(docs: Collection, spans: Spans) -> None:
    """The stages are children of the search in the order in which they happen."""
    result = await docs.search("connection timeout")

    search = spans.only("retrieval.search")
    stages = ["embed", "plan", "candidates", "rank", "learn", "items", "record"]
    assert [span.name for span in spans.children_of(search)] == [f"retrieval.{name}" for name in stages]
    attributes = spans.attributes_of("retrieval.search")
    assert attributes["retrieval.collection"] == "docs"
    assert attributes["retrieval.retrieval_id"] == str(result.retrieval_id)
    assert (attributes["retrieval.path"], attributes["retrieval.hits"], attributes["retrieval.profile_version"]) == (
        "exact",
        3,
        1,
    )


async def test_each_leg_says_what_it_brought(docs: Collection, spans: Spans) -> None:
    """One statement finds them all, so each is an event; the dense one says which way it went."""
    await docs.search("connection timeout")

    legs = {dict(event.attributes or {})["retrieval.leg"]: event for event in spans.only("retrieval.candidates").events}
    assert set(legs) == {"dense", "lexical"}
    dense = dict(legs["dense"].attributes or {})
    assert (dense["retrieval.candidates"], dense["retrieval.path"], dense["retrieval.weighed"]) == (3, "exact", 3)


async def test_each_round_trip_is_a_client_span_of_its_stage(docs: Collection, spans: Spans) -> None:
    """It names the database, the operation and the rows, and marks the time when a connection was free."""
    await docs.search("connection timeout")

    [statements] = spans.children_of(spans.only("retrieval.candidates"))
    attributes: dict[str, Any] = dict(statements.attributes or {})
    assert statements.name == "postgresql statements"
    assert (attributes["db.system.name"], attributes["db.operation.name"]) == ("postgresql", "SELECT")
    assert attributes["db.response.returned_rows"] >= 6
    assert [event.name for event in statements.events] == ["connected"]


async def test_a_trace_shows_nothing_of_the_question(docs: Collection, spans: Spans) -> None:
    """It has neither words nor filters nor hits."""
    await docs.search("timeout zweistromland", where={"kind_of": "a"})
    await docs.search("timeout zweistromland", vector=HashingEmbedder().space.dimensions * [0.125])

    for word in ("zweistromland", "timeout", "kind_of", "0.125"):
        assert word not in spans.text()


async def test_a_record_is_a_trace_of_its_own(docs: Collection, platform: Platform, spans: Spans) -> None:
    """Many searches are stored together, behind them all."""
    await docs.search("connection")
    await platform.recorded()

    stored = spans.only("retrieval.record_searches")
    assert stored.parent is None
    assert dict(stored.attributes or {})["retrieval.searches"] == 1


async def test_feedback_and_jobs_are_spans(docs: Collection, platform: Platform, spans: Spans) -> None:
    """Each with its tenant, and a job with what became of it."""
    result = await docs.search("connection")
    await platform.feedback(result.retrieval_id, result[0].item_id, helpful=True)
    target = JobTarget(platform.tenant_id, await docs.refresh())
    await run_job(platform.workplace, job_named("weights"), target)

    assert spans.attributes_of("retrieval.feedback")["retrieval.events"] == 1
    job = spans.attributes_of("retrieval.job")
    assert (job["retrieval.job"], job["retrieval.outcome"]) == ("weights", "done")


async def test_a_call_of_a_model_is_a_client_span(spans: Spans) -> None:
    """The names are OpenTelemetry's for models; the span has neither the text nor the key."""
    async with OpenAIServer() as server:
        embedder = OpenAIEmbedder(model="text-test", api_key="sk-opensesame", base_url=server.url, dimensions=64)
        await embedder.embed(["zweistromland"], TextRole.QUERY)
        server.faults.append(status(400, said="the key sk-opensesame may not embed zweistromland"))
        with pytest.raises(EmbedderRejectedError):
            await embedder.embed(["zweistromland"], TextRole.QUERY)
        await embedder.aclose()

    good, bad = (dict(span.attributes or {}) for span in spans.named("embeddings text-test"))
    assert (good["gen_ai.operation.name"], good["gen_ai.request.model"]) == ("embeddings", "text-test")
    assert (good["retrieval.attempts"], "error.type" in good) == (1, False)
    assert bad["error.type"] == "EmbedderRejectedError"
    assert "zweistromland" not in spans.text()
    assert "opensesame" not in spans.text()


class Counting:
    """Counts the calls of an observer."""

    def __init__(self) -> None:
        self.searches = self.events = self.records = 0
        self.lost: list[str] = []

    def searched(self, results: list[SearchResult]) -> None:
        """A call was answered."""
        self.searches += len(results)

    def rewarded(self, report: FeedbackReport) -> None:
        """Feedback was stored."""
        self.events += report.recorded

    def recorded(self, searches: int) -> None:
        """Searches were recorded."""
        self.records += searches

    def unrecorded(self, reason: str) -> None:
        """A search was lost."""
        self.lost.append(reason)


async def test_an_observer_is_called_for_each_event(database_url: str) -> None:
    """Searches, feedback and records of each tenant's view are reported."""
    settings = Settings(tenant="watched", database_schema=SCHEMA, embedder="none")
    host = connect(database_url, settings=settings, embedder=HashingEmbedder())
    host.observer = observer = Counting()  # type: ignore[assignment]
    async with host, host.of_tenant("watched too") as platform:
        collection = await platform.collection("docs")
        await collection.add([{"_id": "a", "text": "connection timeout"}])
        result = (await collection.search_each(["connection", "timeout"]))[0]
        await platform.feedback(result.retrieval_id, "a", helpful=True)

    assert (observer.searches, observer.events, observer.records, observer.lost) == (2, 1, 2, [])
