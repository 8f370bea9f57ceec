"""A client is answered in time, whatever hangs."""

from __future__ import annotations

import asyncio

import pytest
from mcp.server.mcpserver.exceptions import ResourceError
from mcp_types import CallToolResult, TextContent

from retrieval.domain.errors import DatabaseUnreachableError, NotFoundError
from retrieval.settings import Settings
from retrieval.surfaces.mcp.served import Served
from retrieval.surfaces.mcp.server import RetrievalServer, answered_within


class Stubborn:
    """Work that hangs, and goes on hanging when it is cancelled, as the driver does."""

    def __init__(self) -> None:
        self.end = asyncio.Event()
        self.was_cancelled = False

    async def hang(self) -> None:
        """Until the end."""
        while not self.end.is_set():
            try:
                await self.end.wait()
            except asyncio.CancelledError:
                self.was_cancelled = True


class Hanging(Served):
    """A platform whose opening hangs."""

    async def platform(self) -> None:  # type: ignore[override]
        """It never comes."""
        await asyncio.Event().wait()


async def finished_work(answer: object) -> object:
    """Work that is done at once."""
    if isinstance(answer, Exception):
        raise answer
    return answer


async def test_work_that_ignores_cancellation_is_abandoned() -> None:
    """The caller gets the error, and the work ends in the background."""
    stubborn = Stubborn()
    with pytest.raises(DatabaseUnreachableError, match="no answer within"):
        await answered_within(0.01, stubborn.hang())
    await asyncio.sleep(0)
    assert stubborn.was_cancelled
    stubborn.end.set()


async def test_a_result_in_time_is_returned() -> None:
    """An error is passed on unchanged."""
    assert await answered_within(60, finished_work(3)) == 3
    with pytest.raises(NotFoundError, match="it is not there"):
        await answered_within(60, finished_work(NotFoundError("it is not there")))


async def test_a_call_of_a_database_that_hangs_is_answered() -> None:
    """Tools and resources give the same advice as for an unavailable database."""
    server = RetrievalServer(Hanging(Settings()))
    server.seconds = 0.01
    result = await server.call_tool("list_tags", {})
    assert isinstance(result, CallToolResult)
    assert result.is_error
    (content,) = result.content
    assert isinstance(content, TextContent)
    assert "the database cannot be reached" in content.text
    with pytest.raises(ResourceError, match="the database cannot be reached"):
        await server.read_resource("principles://all")
