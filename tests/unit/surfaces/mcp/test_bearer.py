"""The token that requests over HTTP bear."""

from __future__ import annotations

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from retrieval.surfaces.mcp.running import Bearers

TOKEN = "0123456789abcdef"  # noqa: S105 - of this test


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """The protected application."""
    await PlainTextResponse("in")(scope, receive, send)


async def status(*headers: tuple[str, str]) -> int:
    """The status that a request with these headers is answered with."""
    messages: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        messages.append(message)

    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    await Bearers(application, TOKEN)({"type": "http", "method": "POST", "headers": raw}, receive, send)
    return int(messages[0]["status"])


async def test_a_request_that_bears_the_token_is_served() -> None:
    """The case of the scheme does not matter."""
    assert await status(("authorization", f"Bearer {TOKEN}")) == 200
    assert await status(("authorization", f"bearer {TOKEN}")) == 200


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", f"Basic {TOKEN}", f"Bearer {TOKEN}0", "Bearer \xff", TOKEN]
)
async def test_every_other_request_is_refused(header: str) -> None:
    """Without, with another, or with another scheme."""
    assert await status(("authorization", header)) == 401
    assert await status() == 401
