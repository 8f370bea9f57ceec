"""API keys at the MCP server over HTTP: their tenant, their scopes, and their refusals."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Literal

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from retrieval.surfaces.mcp import running
from retrieval.surfaces.mcp.running import ServerAddress
from retrieval.surfaces.mcp.served import EVERY_TOOL, Offer
from tests.acceptance.conftest import SECONDS
from tests.acceptance.mcp.conftest import TENANT, serving_in_thread, tenant_of, tool_answer, tool_error
from tests.acceptance.mcp.test_http import INITIALIZE, TOKEN
from tests.support.away import Away

READING = {
    *("search_principles", "list_tags", "list_loaded_principles", "list_collections", "search_collection", "get_items"),
    *("search_memories", "memory_context", "memory_timeline"),
}
ITEM = {"id": "D-1", "text": "Where the fire extinguisher hangs."}


@pytest.fixture(scope="module")
def keyed(url: str) -> Iterator[str]:
    """The URL of a server that asks for keys, with a token too."""
    place = ServerAddress(port=0, asks_keys=True)
    with serving_in_thread(url, Offer(groups=EVERY_TOOL), place, mcp_token=TOKEN) as served:
        yield served


@asynccontextmanager
async def bearer(url: str, text: str, *, mode: Literal["legacy", "auto"] = "legacy") -> AsyncIterator[Client]:
    """A client that bears a key or a token."""
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {text}"}, timeout=SECONDS) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


async def names(client: Client) -> set[str]:
    """The tools that the client is offered."""
    return {tool.name for tool in (await client.list_tools()).tools}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_key_is_offered_what_its_scopes_allow(keyed: str, url: str, mode: Literal["legacy", "auto"]) -> None:
    """A refusal names the scope that would allow the tool; a key of all scopes, and the token, may call every tool."""
    async with tenant_of(url, "keyed") as platform:
        await platform.collection("docs")
        texts = {scope: (await platform.create_key(scope, scopes=[scope])).text for scope in ("read", "write", "admin")}
        judge = (await platform.create_key("judge", scopes=["feedback"])).text
    async with bearer(keyed, texts["read"], mode=mode) as client:
        assert await names(client) == READING
        message = await tool_error(client, "add_items", collection="docs", items=[ITEM])
        assert "needs the scope 'write'" in message
        assert "retrieval keys create NAME --scope write" in message
    async with bearer(keyed, texts["write"], mode=mode) as client:
        assert await names(client) == {"add_principle", "add_items", "store_memory"}
        assert (await client.list_resources()).resources == []
        with pytest.raises(MCPError, match="needs the scope 'read'"):
            await client.read_resource("principles://all")
        await tool_answer(client, "add_items", collection="docs", items=[ITEM])
        assert "needs the scope 'read'" in await tool_error(client, "get_items", collection="docs", item_ids=["D-1"])
    async with bearer(keyed, judge, mode=mode) as client:
        assert await names(client) == {"rate_principle", "rate_hit"}
    for text in (texts["admin"], TOKEN):
        async with bearer(keyed, text, mode=mode) as client:
            assert len(await names(client)) == 14


async def test_a_key_shows_its_tenants_data_alone(keyed: str, url: str) -> None:
    """Two clients at once, each in a tenant; the token's is the server's own."""
    texts = []
    for tenant in ("one", "other"):
        async with tenant_of(url, tenant) as platform:
            await platform.collection("docs")
            texts.append((await platform.create_key("agent", scopes=["read", "write"])).text)
    async with bearer(keyed, texts[0]) as first, bearer(keyed, texts[1]) as other, bearer(keyed, TOKEN) as own:
        await tool_answer(first, "add_items", collection="docs", items=[ITEM])
        await tool_answer(first, "store_memory", project_id="p", interaction_type="plans", content="Move the server.")
        assert "has no item" in await tool_error(other, "get_items", collection="docs", item_ids=["D-1"])
        remembered = await tool_answer(first, "search_memories", project_id="p")
        assert [memory["content"] for memory in remembered.value["memories"]] == ["Move the server."]
        result = await tool_answer(first, "search_collection", collection="docs", query="fire extinguisher")
        assert [hit["id"] for hit in result.value["hits"]] == ["D-1"]
        listed = await tool_answer(own, "list_collections")
        assert "docs" not in [hit["name"] for hit in listed.value["collections"]]


async def test_a_session_is_its_keys_alone(keyed: str, url: str) -> None:
    """Another key that names the session does not find it; a revoked key is refused."""
    async with tenant_of(url, TENANT) as platform:
        mine, theirs = [(await platform.create_key(name)).text for name in ("mine", "theirs")]
    accept = {"Accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient(timeout=SECONDS, headers=accept) as http:
        begun = await http.post(keyed, json=INITIALIZE, headers={"Authorization": f"Bearer {mine}"})
        session = {"mcp-session-id": begun.headers["mcp-session-id"]}
        request = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        stolen = await http.post(keyed, json=request, headers={**session, "Authorization": f"Bearer {theirs}"})
        assert stolen.status_code == 404
        for wrong in ("", "Bearer rtv_none", f"Bearer {mine}x", f"Basic {mine}"):
            refusal = await http.post(keyed, json=INITIALIZE, headers={"Authorization": wrong})
            assert refusal.status_code == 401
            assert "retrieval keys create" in refusal.json()["error"]["message"]


async def test_a_stream_of_events_ends_once_its_key_is_revoked(
    keyed: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays open as long as the key is valid; opened again, it is refused. Another key's stream goes on."""
    monkeypatch.setattr(running, "CHECK_SECONDS", 0.1)
    accept = {"Accept": "application/json, text/event-stream"}
    async with tenant_of(url, TENANT) as platform, httpx2.AsyncClient(timeout=SECONDS, headers=accept) as http:

        async def opened(text: str) -> tuple[dict[str, str], asyncio.Task[int]]:
            """The headers of a new session's requests, and the task that reads its stream to the end."""
            headers = {"Authorization": f"Bearer {text}"}
            begun = await http.post(keyed, json=INITIALIZE, headers=headers)
            headers["mcp-session-id"] = begun.headers["mcp-session-id"]
            return headers, asyncio.create_task(read(headers))

        async def read(headers: dict[str, str]) -> int:
            async with http.stream("GET", keyed, headers=headers) as stream:
                async for _ in stream.aiter_bytes():
                    pass
            return stream.status_code

        keys = [await platform.create_key(name) for name in ("leaving", "staying")]
        (headers, leaving), (_, staying) = [await opened(key.text) for key in keys]
        await asyncio.sleep(0.5)
        assert not leaving.done()
        await platform.revoke_key(keys[0].key.key_id)
        assert await asyncio.wait_for(leaving, SECONDS) == 200
        assert await read(headers) == 401
        assert not staying.done()
        staying.cancel()


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_shows_why_it_is_refused(keyed: str, mode: Literal["legacy", "auto"]) -> None:
    """Without a key, with one that is none, under a host name or at a path that is not served, and from a page."""
    admitted = {"Authorization": f"Bearer {TOKEN}"}
    for headers, path, message in (
        ({}, "", "an API key is needed"),
        ({"Authorization": "Bearer rtv_none"}, "", "an API key is needed"),
        ({**admitted, "Host": "page.example"}, "", "retrieval mcp --name HOST"),
        ({**admitted, "Origin": "http://page.example"}, "", "retrieval mcp --name HOST"),
        (admitted, "/other", "give one that ends in /mcp"),
    ):
        async with httpx2.AsyncClient(headers=headers, timeout=SECONDS) as http:
            client = Client(streamable_http_client(f"{keyed}{path}", http_client=http), mode=mode)
            with pytest.raises((MCPError, ExceptionGroup)) as refusal:
                await client.__aenter__()
        assert message in "".join(traceback.format_exception(refusal.value))


async def test_a_key_that_asks_too_often_waits(keyed: str, url: str) -> None:
    """It waits as long as it is told; a call that is refused does not end the client's session."""
    async with tenant_of(url, TENANT) as platform:
        text = (await platform.create_key("hasty", requests_per_minute=1)).text
    headers = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {text}"}
    async with httpx2.AsyncClient(timeout=SECONDS, headers=headers) as http:
        answers = [await http.post(keyed, json=INITIALIZE) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 429]
    assert int(answers[1].headers["Retry-After"]) > 1
    async with tenant_of(url, TENANT) as platform:
        text = (await platform.create_key("busy", requests_per_minute=20)).text
    async with bearer(keyed, text) as client:
        listed = await asyncio.gather(*(client.list_tools() for _ in range(30)), return_exceptions=True)
        [refusal, *_] = [outcome for outcome in listed if isinstance(outcome, MCPError)]
        assert "20 requests a minute; try again in " in str(refusal)
        await asyncio.sleep(3)
        await client.list_tools()


async def test_without_a_database_no_key_can_be_looked_up(keyed: str, away: Away) -> None:
    """The answer says so, and the client comes again."""
    headers = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer rtv_{'a' * 12}_{'a' * 52}"}
    with away():
        async with httpx2.AsyncClient(timeout=SECONDS, headers=headers) as http:
            answer = await http.post(keyed, json=INITIALIZE)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert "the database cannot be reached" in answer.json()["error"]["message"]
