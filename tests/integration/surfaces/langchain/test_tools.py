"""Tickets as tools and as a node, in a compiled graph of LangGraph."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Annotated, Any, TypedDict

import pytest
from httpx2 import ASGITransport, AsyncClient
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
from pydantic import BaseModel

from retrieval import Platform, connect
from retrieval.apps import tickets
from retrieval.apps.tickets import TICKET_FILTERABLE, RetrievalConfig, RetrievalRequest, ticket_item
from retrieval.surfaces.http.app import create_app
from retrieval.surfaces.langchain import (
    PatternRecognitionAgent,
    apply_hybrid_scoring,
    get_index_stats,
    pattern_recognition_agent,
    retrieval_node,
    search_similar_tickets,
    ticket_tools,
    use_platform,
)
from retrieval.sync import RetrievalService, SyncPlatform
from tests.integration.surfaces.langchain.conftest import fake_embedder
from tests.support.tickets import TICKETS

MANY = [
    {"ticket_id": f"T-{number:02}", "title": f"Ticket {number}", "priority": priority, **hours}
    for number in range(40)
    for priority in [("Critical", "Low", "Medium", "High")[number % 4]]
    for hours in [{} if number % 5 == 0 else {"resolution_time_hours": number * 3.0}]
]
"""Their vectors are made of nothing but their texts, so priorities and hours have nothing to do with nearness."""


class Workflow(TypedDict, total=False):
    """The state of a workflow on tickets."""

    ticket_id: str
    title: str
    description: str
    classified_domain: str | None
    search_config: dict[str, Any] | None
    similar_tickets: list[dict[str, Any]]
    similarity_scores: list[float]
    search_metadata: dict[str, Any]
    status: str
    current_agent: str
    messages: Annotated[list[AnyMessage], add_messages]


QUESTION: Workflow = {
    "ticket_id": "NEW-1",
    "title": "Database connection error",
    "description": "Timeout connecting to the member database",
}


@pytest.fixture(scope="module")
def _tickets(sync_platform: SyncPlatform) -> None:
    sync_platform.collection("tickets", filterable=TICKET_FILTERABLE).add(map(ticket_item, TICKETS))
    sync_platform.collection("many", filterable=TICKET_FILTERABLE).add(map(ticket_item, MANY))


@pytest.fixture(autouse=True)
def platform(sync_platform: SyncPlatform, _tickets: None) -> Iterator[SyncPlatform]:
    """The platform that the tools and the node use."""
    use_platform(sync_platform)
    yield sync_platform
    use_platform(None)


def graph(node: Any = retrieval_node) -> Any:
    """A compiled graph of the one node."""
    builder = StateGraph(Workflow)
    builder.add_node("retrieval", node)
    builder.add_edge(START, "retrieval")
    builder.add_edge("retrieval", END)
    return builder.compile()


async def test_the_node_answers_in_a_compiled_graph_as_the_service_does(platform: SyncPlatform) -> None:
    """The state has every key of the contract, and the tickets are those of ``RetrievalService.process``."""
    config = {"top_k": 2, "vector_weight": 0.5, "metadata_weight": 0.5}

    state = await graph().ainvoke(QUESTION | {"classified_domain": "MM", "search_config": config})

    request = RetrievalRequest.model_validate(
        {"title": QUESTION["title"], "description": QUESTION["description"], "domain_filter": "MM"} | config
    )
    expected = await asyncio.to_thread(RetrievalService(platform=platform).process, request)
    assert state["similar_tickets"] == [ticket.model_dump(mode="json") for ticket in expected.similar_tickets]
    assert state["similarity_scores"] == [ticket.similarity_score for ticket in expected.similar_tickets]
    assert state["search_metadata"] == expected.search_metadata.model_dump(mode="json")
    assert (state["status"], state["current_agent"]) == ("success", "retrieval")
    assert [type(message) for message in state["messages"]] == [AIMessage]
    assert state["messages"][0].content.startswith("found 2 similar tickets in domain MM")
    assert state["ticket_id"] == "NEW-1"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"title": " ", "description": ""}, "title/description required"),
        ({"search_config": {"top_k": 0}}, "top_k"),
        ({"search_config": {"vector_weight": 0.0, "metadata_weight": 0.0}}, "both 0"),
        ({"search_config": {"candidates": 5}}, "give at least 20"),
        ({"search_config": {"colour": "red"}}, "colour"),
        ({"search_config": {"title": "another"}}, "no title: give it in the state"),
        ({"search_config": "quick"}, "give a mapping"),
    ],
)
async def test_a_failure_sets_the_status_error(change: dict[str, Any], reason: str) -> None:
    """The graph goes on with nothing found, and the message is one line that says why."""
    state = await graph().ainvoke(QUESTION | change)

    assert (state["status"], state["current_agent"]) == ("error", "retrieval")
    assert (state["similar_tickets"], state["similarity_scores"], state["search_metadata"]) == ([], [], {})
    [message] = state["messages"]
    assert reason in message.content
    assert "\n" not in message.content


async def test_a_missing_collection_is_the_status_error_with_the_way_to_make_it(platform: SyncPlatform) -> None:
    """The message names the command."""
    agent = PatternRecognitionAgent(platform, RetrievalConfig(collection="nothing-here"))

    state = await agent(dict(QUESTION))

    assert state["status"] == "error"
    assert "retrieval ingest nothing-here" in state["messages"][0]["content"]


def test_the_agent_is_a_node_of_a_graph_that_runs_without_await() -> None:
    """The singleton serves ``invoke`` too."""
    state = graph(pattern_recognition_agent).invoke(QUESTION | {"search_config": {"top_k": 1}})

    assert state["status"] == "success"
    assert len(state["similar_tickets"]) == 1


def test_the_node_serves_one_loop_after_another() -> None:
    """Each ``asyncio.run`` is another loop, and none of them is the platform's."""
    first, second = (asyncio.run(retrieval_node(dict(QUESTION))) for _ in range(2))

    assert first["status"] == second["status"] == "success"
    assert first["similar_tickets"] == second["similar_tickets"]


async def test_the_agent_works_on_a_platform_of_the_same_loop(platform: SyncPlatform) -> None:
    """An async platform's own loop answers, and threads that call it."""
    async with connect(settings=platform.settings, embedder=platform.twin._embedders._given) as opened:  # noqa: SLF001 - the same vectors
        agent = PatternRecognitionAgent(opened)
        threaded = await asyncio.to_thread(agent.invoke, QUESTION)
        state = await agent(QUESTION)

    assert state["status"] == threaded["status"] == "success"
    assert state["similar_tickets"] == threaded["similar_tickets"]


async def test_a_state_may_be_an_object_and_so_may_its_configuration() -> None:
    """Pydantic models and dataclasses work too; unset values and None mean the default."""

    class Config(BaseModel):
        top_k: int = 7
        vector_weight: float | None = None

    for config in (Config(top_k=1, vector_weight=None), SimpleNamespace(top_k=1, vector_weight=None)):
        state = SimpleNamespace(title=QUESTION["title"], description="", search_config=config)
        update = await pattern_recognition_agent(state)
        assert (update["status"], len(update["similar_tickets"])) == ("success", 1)


async def test_a_preview_is_the_search_under_other_weights_and_is_not_recorded(platform: SyncPlatform) -> None:
    """It finds the node's tickets, and reports what moves."""
    config = {"top_k": 3, "vector_weight": 0.2, "metadata_weight": 0.8}
    similar = (await retrieval_node(QUESTION | {"classified_domain": "MM", "search_config": config}))["similar_tickets"]
    await asyncio.to_thread(platform.recorded)
    before = platform.recording

    preview = await pattern_recognition_agent.preview_search(QUESTION["title"], QUESTION["description"], "MM", config)

    await asyncio.to_thread(platform.recorded)
    assert platform.recording == before
    assert preview["similar_tickets"] == similar
    assert preview["search_metadata"]["total_found"] == len(similar)
    assert preview["config_used"]["vector_weight"] == 0.2
    assert [weighted["weighting"]["name"] for weighted in preview["preview"]["previews"]] == ["balanced", "custom"]
    with pytest.raises(tickets.ProcessingError, match="vector_weight: must be"):
        await pattern_recognition_agent.preview_search("a", "b", "", {"vector_weight": 2})


async def test_the_tools_in_turn_make_the_hybrid_score(platform: SyncPlatform) -> None:
    """Found by vector alone and scored afterwards, tickets have the score that the service gives them."""
    output = await search_similar_tickets.ainvoke(
        {"title": QUESTION["title"], "description": QUESTION["description"], "domain_filter": "CIW", "top_k": 10}
    )
    scored = apply_hybrid_scoring.invoke(
        {"similar_tickets": output["similar_tickets"], "vector_weight": 0.8, "metadata_weight": 0.2}
    )

    similarities = [ticket["vector_similarity"] for ticket in output["similar_tickets"]]
    assert similarities == sorted(similarities, reverse=True)
    assert len(output["query_embedding"]) == 6
    assert output["total_searched"] == len(TICKETS)
    request = RetrievalRequest(
        title=QUESTION["title"],
        description=QUESTION["description"],
        domain_filter="CIW",
        top_k=10,
        vector_weight=0.8,
        metadata_weight=0.2,
    )
    expected = (await asyncio.to_thread(RetrievalService(platform=platform).process, request)).similar_tickets
    assert [ticket["ticket_id"] for ticket in scored] == [ticket.ticket_id for ticket in expected]
    assert [ticket["similarity_score"] for ticket in scored] == pytest.approx(
        [ticket.similarity_score for ticket in expected]
    )
    assert [ticket["metadata_score"] for ticket in scored] == pytest.approx(
        [ticket.metadata_score for ticket in expected]
    )


@pytest.mark.parametrize(
    "weights", [{}, {"vector_weight": 0.5}, {"metadata_weight": 0.6}, {"vector_weight": 0.9, "metadata_weight": 0.9}]
)
async def test_every_door_answers_a_request_alike(
    platform: SyncPlatform, weights: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service, with and without await, HTTP, the node, the preview and the two tools in turn.

    Ten of forty tickets are requested, and priorities and hours are independent of nearness, which shows how many of
    the nearest each surface scores.
    """
    monkeypatch.setenv("RETRIEVAL_TICKETS_COLLECTION", "many")
    config = RetrievalConfig()
    text = {"title": QUESTION["title"], "description": QUESTION["description"]}
    arguments: dict[str, Any] = {**text, "top_k": 10, **weights}
    tools = {tool.name: tool for tool in ticket_tools(platform, config)}
    service = RetrievalService(config, platform)
    sync = await asyncio.to_thread(service.process, RetrievalRequest(**arguments))
    expected = [(ticket.ticket_id, ticket.similarity_score, ticket.metadata_score) for ticket in sync.similar_tickets]

    async with serve(platform) as (client, twin):
        awaited = await tickets.RetrievalService(config, twin).process(RetrievalRequest(**arguments))
        over_http = await client.post("/v2/retrieval/search", json=arguments)
    node = await PatternRecognitionAgent(platform, config)({**text, "search_config": {"top_k": 10, **weights}})
    preview = await asyncio.to_thread(
        service.preview_search, text["title"], text["description"], None, {"top_k": 10, **weights}
    )
    output = await tools["search_similar_tickets"].ainvoke({**text, "top_k": 10})
    scored = tools["apply_hybrid_scoring"].invoke({"similar_tickets": output["similar_tickets"], **weights})

    answers = {
        "async": awaited.model_dump(mode="json")["similar_tickets"],
        "http": over_http.json()["similar_tickets"],
        "node": node["similar_tickets"],
        "preview": [ticket.ticket.model_dump(mode="json") for ticket in preview.previews[-1 if weights else 0].tickets],
        "tools": scored,
    }
    for door, answer in answers.items():
        rows = [(ticket["ticket_id"], ticket["similarity_score"], ticket["metadata_score"]) for ticket in answer]
        assert [row[0] for row in rows] == [row[0] for row in expected], door
        assert [row[1:] for row in rows] == [pytest.approx(row[1:]) for row in expected], door


@asynccontextmanager
async def serve(platform: SyncPlatform) -> AsyncIterator[tuple[AsyncClient, Platform]]:
    """A client of the HTTP service and a platform of this loop, on the same tickets."""
    settings = platform.settings
    app = create_app(settings, embedder=fake_embedder(), insecure_local=True)
    async with (
        app.router.lifespan_context(app),
        AsyncClient(transport=ASGITransport(app=app), base_url="http://localhost") as client,
        connect(settings=settings, embedder=fake_embedder()) as twin,
    ):
        yield client, twin


def test_the_tools_work_without_await() -> None:
    """``invoke`` exists in addition to ``ainvoke``."""
    stats = get_index_stats.invoke({})
    output = search_similar_tickets.invoke({"title": "Login fails", "description": ""})

    assert stats["total_vectors"] == stats["metadata_entries"] == len(TICKETS)
    assert stats["dimension"] == 6
    assert stats["domain_distribution"]["MM"] == 2
    assert len(output["similar_tickets"]) == len(TICKETS)


async def test_an_agents_calls_of_the_tools_are_answered_in_a_graph(platform: SyncPlatform) -> None:
    """A ``ToolNode`` runs those of a platform of their own, and tells the model why an argument is refused."""
    builder = StateGraph(Workflow)
    builder.add_node("tools", ToolNode(ticket_tools(platform), handle_tool_errors=True))
    builder.add_edge(START, "tools")
    builder.add_edge("tools", END)
    calls = [
        {"name": "get_index_stats", "args": {}, "id": "1", "type": "tool_call"},
        {"name": "search_similar_tickets", "args": {"title": "a", "description": "b", "top_k": 1}, "id": "2"},
        {"name": "apply_hybrid_scoring", "args": {"similar_tickets": [], "vector_weight": 2}, "id": "3"},
        {"name": "search_similar_tickets", "args": {"title": "a", "description": "b", "top_k": 0}, "id": "4"},
        {"name": "search_similar_tickets", "args": {"title": "a", "description": "b", "domain": "CIW"}, "id": "5"},
        {"name": "apply_hybrid_scoring", "args": {"similar_tickets": [], "weight": 1}, "id": "6"},
    ]

    state = await builder.compile().ainvoke({"messages": [AIMessage("", tool_calls=calls)]})

    contents = {message.tool_call_id: message.content for message in state["messages"][1:]}
    assert f'"total_vectors": {len(TICKETS)}' in contents["1"]
    assert "similar_tickets" in contents["2"]
    assert "vector_weight is 2.0; it must be a number from 0 to 1" in contents["3"]
    assert "ProcessingError('wrong arguments: top_k: must be 1 or more')" in contents["4"]
    for call, misnamed in (("5", "domain"), ("6", "weight")):
        assert f"{misnamed}: Extra inputs are not permitted" in contents[call]


def test_the_tools_tell_a_model_what_to_give_them() -> None:
    """Their schemas have the names, the defaults and a description of each argument."""
    schema = search_similar_tickets.get_input_jsonschema()

    assert list(schema["properties"]) == ["title", "description", "domain_filter", "top_k"]
    assert schema["required"] == ["title", "description"]
    assert schema["properties"]["top_k"]["default"] == 20
    assert all(argument.get("description") for argument in schema["properties"].values())
    assert apply_hybrid_scoring.get_input_jsonschema()["properties"]["vector_weight"]["default"] == 0.7


def test_a_program_that_opens_nothing_itself_is_answered_and_ends(platform: SyncPlatform) -> None:
    """The import opens nothing, the first call a platform, by the environment, and the end of the program closes it."""
    program = (
        "import asyncio, threading\n"
        "import retrieval.surfaces.langchain\n"
        "from retrieval.surfaces.langchain.tools import get_index_stats\n"
        "print(threading.active_count())\n"
        "asyncio.run(get_index_stats.ainvoke({}))\n"
        "print(get_index_stats.invoke({})['total_vectors'])\n"
    )
    url = platform.settings.database_url
    assert url is not None
    environment = {
        "RETRIEVAL_DATABASE_URL": url.get_secret_value(),
        "RETRIEVAL_DATABASE_SCHEMA": platform.settings.database_schema,
        "RETRIEVAL_TENANT": platform.settings.tenant,
        "RETRIEVAL_EMBEDDER": "none",
        "PYTHONPATH": ":".join(path for path in sys.path if path),
        "PATH": "/usr/bin:/bin",
    }

    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"1\n{len(TICKETS)}\n", "")
