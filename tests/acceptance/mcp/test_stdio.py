"""The MCP server over standard input and output, with the SDK's own client."""

from __future__ import annotations

import json
import logging
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from mcp import Client
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError
from mcp_types import TextResourceContents

from retrieval.surfaces.listening import installed_version
from tests.acceptance.conftest import Program
from tests.acceptance.mcp.conftest import parameters, tool_answer, tool_error
from tests.support.away import Away

TOOLS = [
    *("search_principles", "rate_principle", "add_principle", "list_tags", "list_loaded_principles"),
    *("list_collections", "search_collection", "get_items"),
    *("search_memories", "memory_context", "memory_timeline"),
]


async def resource(client: Client, uri: str) -> object:
    """The JSON of a resource."""
    (content,) = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    assert content.mime_type == "application/json"
    return json.loads(content.text)


async def test_a_session_from_its_start_without_a_database_to_its_end(
    served: Program, away: Away, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The start is answered at once.

    Calls report the missing database until it exists. Standard output has only the protocol, standard error no
    traceback, and the end releases the database.
    """
    log = tmp_path / "said"
    with log.open("w") as errors, caplog.at_level(logging.WARNING):
        async with AsyncExitStack() as stack:
            with away():
                transport = stdio_client(parameters(served), errlog=errors)
                client = await stack.enter_async_context(Client(transport))
                await without_a_database(client)
            await every_tool_and_resource(client)
    assert not caplog.records
    assert "Traceback" not in log.read_text()
    assert away.connections() == 0


async def without_a_database(client: Client) -> None:
    """The server describes itself and its tools; each call reports the missing database."""
    assert client.server_info
    assert (client.server_info.name, client.server_info.version) == ("retrieval", installed_version())
    assert "rate_principle" in (client.instructions or "")
    assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
    assert "the database cannot be reached" in await tool_error(client, "search_principles", query="anything")
    with pytest.raises(MCPError, match="principles://all: the database cannot be reached"):
        await client.read_resource("principles://all")


async def every_tool_and_resource(client: Client) -> None:
    """Add, find, rate and list."""
    added = await tool_answer(
        client, "add_principle", title="Write a failing test first", body="It shows.", tags=["Tests"]
    )
    principle = added.value["principle"]
    assert (principle["status"], principle["tags"], principle["success_rate"]) == ("candidate", ["tests"], None)
    assert "until ratings prove it. If it was known already, it stays as it was" in added.text

    none = await tool_answer(client, "search_principles", query="a failing test")
    assert none.titles == []
    assert "include_exploration=true gives up to two of them" in none.text
    assert "include_exploration" not in (await tool_answer(client, "search_principles", tags=["cooking"])).text
    result = await tool_answer(client, "search_principles", query="a failing test", include_exploration=True)
    assert [principle["exploring"] for principle in result.value["principles"]] == [True]
    assert f'**[{principle["id"]}]** (exploring) "Write a failing test first"' in result.text

    rated = await tool_answer(
        client, "rate_principle", principle_id=principle["id"], was_helpful=True, context="it did"
    )
    assert (rated.value["principle"]["use_count"], rated.value["principle"]["success_rate"]) == (1, 1.0)
    again = await tool_answer(client, "rate_principle", principle_id=principle["id"], was_helpful=False)
    assert (again.value["principle"]["use_count"], again.value["principle"]["success_rate"]) == (1, 0.0)

    assert (await tool_answer(client, "list_tags")).value == {"tags": [{"tag": "tests", "principles": 1}]}
    assert (await tool_answer(client, "list_loaded_principles", session_id="nobody's")).value["principles"] == []

    uris = [str(resource.uri) for resource in (await client.list_resources()).resources]
    assert uris == ["principles://all", "principles://stats"]
    every, figures = await resource(client, uris[0]), await resource(client, uris[1])
    assert isinstance(every, dict)
    assert [principle["id"] for principle in every["principles"]] == [principle["id"]]
    assert isinstance(figures, dict)
    assert (figures["candidates"], figures["uses"], figures["success_rate"]) == (1, 1, 0.0)
    with pytest.raises(MCPError, match="principles://none"):
        await client.read_resource("principles://none")
