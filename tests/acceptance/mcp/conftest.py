"""The MCP server as a client starts it: in its own process, on a database that the test can stop."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import Queue
from typing import Any
from urllib.parse import urlsplit

import jsonschema
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import CallToolResult, TextContent

from retrieval import Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.surfaces.mcp.running import ServerAddress, run_http
from retrieval.surfaces.mcp.served import Offer
from tests.acceptance.conftest import SECONDS, Program
from tests.support.away import Away
from tests.support.database import SCHEMA, database_with_schema

TENANT = "agents"


@pytest.fixture(scope="module")
def url(server_url: str, template: str) -> Iterator[str]:
    """The URL of a database of this module's own, whose schema is set up."""
    with database_with_schema(server_url, f"{template}_{uuid.uuid4().hex[:8]}", template) as database:
        yield database


@pytest.fixture(scope="module")
def away(server_url: str, url: str) -> Away:
    """Takes that database away for a while."""
    return Away(server_url, urlsplit(url).path.lstrip("/"))


@pytest.fixture(scope="module")
def served(url: str, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The program on that database, with vectors that need no model."""
    variables = {
        "RETRIEVAL_DATABASE_URL": url,
        "RETRIEVAL_EMBEDDER": "hashing",
        "RETRIEVAL_POOL_TIMEOUT_SECONDS": "2",
        "RETRIEVAL_TENANT": TENANT,
    }
    return Program(tmp_path_factory.mktemp("mcp"), variables)


@contextlib.contextmanager
def serving_in_thread(url: str, offer: Offer, place: ServerAddress, **settings: object) -> Iterator[str]:
    """The URL of a server over HTTP, in a thread with a loop of its own: a process would cost seconds."""
    defaults = {
        "database_url": url,
        "embedder": "hashing",
        "tenant": TENANT,
        "database_schema": SCHEMA,
        "pool_timeout_seconds": 2,
        "mcp_token": None,
    }
    configured = Settings().changed(**defaults | settings)
    addresses: Queue[str] = Queue()
    stops: Queue[Callable[[], object]] = Queue()

    async def serve() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        stops.put(lambda: loop.call_soon_threadsafe(stop.set))
        await run_http(configured, offer, place, stop, addresses.put)

    with ThreadPoolExecutor(1) as threads:
        served = threads.submit(asyncio.run, serve())
        try:
            yield addresses.get(timeout=SECONDS)
        finally:
            stops.get(timeout=SECONDS)()
            served.result(SECONDS)


@contextlib.asynccontextmanager
async def tenant_of(url: str, tenant: str) -> AsyncIterator[Platform]:
    """The tenant's platform, beside the server."""
    settings = Settings().changed(tenant=tenant, database_schema=SCHEMA)
    async with connect(url, settings=settings, embedder=HashingEmbedder()) as platform:
        yield platform


@pytest.fixture(scope="module")
def http(url: str) -> Iterator[str]:
    """The URL of a server over HTTP."""
    with serving_in_thread(url, Offer(), ServerAddress(port=0)) as served:
        yield served


@contextlib.contextmanager
def serving_http(program: Program, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A server over HTTP on a free port in a process of its own, with its URL; its standard error goes to ``said``."""
    with (program.folder / "said").open("wb") as errors:
        process = subprocess.Popen(
            [*program.command, "mcp", "--transport", "http", "--port", "0", *options],
            cwd=program.folder,
            env=program.variables,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        assert " at http://127.0.0.1:" in line, line
        yield process, line.split()[-1]
    finally:
        process.kill()
        process.communicate()


def parameters(program: Program, *options: str) -> StdioServerParameters:
    """The parameters by which a client starts the server."""
    command, *arguments = program.command
    words = [*arguments, "mcp", *options]
    return StdioServerParameters(command=command, args=words, env=program.variables, cwd=program.folder)


@dataclass(frozen=True)
class Answer:
    """A tool's answer."""

    text: str
    value: Any
    """The structured content."""

    @property
    def titles(self) -> list[str]:
        """The ids of the principles in it."""
        return [principle["title"] for principle in self.value["principles"]]


async def tool_answer(client: Client, name: str, **arguments: Any) -> Answer:
    """A tool's answer, with text, and with structure as its schema says."""
    result = await client.call_tool(name, arguments)
    assert isinstance(result, CallToolResult)
    (content,) = result.content
    assert isinstance(content, TextContent)
    assert not result.is_error, content.text
    schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
    jsonschema.validate(result.structured_content, schemas[name] or {}, jsonschema.Draft202012Validator)
    return Answer(content.text, result.structured_content)


async def tool_error(client: Client, name: str, **arguments: Any) -> str:
    """The line of a call that is answered with an error."""
    result = await client.call_tool(name, arguments)
    assert isinstance(result, CallToolResult)
    assert result.is_error
    assert result.structured_content is None
    (content,) = result.content
    assert isinstance(content, TextContent)
    assert "\n" not in content.text
    return content.text
