"""Refusals of the SDK over HTTP, as errors of the protocol that a client can show."""

from __future__ import annotations

import json

import pytest
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import Message

from retrieval.surfaces.mcp.running import with_readable_refusals


def refused(message: str) -> JSONResponse:
    """An error of the protocol, as the SDK makes it."""
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": message}}, 400)


async def message_of(answer: Response) -> str:
    """The message that a client gets in place of the answer."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await with_readable_refusals(answer)({"type": "http", "method": "POST", "headers": []}, receive, send)
    assert sent[0]["status"] == answer.status_code
    return str(json.loads(sent[1]["body"])["error"]["message"])


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (
            refused("Validation error: 2 validation errors for union\nJSONRPCRequest.method\n  Field required"),
            "the body ",
        ),
        (refused("Parse error: EOF at line 1"), "Parse error: EOF at line 1"),
        (PlainTextResponse("Invalid Host header", 421), "the URL has a host name"),
        (PlainTextResponse("gone", 410), "gone"),
    ],
)
async def test_a_refusal_is_one_line(answer: Response, line: str) -> None:
    """Only lists of faults and plain texts are replaced."""
    message = await message_of(answer)
    assert message.startswith(line)
    assert "\n" not in message
