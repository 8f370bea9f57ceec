"""The doctor, learning and actors, over HTTP."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from httpx2 import AsyncClient

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_the_doctor_answers_with_findings(client: AsyncClient) -> None:
    """As the platform's, the worst first."""
    answer = await client.get("/v1/doctor")
    assert answer.status_code == 200
    payload = answer.json()
    assert {finding["check"] for finding in payload["findings"]} >= {"pgvector", "isolation", "indexes"}
    assert (await client.get("/v1/doctor?collection=nothing")).status_code == 404


async def test_a_key_sees_findings_of_its_own_collections_only(
    app: FastAPI, client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It contains nothing about the server, its other sessions, or shared tables."""
    await client.put("/v1/collections/examined", json={})
    monkeypatch.setattr(app.state, "insecure_local", False)
    findings = (await client.get("/v1/doctor")).json()["findings"]
    assert {finding["check"] for finding in findings} == {"collection", "embedder"}
    assert any("'examined'" in finding["found"] for finding in findings)
    assert (await client.get("/v1/doctor?collection=nothing")).status_code == 404


async def test_models_are_listed_and_chosen(client: AsyncClient) -> None:
    """Before there is any feedback there is nothing, and none of it is used."""
    await client.put("/v1/collections/learning", json={})
    nothing = {"used": 0, "chosen": False, "models": []}
    assert (await client.get("/v1/collections/learning/models")).json() == nothing
    assert (await client.put("/v1/collections/learning/model", json={"version": 0})).json() == {
        **nothing,
        "chosen": True,
    }
    again = await client.put("/v1/collections/learning/model", json={"version": None})
    assert again.json() == nothing, "the latest is used again"
    assert (await client.put("/v1/collections/learning/model", json={"version": 7})).status_code == 422


async def test_the_weight_of_feedback_can_be_set(client: AsyncClient) -> None:
    """Both, or one of them; what cannot be is refused."""
    await client.put("/v1/collections/counting", json={})
    path = "/v1/collections/counting/learning"
    assert (await client.put(path, json={"half_life_days": 90.0, "daily_cap": 50})).status_code == 204
    assert (await client.put(path, json={"daily_cap": 0})).status_code == 422


async def test_an_actor_is_quarantined_released_and_made_a_pseudonym(client: AsyncClient) -> None:
    """The answers have the number of changed events."""
    await client.put("/v1/collections/judged", json={})
    await client.put("/v1/collections/judged/items/1", json={"text": "a cat"})
    event = {"collection": "judged", "item_id": "1", "helpful": True, "actor": "bot-7"}
    assert (await client.post("/v1/feedback", json=event)).status_code == 200
    assert (await client.post("/v1/actors/quarantine", json={"actor": "bot-7", "reason": "spam"})).json() == {
        "events": 1
    }
    assert (await client.post("/v1/actors/release", json={"actor": "bot-7"})).json() == {"events": 1}
    payload = (await client.post("/v1/actors/pseudonymise", json={"actor": "bot-7"})).json()
    assert (payload["retrievals"], payload["feedback"]) == (0, 1)
    assert (await client.post("/v1/actors/release", json={"actor": ""})).status_code == 422
