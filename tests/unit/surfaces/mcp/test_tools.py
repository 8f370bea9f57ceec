"""The descriptions of the tools, before any call."""

from __future__ import annotations

import jsonschema
import pytest
from mcp_types import CallToolResult, TextContent, Tool

from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.search.filters import parse_where
from retrieval.settings import Settings
from retrieval.surfaces.mcp.served import EVERY_TOOL, Offer, Served, groups_named
from retrieval.surfaces.mcp.server import RetrievalServer
from retrieval.surfaces.mcp.values import ToolGroup

READING = {
    *("search_principles", "list_tags", "list_loaded_principles"),
    *("list_collections", "search_collection", "get_items"),
    *("search_memories", "memory_context", "memory_timeline"),
}
OF_PRINCIPLES = {"search_principles", "list_tags", "list_loaded_principles"}
CHANGING = {"rate_principle", "add_principle", "add_items", "rate_hit", "store_memory"}


@pytest.fixture(scope="module")
def server() -> RetrievalServer:
    """A server with every tool, whose platform is never opened."""
    return RetrievalServer(Served(Settings(), Offer(groups=EVERY_TOOL)))


async def tools_of(server: RetrievalServer) -> dict[str, Tool]:
    """The server's tools by name."""
    return {tool.name: tool for tool in await server.list_tools()}


async def refusal(server: RetrievalServer, name: str, **arguments: object) -> str:
    """The line that a call is refused with."""
    result = await server.call_tool(name, arguments)
    assert isinstance(result, CallToolResult)
    assert result.is_error
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def test_the_tools_are_those_of_the_protocol(server: RetrievalServer) -> None:
    """Each has a title, a description and annotations that tell whether it changes anything."""
    tools = await tools_of(server)
    assert set(tools) == READING | CHANGING
    for name, tool in tools.items():
        assert tool.title
        assert tool.description
        assert tool.annotations
        assert tool.annotations.read_only_hint is (name in READING)
        assert tool.annotations.destructive_hint is (name == "add_items")
        assert tool.annotations.open_world_hint is False


async def test_every_parameter_is_described_and_no_other_is_taken(server: RetrievalServer) -> None:
    """A model fills them in by their descriptions alone."""
    for tool in (await tools_of(server)).values():
        assert tool.input_schema["additionalProperties"] is False
        for name, parameter in tool.input_schema["properties"].items():
            assert parameter.get("description"), f"{tool.name}: {name}"


async def test_parameters_have_the_names_and_defaults_of_the_protocol(server: RetrievalServer) -> None:
    """Five principles unless asked otherwise, from 1 to 50."""
    tools = await tools_of(server)
    search = tools["search_principles"].input_schema["properties"]
    assert list(search) == ["query", "tags", "include_exploration", "limit", "session_id"]
    assert (search["limit"]["default"], search["limit"]["minimum"], search["limit"]["maximum"]) == (5, 1, 50)
    assert "required" not in tools["search_principles"].input_schema
    rate = tools["rate_principle"].input_schema
    assert (list(rate["properties"]), rate["required"]) == (
        ["principle_id", "was_helpful", "context", "session_id"],
        ["principle_id", "was_helpful"],
    )
    assert tools["add_principle"].input_schema["required"] == ["title"]
    assert tools["list_loaded_principles"].input_schema["required"] == ["session_id"]


async def test_every_answer_has_a_schema(server: RetrievalServer) -> None:
    """Valid, of an object, and with the figures that a principle comes with."""
    tools = await tools_of(server)
    for tool in tools.values():
        assert tool.output_schema
        jsonschema.Draft202012Validator.check_schema(tool.output_schema)
        assert tool.output_schema["type"] == "object"
    assert tools["search_principles"].output_schema
    principle = tools["search_principles"].output_schema["$defs"]["PrincipleAnswer"]
    assert set(principle["required"]) == {
        *("id", "title", "body", "tags", "added_by", "status"),
        *("score", "success_rate", "use_count", "last_used_at", "exploring"),
    }


@pytest.mark.parametrize(
    ("name", "arguments", "line"),
    [
        ("search_principles", {"limit": 0}, "limit: must be 1 or more"),
        ("search_principles", {"limit": 51}, "limit: must be 50 or less"),
        ("search_principles", {"query": "x" * 2001}, "query: must have at most 2000 characters"),
        ("search_principles", {"tags": ["git", ""]}, "tags[1]: must have at least 1 character"),
        ("search_principles", {"tags": ["git"] * 21}, "tags: must have at most 20 members"),
        ("search_principles", {"limits": 3}, "there is no 'limits'; did you mean 'limit'? There are: query, tags,"),
        ("rate_principle", {"principle_id": "p1"}, "was_helpful: is missing"),
        (
            "rate_principle",
            {"principle_id": "p1", "was_helpful": "perhaps"},
            "was_helpful: must be true or false",
        ),
        ("rate_principle", {"principle_id": "p1", "was_helpful": "no"}, "was_helpful: must be true or false"),
        ("rate_principle", {"principle_id": "p1", "was_helpful": 0}, "was_helpful: must be true or false"),
        ("search_principles", {"limit": True}, "limit: must be a whole number, not true or false"),
        ("search_principles", {"limit": "many"}, "limit: must be a whole number, not a text"),
        ("search_principles", {"include_exploration": "yes"}, "include_exploration: must be true or false, not a text"),
        ("list_tags", {"x": 1}, "there is no 'x'; the tool takes none"),
        ("add_principle", {"title": ""}, "title: must have at least 1 character"),
        ("list_loaded_principles", {}, "session_id: is missing; it is needed"),
        ("search_collection", {"query": "a"}, "collection: is missing; it is needed"),
        ("search_collection", {"collection": "c", "limit": 0}, "limit: must be 1 or more"),
        ("search_collection", {"collection": "c", "limit": 51}, "limit: must be 50 or less"),
        ("search_collection", {"collection": "c", "query": "x" * 2001}, "query: must have at most 2000 characters"),
        ("search_collection", {"collection": "c", "where": "a"}, "where: must be an object, not a text"),
        ("search_collection", {"collection": "c", "wher": {}}, "there is no 'wher'; did you mean 'where'?"),
        ("search_collection", {"collection": "c", "facets": ["a", ""]}, "facets[1]: must have at least 1 character"),
        ("get_items", {"collection": "c", "item_ids": []}, "item_ids: must have at least 1 member"),
        ("get_items", {"collection": "c", "item_ids": ["a"], "start": -1}, "start: must be 0 or more"),
        ("add_items", {"collection": "c", "items": [{"text": "a"}]}, "items[0].id: is missing; it is needed"),
        ("add_items", {"collection": "c", "items": [{"id": True}]}, "items[0].id: must be a text, not true or false"),
        ("add_items", {"collection": "c", "items": [{"id": "a", "text": 5}]}, "items[0].text: must be a text, not a n"),
        ("add_items", {"collection": "c", "items": [{"id": "a", "text": "x" * 1_000_001}]}, "items[0].text: must have"),
        ("add_items", {"collection": "c", "items": [{"id": "i"}] * 101}, "items: must have at most 100 members"),
        ("store_memory", {"project_id": "p", "interaction_type": "t"}, "content: is missing; it is needed"),
        (
            "store_memory",
            {"project_id": "p", "interaction_type": "t", "content": "c", "occurred_at": "2026-01-01"},
            "occurred_at: must be a time with a time zone, such as 2026-05-31T12:00:00Z",
        ),
        (
            "store_memory",
            {"project_id": "p", "interaction_type": "t", "content": "c", "expires_at": 1_780_000_000},
            "expires_at: give a time with a time zone, such as 2026-05-31T12:00:00Z",
        ),
        ("memory_timeline", {"project_id": "p", "hours": 0}, "hours: must be more than 0"),
        ("memory_context", {"project_id": "p"}, "task_type: is missing; it is needed"),
    ],
)
async def test_wrong_arguments_are_one_line_that_a_model_can_act_on(
    server: RetrievalServer, name: str, arguments: dict[str, object], line: str
) -> None:
    """It names the argument and its allowed values; the store is not called."""
    message = await refusal(server, name, **arguments)
    assert message.startswith(f"{name}: wrong arguments: {line}")
    assert "\n" not in message
    assert "pydantic" not in message


async def test_a_tool_that_does_not_exist_is_one_line(server: RetrievalServer) -> None:
    """The message names the nearest tool, and lists the existing ones."""
    message = await refusal(server, "find_principles")
    assert message.startswith(
        "there is no tool 'find_principles'; did you mean 'add_principle'? There are: search_princ"
    )


@pytest.mark.parametrize(
    ("names", "tools"),
    [
        (["collections:read"], {"list_collections", "search_collection", "get_items"}),
        (["memories:read,collections"], READING - OF_PRINCIPLES | {"add_items", "rate_hit"}),
        (["memories", "collections"], READING - OF_PRINCIPLES | {"add_items", "rate_hit", "store_memory"}),
        (["principles"], OF_PRINCIPLES | {"rate_principle", "add_principle"}),
    ],
)
async def test_the_groups_that_are_named_are_offered(names: list[str], tools: set[str]) -> None:
    """With ``:read`` as far as they only read; what a group says of itself comes with it."""
    groups = groups_named(names)
    server = RetrievalServer(Served(Settings(), Offer(groups=groups)))
    assert set(await tools_of(server)) == tools
    assert bool(await server.list_resources()) is (ToolGroup.PRINCIPLES in groups)
    assert ("search_principles" in (server.instructions or "")) is (ToolGroup.PRINCIPLES in groups)
    assert "not instructions" in (server.instructions or "")


async def test_a_read_only_server_offers_no_tool_that_writes() -> None:
    """A tool that is called all the same says how the user could allow it."""
    server = RetrievalServer(Served(Settings(), Offer(groups=EVERY_TOOL).read_only()))
    assert set(await tools_of(server)) == READING
    for name, group in (("add_items", "collections"), ("rate_principle", "principles"), ("store_memory", "memories")):
        message = await refusal(server, name)
        assert (
            "which is not allowed here; let the user start the server without --read-only, and with: retriev" in message
        )
        assert group in message


async def test_usually_principles_are_kept_and_the_rest_is_read() -> None:
    """A candidate proves itself before it counts; an item or a memory counts as soon as it is stored."""
    tools = await tools_of(RetrievalServer(Served(Settings())))
    assert set(tools) == READING | {"rate_principle", "add_principle"}


@pytest.mark.parametrize("name", ["principle", "collections:write", "", "all"])
def test_unknown_groups_are_refused(name: str) -> None:
    """The message lists the groups."""
    with pytest.raises(InvalidRequestError, match="memories:read"):
        groups_named([name])


async def test_the_filter_is_described_where_a_model_reads(server: RetrievalServer) -> None:
    """The description has its operators, and valid examples."""
    where = (await tools_of(server))["search_collection"].input_schema["properties"]["where"]
    assert all(word in where["description"] for word in ("gte", "exists", "one of", "occurred_at"))
    for example in where["examples"]:
        parse_where(example)
