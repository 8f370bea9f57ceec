"""A collection moves to another embedding space over HTTP; a worker does the work."""

from __future__ import annotations

import pytest
from httpx2 import AsyncClient

from retrieval import Platform

pytestmark = pytest.mark.asyncio(loop_scope="module")

PLACE = "/v1/collections/docs/reembedding"


async def test_a_reembedding_is_begun_controlled_and_inspected(client: AsyncClient, platform: Platform) -> None:
    """The cost comes first; a worker fills and switches, and the rollback is immediate."""
    docs = await platform.collection("docs", space=None)
    await docs.add([{"_id": f"i{n}", "text": f"disk {n}"} for n in range(4)])
    missing = await client.get(PLACE)
    assert (missing.status_code, missing.json()["detail"]) == (
        404,
        "collection 'docs' has no re-embedding; begin one with: POST /v1/collections/{name}/reembedding",
    )
    payload = (await client.post(PLACE, json={"to": "minilm", "dry_run": True, "price": 1.0})).json()
    assert payload["cost"]["texts"] == 4
    assert payload.get("reembedding") is None
    begun = (await client.post(PLACE, json={"to": "minilm", "batch_texts": 2})).json()
    assert (begun["reembedding"]["state"], begun["reembedding"]["pending"]) == ("filling", 4)
    assert (await client.post(f"{PLACE}/pause")).json()["is_paused"] is True
    assert (await client.post(f"{PLACE}/resume")).json()["is_paused"] is False
    refused = await client.post(f"{PLACE}/rollback")
    assert (refused.status_code, "cannot do 'rollback' now" in refused.json()["detail"]) == (422, True)
    body = (await client.post(f"{PLACE}/switch")).json()
    assert (body["state"], body["switching"]) == ("filling", "now")
    await platform.reembedding("docs", "run")
    assert (await client.get(PLACE)).json()["state"] == "switched"
    payload = (await client.post("/v1/collections/docs/search", json={"query": "disk 3"})).json()
    assert payload["hits"][0]["id"] == "i3"
    assert (await client.post(f"{PLACE}/rollback")).json()["state"] == "ready"
    assert (await client.post(f"{PLACE}/abort")).json()["state"] == "removing"
    assert (await client.post(f"{PLACE}/dance")).status_code in {404, 422}
