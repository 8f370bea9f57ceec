"""A real HTTP server on this machine that speaks ``POST /v1/embeddings`` and fails when told to."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from retrieval.adapters.embedders.hashing import hashed_vector

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


@dataclass(slots=True)
class OpenAIServer:
    """Serves while it is entered; vectors are those of ``hashed_vector``.

    Each request takes the next of ``faults``, if one is left, and is answered properly otherwise.
    """

    dimensions: int = 64
    """Of the vectors, where a request does not name its own."""
    float_lists: bool = False
    """Answer with lists of numbers even when base64 is asked for, as some servers do."""
    max_text_bytes: int | None = None
    """Refuse longer texts the way the API refuses too many tokens."""
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
    _arrived: asyncio.Condition = field(default_factory=asyncio.Condition)
    _runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        """Listen on a free port."""
        self.open_gate.set()
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/embeddings", self._embeddings)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
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

    async def _embeddings(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        async with self._arrived:
            self.received.append(Received({k.lower(): v for k, v in request.headers.items()}, body))
            self._arrived.notify_all()
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        try:
            await self.open_gate.wait()
            fault = self.faults.popleft() if self.faults else answer
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


async def broken_off(server: OpenAIServer, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """Announce a whole answer, send half of it and drop the connection."""
    content = json.dumps({"object": "list", "data": server.rows(body)}).encode()
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(len(content))})
    await response.prepare(request)
    await response.write(content[: len(content) // 2])
    if request.transport is not None:
        request.transport.close()
    return response


def _vectors(body: dict[str, Any], rows: list[dict[str, Any]]) -> web.Response:
    tokens = sum(len(text.split()) for text in body["input"])
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return web.json_response({"object": "list", "model": body["model"], "data": rows, "usage": usage})


def _error(code: int, said: str, kind: str | None = None) -> web.Response:
    return web.json_response({"error": {"message": said, "type": "error", "code": kind}}, status=code)
