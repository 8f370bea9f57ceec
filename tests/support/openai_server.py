"""A real HTTP server on this machine that speaks embeddings and chat completions, and fails when told to."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from retrieval.adapters.embedders.hashing import hashed_vector
from retrieval.adapters.llms.sim import SimLLM

Fault = Callable[["OpenAIServer", web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]
"""Answers one request in place of the server; it gets the request's JSON."""


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it arrived."""

    headers: dict[str, str]
    """Names in lower case."""
    body: dict[str, Any]

    @property
    def texts(self) -> list[str]:
        """The texts to embed."""
        return list(self.body["input"])

    @property
    def prompt(self) -> str:
        """What a user said last."""
        return str(self.body["messages"][-1]["content"])

    @property
    def form(self) -> str:
        """The form of answer that is asked for."""
        return str(self.body.get("response_format", {"type": "text"})["type"])


@dataclass(slots=True)
class OpenAIServer:
    """Serves while it is entered; vectors are those of ``hashed_vector``, and ``SimLLM`` answers in chats.

    Each request takes the next of ``faults``, if one is left, and is answered properly otherwise.
    """

    dimensions: int = 64
    """Of the vectors, where a request does not name its own."""
    float_lists: bool = False
    """Answer with lists of numbers even when base64 is asked for, as some servers do."""
    max_text_bytes: int | None = None
    """Refuse longer texts the way the API refuses too many tokens."""
    forms: frozenset[str] = frozenset({"json_schema", "json_object", "text"})
    """The forms of answer that chats take; the others are refused."""
    faults: deque[Fault] = field(default_factory=deque)
    received: list[Received] = field(default_factory=list)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client goes away before it is answered."""
    open_gate: asyncio.Event = field(default_factory=asyncio.Event)
    """Requests wait for it after they are received; set at the start."""
    waiting: int = 0
    """Requests received and not answered."""
    most_waiting: int = 0
    url: str = ""
    port: int = 0
    """0: a free one. Who was refused at a port is served there later by a server of that port."""
    _arrived: asyncio.Condition = field(default_factory=asyncio.Condition)
    _runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        """Listen on a free port."""
        self.open_gate.set()
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/embeddings", partial(self._serve, answer))
        app.router.add_post("/v1/chat/completions", partial(self._serve, chat))
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening and answer nobody any more."""
        self.open_gate.set()
        if self._runner is not None:
            await self._runner.cleanup()

    async def arrived(self, count: int) -> None:
        """Wait until that many requests have been received in all."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.received) >= count)

    async def _serve(self, proper: Fault, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        async with self._arrived:
            self.received.append(Received({k.lower(): v for k, v in request.headers.items()}, body))
            self._arrived.notify_all()
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        try:
            await self.open_gate.wait()
            fault = self.faults.popleft() if self.faults else proper
            return await fault(self, request, body)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        finally:
            self.waiting -= 1

    def rows(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """The ``data`` of a proper answer."""
        dimensions = body.get("dimensions", self.dimensions)
        vectors = [hashed_vector(text, dimensions) for text in body["input"]]
        if body.get("encoding_format") == "base64" and not self.float_lists:
            numbers: list[Any] = [base64.b64encode(vector.astype("<f4").tobytes()).decode() for vector in vectors]
        else:
            numbers = [vector.tolist() for vector in vectors]
        return [{"object": "embedding", "index": i, "embedding": n} for i, n in enumerate(numbers)]


async def answer(server: OpenAIServer, _: web.Request, body: dict[str, Any]) -> web.Response:
    """What a healthy server says."""
    limit = server.max_text_bytes
    if limit is not None and any(len(text.encode()) > limit for text in body["input"]):
        return _error(400, "This model's maximum context length is 8192 tokens, however you requested 9000.")
    if any(text == "" for text in body["input"]):
        return _error(400, "'$.input' is invalid. Please check the API reference.")
    return _vectors(body, server.rows(body))


async def chat(server: OpenAIServer, _: web.Request, body: dict[str, Any]) -> web.Response:
    """What a healthy server says in a chat."""
    form = body.get("response_format", {"type": "text"})
    if form["type"] not in server.forms:
        return _error(400, f"'response_format' of type '{form['type']}' is not supported with this model.")
    *before, asked = (message["content"] for message in body["messages"])
    schema = form["json_schema"]["schema"] if form["type"] == "json_schema" else _schema_of(" ".join(before))
    model = SimLLM()
    if schema is None:
        return _chat(body, content=await model.complete(asked))
    return _chat(body, content=json.dumps(await model.complete_json(asked, schema)))


def _schema_of(instructions: str) -> dict[str, Any] | None:
    """The schema that the instructions end with, if they do."""
    _, found, schema = instructions.partition("JSON schema: ")
    return json.loads(schema) if found else None


def said(content: object, *, finish_reason: str = "stop", **message: object) -> Fault:
    """An answer in a chat with that content; ``message`` is what else stands beside it."""

    async def fault(_: OpenAIServer, __: web.Request, body: dict[str, Any]) -> web.Response:
        return _chat(body, finish_reason, content=content, **message)

    return fault


def _chat(body: dict[str, Any], finish_reason: str = "stop", **message: object) -> web.Response:
    choice = {"index": 0, "finish_reason": finish_reason, "message": {"role": "assistant", **message}}
    tokens = sum(len(one["content"].split()) for one in body["messages"])
    usage = {"prompt_tokens": tokens, "completion_tokens": 3, "total_tokens": tokens + 3}
    fields = {"id": "chat-1", "object": "chat.completion", "created": 1, "model": body["model"], "usage": usage}
    return web.json_response({**fields, "choices": [choice]})


def status(code: int, *, said: str = "no", kind: str | None = None, retry_after: str | None = None) -> Fault:
    """An error in the API's form; ``kind`` is its ``code``, ``retry_after`` the header."""

    async def fault(_: OpenAIServer, __: web.Request, ___: dict[str, Any]) -> web.Response:
        response = _error(code, said, kind)
        if retry_after is not None:
            response.headers["Retry-After"] = retry_after
        return response

    return fault


def changed(change: Callable[[list[dict[str, Any]]], object]) -> Fault:
    """A proper answer whose rows were changed in place first."""

    async def fault(server: OpenAIServer, _: web.Request, body: dict[str, Any]) -> web.Response:
        rows = server.rows({**body, "encoding_format": "float"})
        change(rows)
        return _vectors(body, rows)

    return fault


def raw(content: bytes, content_type: str = "application/json") -> Fault:
    """Status 200 with those bytes."""

    async def fault(_: OpenAIServer, __: web.Request, ___: dict[str, Any]) -> web.Response:
        return web.Response(body=content, content_type=content_type)

    return fault


async def hanging(_: OpenAIServer, __: web.Request, ___: dict[str, Any]) -> web.Response:
    """Never answer."""
    await asyncio.Event().wait()
    raise AssertionError


async def dripping(_: OpenAIServer, request: web.Request, __: dict[str, Any]) -> web.StreamResponse:
    """Begin an answer and send a blank of it now and then, for as long as somebody listens."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    while True:
        await response.write(b" ")
        await asyncio.sleep(0.05)


async def broken_off(_: OpenAIServer, request: web.Request, __: dict[str, Any]) -> web.StreamResponse:
    """Announce a whole answer, send half of it and drop the connection."""
    content = json.dumps({"object": "list", "data": [1] * 100}).encode()
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(len(content))})
    await response.prepare(request)
    await response.write(content[: len(content) // 2])
    if request.transport is not None:
        request.transport.close()
    return response


async def endless(_: OpenAIServer, request: web.Request, __: dict[str, Any]) -> web.StreamResponse:
    """Begin an answer and go on for as long as somebody listens."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(b'{"choices": [{"message": {"content": "')
    while True:
        await response.write(b"and so on " * 1000)


def _vectors(body: dict[str, Any], rows: list[dict[str, Any]]) -> web.Response:
    tokens = sum(len(text.split()) for text in body["input"])
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return web.json_response({"object": "list", "model": body["model"], "data": rows, "usage": usage})


def _error(code: int, said: str, kind: str | None = None) -> web.Response:
    return web.json_response({"error": {"message": said, "type": "error", "code": kind}}, status=code)
