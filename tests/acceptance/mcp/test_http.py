"""The MCP server over streamable HTTP, with the SDK's own client."""

from __future__ import annotations

import asyncio
import contextlib
import signal

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from retrieval import Context, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.apps.principles import PrincipleStore
from retrieval.apps.principles.principle import SESSION_START
from retrieval.domain.records.slate import ShownItem, Slot
from tests.acceptance.conftest import SECONDS, Program
from tests.acceptance.mcp.conftest import TENANT, serving_http, tool_answer, tool_error
from tests.support.away import Away

TOKEN = "a token of sixteen or more".replace(" ", "-")
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "page", "version": "1"}},
}


async def test_clients_of_both_generations_are_served_at_once(http: str) -> None:
    """With the handshake and without; what one adds the other finds, and calls do not wait for one another."""
    async with Client(http) as modern, Client(http, mode="legacy") as other:
        assert modern.protocol_version != other.protocol_version
        title = "Read the error message to its end"
        await tool_answer(modern, "add_principle", title=title, tags=["errors"])
        arguments = {"query": "an error message", "tags": ["errors"], "include_exploration": True}
        answers = await asyncio.gather(
            *(tool_answer(client, "search_principles", **arguments) for client in (modern, other) * 3)
        )
        assert [answer.titles for answer in answers] == [[title]] * 6


async def test_a_candidate_proves_itself_in_several_sessions(http: str) -> None:
    """Each session's verdict counts once; after the third verdict the principle is returned without exploration."""
    title = "Measure before you optimise"
    for uses in (1, 2, 3):
        async with Client(http, mode="legacy") as client:
            added = (await tool_answer(client, "add_principle", title=title, tags=["speed"])).value["principle"]
            for _ in range(2):
                rated = await tool_answer(client, "rate_principle", principle_id=added["id"], was_helpful=True)
            assert rated.value["principle"]["use_count"] == uses
    async with Client(http) as client:
        result = await tool_answer(client, "search_principles", query="make it faster", tags=["speed"])
        assert result.titles == [title]
        assert (result.value["principles"][0]["exploring"], result.value["principles"][0]["status"]) == (
            False,
            "active",
        )
        again = await tool_answer(client, "add_principle", title=title)
        assert "known already, has proved itself" in again.text


async def test_a_client_without_a_session_cannot_prove_its_own_candidate(http: str) -> None:
    """All its verdicts are one session's, unless it names sessions; those it names count once each."""
    async with Client(http) as client:
        added = (await tool_answer(client, "add_principle", title="Trust me, I am right")).value["principle"]
        for helpful in (True, True, False, True):
            rated = await tool_answer(client, "rate_principle", principle_id=added["id"], was_helpful=helpful)
        assert (rated.value["principle"]["status"], rated.value["principle"]["use_count"]) == ("candidate", 1)
        for session in ("s-1", "s-1", "s-2"):
            judged = {"principle_id": added["id"], "was_helpful": True, "session_id": session}
            rated = await tool_answer(client, "rate_principle", **judged)
        assert (rated.value["principle"]["status"], rated.value["principle"]["use_count"]) == ("active", 3)


async def test_the_principles_of_a_session_start_are_listed(http: str, url: str) -> None:
    """In the order shown, with those marked that were explored."""
    settings = Settings().changed(tenant=TENANT, database_schema="retrieval")
    async with connect(url, settings=settings, embedder=HashingEmbedder()) as platform:
        store = await PrincipleStore.open(platform)
        first = await store.add_principle("Say what you will do")
        second = await store.add_principle("Try the other way round", status="candidate")
        collection = await platform.collection("principles", create=False)
        await collection.record_answer(
            "",
            [ShownItem(item_id=first.id, score=0.5), ShownItem(item_id=second.id, score=0.5, slot=Slot.EXPLORE)],
            context=Context(session="s-17"),
            origin=SESSION_START,
            retrieval_time_ms=1.0,
        )
    async with Client(http) as client:
        loaded = await tool_answer(client, "list_loaded_principles", session_id="s-17")
    assert [(principle["id"], principle["exploring"]) for principle in loaded.value["principles"]] == [
        (first.id, False),
        (second.id, True),
    ]
    assert f"**[{second.id}]** (exploring)" in loaded.text


async def test_calls_say_that_the_database_is_away_until_it_is_back(http: str, away: Away) -> None:
    """The server lives on, and the client's session too."""
    async with Client(http, mode="legacy") as client:
        await tool_answer(client, "list_tags")
        with away():
            assert "the database cannot be reached" in await tool_error(client, "list_tags")
            assert "Try again in a moment" in await tool_error(client, "add_principle", title="Never stored")
        await tool_answer(client, "list_tags")


async def test_an_impossible_call_gets_one_line(http: str) -> None:
    """The line says what to do instead."""
    async with Client(http) as client:
        message = await tool_error(client, "rate_principle", principle_id="p-none", was_helpful=True)
        assert "there is no principle 'p-none'" in message
        assert "search_principles" in message
        assert "needs a title" in await tool_error(client, "add_principle", title="  ")


@pytest.mark.parametrize("body", ["{}", "[]", "3", '{"jsonrpc": "2.0", "method": 5}', "{"])
async def test_a_body_that_is_no_message_is_refused_on_one_line(http: str, body: str) -> None:
    """With an error of the protocol, which says what a message is."""
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    async with httpx2.AsyncClient(timeout=SECONDS) as client:
        answer = await client.post(http, headers=headers, content=body)
    assert answer.status_code == 400
    message = answer.json()["error"]["message"]
    assert "\n" not in message
    assert "pydantic" not in message
    assert ("JSON-RPC 2.0" if body != "{" else "Parse error") in message


async def test_characters_that_steer_a_terminal_are_refused(http: str) -> None:
    """In the reason of a verdict and in the id of a session, as in everything that is stored."""
    async with Client(http) as client:
        added = await tool_answer(client, "add_principle", title="Look before you leap")
        rated = {"principle_id": added.value["principle"]["id"], "was_helpful": True}
        for argument in ("context", "session_id"):
            message = await tool_error(client, "rate_principle", **rated, **{argument: "a\x1b[31m"})
            assert f"{argument.removesuffix('_id')} holds U+001B (an escape character) at character 2" in message
            assert message.endswith("leave it out")
            assert "\x1b" not in message
        message = await tool_error(client, "search_principles", query="leap", session_id="\u202e")
        assert "session holds U+202E" in message


@pytest.mark.parametrize(
    ("header", "status"), [({"Host": "page.example"}, 421), ({"Origin": "http://page.example"}, 403)]
)
async def test_a_page_in_a_browser_cannot_reach_it(http: str, header: dict[str, str], status: int) -> None:
    """A page can use neither its own host name for this address, nor its own origin."""
    headers = {"Accept": "application/json, text/event-stream", **header}
    async with httpx2.AsyncClient(timeout=SECONDS) as browser:
        assert (await browser.post(http, headers=headers, json=INITIALIZE)).status_code == status


async def test_a_server_with_a_token_serves_its_bearers_until_a_signal_ends_it(served: Program) -> None:
    """At a signal it ends at once, although a client holds a stream open, and logs no error."""
    program = served.using(RETRIEVAL_MCP_TOKEN=TOKEN)
    with serving_http(program) as (process, url):
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=SECONDS) as bearer:
            async with httpx2.AsyncClient(timeout=SECONDS) as stranger:
                assert (await stranger.post(url, json=INITIALIZE)).status_code == 401
            transport = streamable_http_client(url, http_client=bearer, terminate_on_close=False)
            async with Client(transport, mode="legacy") as client:
                await tool_answer(client, "list_tags")
                process.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(process.wait, SECONDS) == 0
        assert (program.folder / "said").read_text() == ""


async def test_requests_during_shutdown_are_answered_or_refused(served: Program) -> None:
    """Requests meanwhile get no server error, and no error is logged."""
    statuses, is_asked = list[int](), asyncio.Event()
    headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json, text/event-stream"}

    async def ask() -> None:
        async with httpx2.AsyncClient(headers=headers, timeout=SECONDS) as client:
            with contextlib.suppress(httpx2.TransportError):  # after the server has ended
                while True:
                    statuses.append((await client.post(url, json=INITIALIZE)).status_code)
                    is_asked.set()

    with serving_http(served.using(RETRIEVAL_MCP_TOKEN=TOKEN)) as (process, url):
        asking = [asyncio.create_task(ask()) for _ in range(4)]
        await is_asked.wait()
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, SECONDS) == 0
        await asyncio.gather(*asking)
        assert (served.folder / "said").read_text() == ""
    assert set(statuses) <= {200, 503}
