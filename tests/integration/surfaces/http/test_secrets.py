"""Secrets are neither in answers nor in the log nor in traces, whatever fails."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from fastapi import APIRouter, FastAPI
from httpx2 import ASGITransport, AsyncClient
from pydantic import SecretStr

from retrieval import Settings
from retrieval.surfaces.http.app import create_app
from retrieval.surfaces.http.caller import ReadPlatform
from tests.support.database import SCHEMA
from tests.support.openai_server import OpenAIServer, status
from tests.support.traces import record_spans

pytestmark = pytest.mark.asyncio(loop_scope="module")

PASSWORD, EMBEDDING_KEY, API_KEY = "pw-Eiphah7u", "sk-Oongoo9a", "rtv_abcdefghijkl_Quie4ohQuie4ohQuie4oh"
SECRETS = (PASSWORD, EMBEDDING_KEY, API_KEY.rpartition("_")[2])
HEADERS = {"Authorization": f"Bearer {API_KEY}", "X-API-Key": API_KEY}

probe = APIRouter()


@probe.post("/probe/search")
async def search(platform: ReadPlatform) -> dict[str, int]:
    """A search by meaning alone, so that the embedder's error is the search's."""
    collection = await platform.collection("docs")
    return {"hits": len(await collection.search("words", legs=["dense"]))}


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Everything that anybody logs, tracebacks too."""
    caplog.set_level(logging.DEBUG)
    return caplog


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedder() -> AsyncIterator[OpenAIServer]:
    """An endpoint of embeddings."""
    async with OpenAIServer() as server:
        yield server


def app_of(database_url: str, embedder: OpenAIServer) -> FastAPI:
    """The application with secrets of every kind."""
    settings = Settings(
        tenant="secrets",
        database_schema=SCHEMA,
        database_url=SecretStr(database_url),
        embedder="openai",
        embedding_api_key=SecretStr(EMBEDDING_KEY),
        embedding_base_url=embedder.url,
        embedding_dimensions=64,
    )
    app = create_app(settings, insecure_local=True)
    app.include_router(probe)
    return app


async def answers_of(app: FastAPI) -> str:
    """All that the service answers to a search, to its metrics, and to an unknown path."""
    async with (
        app.router.lifespan_context(app),
        AsyncClient(transport=ASGITransport(app=app), base_url="http://localhost", headers=HEADERS) as client,
    ):
        answers = [await client.post("/probe/search")]
        answers += [await client.get(path) for path in ("/metrics", "/livez", "/nowhere")]
    return "\n".join(f"{answer.status_code} {dict(answer.headers)} {answer.text}" for answer in answers)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{PASSWORD}@127.0.0.1:1/nothing?connect_timeout=1",
        f"postgresql://me:x@{PASSWORD}@127.0.0.1:1/nothing?connect_timeout=1",
    ],
)
async def test_a_database_that_is_away_or_misnamed_costs_no_secret(
    embedder: OpenAIServer, records: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    """Also where the password makes the address unreadable."""
    spans = record_spans(monkeypatch)
    texts = await answers_of(app_of(url, embedder))

    assert texts[0] == "5"
    for text in (texts, records.text, spans.text()):
        assert not [secret for secret in SECRETS if secret in text]


async def test_an_embedder_that_quotes_the_key_costs_no_secret(
    database_url: str, embedder: OpenAIServer, records: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some servers quote the request."""
    spans = record_spans(monkeypatch)
    embedder.faults.extend(status(code, said=f"the key {EMBEDDING_KEY} is no good") for code in (403, 400))
    app = app_of(database_url, embedder)
    texts = await answers_of(app) + await answers_of(app_of(database_url, embedder))

    assert texts[0] == "5"
    assert spans.named("embeddings text-embedding-3-small")
    for text in (texts, records.text, spans.text()):
        assert not [secret for secret in SECRETS if secret in text]
