"""Messages remembered over HTTP, by the simulated language model."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from fastapi import FastAPI
from httpx2 import ASGITransport, AsyncClient
from pydantic import SecretStr

from retrieval import Platform, Settings
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.llms.sim import SimFaults, SimLLM
from retrieval.apps.memories.store import memories_collection
from retrieval.surfaces.http.app import create_app
from tests.support.database import SCHEMA
from tests.support.serving import app_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATH = "/v1/collections/memories/memories"
LLM = SimLLM()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def app(database_url: str) -> AsyncIterator[FastAPI]:
    """The application with that language model, open."""
    settings = Settings(
        tenant=f"tenant-{uuid.uuid4()}", database_schema=SCHEMA, embedder="none", database_url=SecretStr(database_url)
    )
    app = create_app(settings, embedder=HashingEmbedder(), llm=LLM, insecure_local=True)
    async with app.router.lifespan_context(app):
        yield app


def body_of(text: str, session: str = "s1", **others: Any) -> dict[str, Any]:
    """A body of one message."""
    message = {"role": "user", "name": "Ann", "content": text}
    return {"messages": [message], "project_id": "p1", "session": session, **others}


async def test_facts_are_remembered_once_and_their_versions_are_read(client: AsyncClient, platform: Platform) -> None:
    """The answers equal those of Python."""
    assert (await client.post(PATH, json=body_of("I live in lovely Berlin."))).status_code == 404
    await memories_collection(platform)
    first = (await client.post(PATH, json=body_of("I live in lovely Berlin."))).json()
    again = (await client.post(PATH, json=body_of("I live in lovely Berlin."))).json()
    anew = (await client.post(PATH, json=body_of("I live in lovely Berlin.", again=True))).json()
    moved = (await client.post(PATH, json=body_of("I live in lovely Munich.", "s2", first_turn=3))).json()

    assert [fact["outcome"] for fact in first["facts"]] == ["added"]
    assert (again["facts"], again["remembered_at"] is None) == ([], False)
    assert ([fact["outcome"] for fact in anew["facts"]], anew["remembered_at"]) == (["same"], None)
    old, new = first["facts"][0]["memory_id"], moved["facts"][0]["memory_id"]
    assert (moved["facts"][0]["superseded_id"], moved["facts"][0]["sources"]) == (old, ["s2/3"])
    versions = (await client.get(f"{PATH}/{old}/history")).json()["versions"]
    assert [version["memory_id"] for version in versions] == [new, old]
    assert versions[1]["superseded_by"] == new


@pytest.mark.parametrize(
    "body",
    [
        {},
        body_of("x", messages=[]),
        body_of("x", messages="x"),
        body_of("x", messages=[{"role": 3}]),
        body_of("x", messages=[{"role": "alien", "content": "I live in Berlin."}]),
        body_of("x", session=""),
        body_of("x", first_turn=-1),
        body_of("x", occurred_at="yesterday"),
        body_of("x", unknown=1),
        body_of("x" * 300_000),
    ],
)
async def test_invalid_messages_are_refused(client: AsyncClient, platform: Platform, body: dict[str, Any]) -> None:
    """The answer is a problem document, before the language model is called."""
    await memories_collection(platform)
    calls = LLM.calls
    answer = await client.post(PATH, json=body)

    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert LLM.calls == calls


async def test_other_collections_and_unknown_memories_are_refused(client: AsyncClient, platform: Platform) -> None:
    """No collection of other items becomes one of memories."""
    await memories_collection(platform)
    await platform.collection("plain")
    assert (await client.post("/v1/collections/plain/memories", json=body_of("I like tea."))).status_code == 422
    assert (await client.get("/v1/collections/plain/memories/x/history")).status_code == 422
    assert (await client.get(f"{PATH}/nobody/history")).status_code == 404


async def test_an_unreachable_language_model_is_reported(
    client: AsyncClient, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is answered as a failure that passes; nothing is stored."""
    await memories_collection(platform)
    monkeypatch.setattr(LLM, "_faults", SimFaults(fail_rate=1.0))
    answer = await client.post(PATH, json=body_of("I like green tea.", "away"))
    monkeypatch.undo()

    assert answer.status_code == 503
    assert (await client.post(PATH, json=body_of("I like green tea.", "away"))).json()["facts"]


async def test_a_service_without_a_language_model_says_so(database_url: str) -> None:
    """No error of the service: the answer names the settings."""
    app = app_of(database_url)
    async with app.router.lifespan_context(app):
        await memories_collection(await app.state.service.host())
        async with AsyncClient(transport=ASGITransport(app=app), base_url="http://localhost") as client:
            answer = await client.post(PATH, json=body_of("I live in lovely Berlin."))
    assert (answer.status_code, answer.json()["type"]) == (503, "/problems/no-language-model")
    assert "set RETRIEVAL_LLM=openai" in answer.json()["detail"]
