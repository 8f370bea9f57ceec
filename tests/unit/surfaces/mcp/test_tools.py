"""What the tools say of themselves, before anything is called."""

from __future__ import annotations

import jsonschema
import pytest
from mcp_types import CallToolResult, TextContent, Tool

from retrieval.settings import Settings
from retrieval.surfaces.mcp.server import EVERY_TOOL, Offer, RetrievalServer, Served

READING = {
    *("search_principles", "list_tags", "list_loaded_principles"),
    *("list_collections", "search_collection", "get_items"),
    *("search_memories", "memory_context", "memory_timeline"),
}
CHANGING = {"rate_principle", "add_principle", "add_items", "rate_hit", "store_memory"}


@pytest.fixture(scope="module")
def server() -> RetrievalServer:
    """A server with every tool, whose platform is never opened."""
    return RetrievalServer(Served(Settings(), Offer(groups=EVERY_TOOL)))


async def tools_of(server: RetrievalServer) -> dict[str, Tool]:
    """Its tools by name."""
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
        ("rate_principle", {"principle_id": "\x00", "was_helpful": True}, "principle_id: holds a NUL character"),
        ("rate_principle", {"principle_id": "ö" * 300, "was_helpful": True}, "principle_id: has more bytes than"),
        ("rate_principle", {"principle_id": "p", "was_helpful": True, "context": "\x00"}, "context: holds U+0000"),
        (
            "add_principle",
            {"title": "a\nb"},
            "title: holds U+000A (a line break) at character 2, which cannot be stored",
        ),
        ("add_principle", {"title": "a", "body": "\u202e"}, "body: holds U+202E RIGHT-TO-LEFT OVERRIDE at character 1"),
        ("add_principle", {"title": "a", "tags": ["\u200b"]}, "tags[0]: holds U+200B ZERO WIDTH SPACE at character 1"),
        ("search_principles", {"limit": True}, "limit: must be a whole number, not true or false"),
        ("search_principles", {"limit": "7"}, "limit: must be a whole number, not a text"),
        ("search_principles", {"include_exploration": "yes"}, "include_exploration: must be true or false, not a text"),
        ("list_tags", {"x": 1}, "there is no 'x'; the tool takes none"),
        ("add_principle", {"title": ""}, "title: must have at least 1 character"),
        ("list_loaded_principles", {}, "session_id: is missing; it is needed"),
    ],
)
async def test_wrong_arguments_are_one_line_that_a_model_can_act_on(
    server: RetrievalServer, name: str, arguments: dict[str, object], line: str
) -> None:
    """Which argument, and what it should be; without a call of the store."""
    said = await refusal(server, name, **arguments)
    assert said.startswith(f"{name}: wrong arguments: {line}")
    assert "\n" not in said
    assert "pydantic" not in said


async def test_a_tool_that_does_not_exist_is_one_line(server: RetrievalServer) -> None:
    """With those that do."""
    assert await refusal(server, "find_principles") == (
        "there is no tool 'find_principles'; there are search_principles, rate_principle, add_principle, list_tags, "
        "list_loaded_principles"
    )
