"""A real HTTP server on this machine that reranks in four providers' shapes, and fails when told to."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from aiohttp import web

KEY = "a-key-of-the-reranker"

Fault = Callable[[dict[str, Any]], Awaitable[web.StreamResponse]]
"""Answers one request in place of the server; it gets the request's JSON."""


def overlap(query: str, text: str) -> float:
    """The share of the query's words that the text has."""
    words = set(re.findall(r"\w+", query.lower()))
    return len(words & set(re.findall(r"\w+", text.lower()))) / len(words) if words else 0.0


class OverlapReranker:
    """A reranker that counts common words; ``said`` records its inputs."""

    name = "overlap/1"

    def __init__(self) -> None:
        self.said: list[tuple[str, list[str]]] = []
        self.closed = False

    async def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """The shares of common words."""
        self.said.append((query, list(texts)))
        return [overlap(query, text) for text in texts]

    async def aclose(self) -> None:
        """Note that it was closed."""
        self.closed = True


@dataclass(slots=True)
class RerankServer:
    """Serves while it is entered; scores are those of ``overlap``. Each request takes the next of ``faults``."""

    faults: deque[Fault] = field(default_factory=deque)
    received: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)
    """Path, headers (names in lower case) and body of each request."""
    most_texts: int = 1000
    """More are refused, as TEI does."""
    url: str = ""
    _runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        """Listen on a free port."""
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/{shape}/rerank", self._serve)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        shape = request.match_info["shape"]
        self.received.append((shape, {name.lower(): value for name, value in request.headers.items()}, body))
        if self.faults:
            return await self.faults.popleft()(body)
        refused = refusal(shape, body, self.most_texts)
        if refused:
            return web.json_response({"message": refused, "error": refused}, status=422)
        return web.json_response(proper(shape, body))


def refusal(shape: str, body: dict[str, Any], most_texts: int = 1000) -> str:
    """The refusal of a body by a server of that shape; empty: it is accepted."""
    names = {
        "cohere": {"model", "query", "documents", "top_n", "max_tokens_per_doc", "priority"},
        "jina": {"model", "query", "documents", "top_n", "return_documents"},
        "voyage": {"model", "query", "documents", "top_k", "return_documents", "truncation"},
        "tei": {"query", "texts", "raw_scores", "return_text", "truncate", "truncation_direction"},
    }[shape]
    needed = {"query", "texts"} if shape == "tei" else {"model", "query", "documents"}
    if wrong := (set(body) - names) | (needed - set(body)):
        return f"wrong members: {sorted(wrong)}"
    texts = body["texts" if shape == "tei" else "documents"]
    if not texts or len(texts) > most_texts:
        return f"batch size {len(texts)} is not 1 to {most_texts}"
    return ""


def proper(shape: str, body: dict[str, Any]) -> Any:
    """A healthy server's answer, best first."""
    texts = body["texts" if shape == "tei" else "documents"]
    name = "score" if shape == "tei" else "relevance_score"
    rows = [{"index": place, name: overlap(body["query"], text)} for place, text in enumerate(texts)]
    rows.sort(key=lambda row: -row[name])
    if shape == "tei":
        return rows
    if shape == "voyage":
        return {"object": "list", "data": rows, "model": body["model"], "usage": {"total_tokens": 7}}
    if shape == "jina":
        return {"model": body["model"], "results": rows, "usage": {"total_tokens": 7}}
    return {"id": "1", "results": rows, "meta": {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}}


def says(value: Any, status: int = 200) -> Fault:
    """Answer with that JSON."""

    async def answer(_: dict[str, Any]) -> web.Response:
        return web.json_response(value, status=status)

    return answer


async def hangs(_: dict[str, Any]) -> web.StreamResponse:
    """Never answer."""
    await asyncio.sleep(3600)
    return web.Response()


async def is_cut(_: dict[str, Any]) -> web.Response:
    """End the answer too soon."""
    return web.Response(body=b'{"results": [{"index": 0, "relev', content_type="application/json")
