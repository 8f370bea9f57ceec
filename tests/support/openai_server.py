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


def texts_of(body: dict[str, Any]) -> list[str]:
    """The texts to embed."""
    return list(body["texts"] if "texts" in body else body["input"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """The protocol of a service: the allowed and required members of requests, and the form of answers and refusals."""

    path: str
    base: str = ""
    """The end of the address that users set."""
    fields: frozenset[str]
    """The members that a request may have."""
    needed: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """The members that a request must have, with their possible values."""
    dimensions: str = "dimensions"
    role: str = ""
    """The field by which vectors of queries differ from those of documents."""
    max_texts: int = 2048
    models: dict[str, Any] = field(default_factory=dict)
    """Answers to questions about the model, by path."""
    answer: Callable[[dict[str, Any], list[dict[str, Any]]], Any]
    refusal: Callable[[int, str], web.Response]
    too_long: str = "This model's maximum context length is 8192 tokens, however you requested 9000."


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it arrived."""

    headers: dict[str, str]
    """Names in lower case."""
    body: dict[str, Any]

    @property
    def texts(self) -> list[str]:
        """The texts to embed."""
        return texts_of(self.body)

    @property
    def prompt(self) -> str:
        """The last message of a user."""
        return str(self.body["messages"][-1]["content"])

    @property
    def form(self) -> str:
        """The requested form of the answer."""
        return str(self.body.get("response_format", {"type": "text"})["type"])


def _count(body: dict[str, Any]) -> int:
    return sum(len(text.split()) for text in texts_of(body))


def _as_openai(body: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    usage = {"prompt_tokens": _count(body), "total_tokens": _count(body)}
    return {"object": "list", "model": body["model"], "data": rows, "usage": usage}


def _as_ollama(body: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    vectors = [row["embedding"] for row in rows]
    return {"model": body["model"], "embeddings": vectors, "total_duration": 1, "prompt_eval_count": _count(body)}


def _as_cohere(body: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    vectors = {"float": [row["embedding"] for row in rows]}
    return {"id": "1", "embeddings": vectors, "texts": [], "meta": {"billed_units": {"input_tokens": _count(body)}}}


def _error(code: int, message: str, kind: str | None = None) -> web.Response:
    return web.json_response({"error": {"message": message, "type": "error", "code": kind}}, status=code)


def _says(name: str) -> Callable[[int, str], web.Response]:
    """Refusals whose reason is a text under that name."""
    return lambda code, said: web.json_response({name: said}, status=code)


_FIELDS = frozenset({"model", "input", "encoding_format", "dimensions"})
_MODELS = {"object": "list", "data": [{"id": "BAAI/bge-m3", "object": "model"}]}

OPENAI = Speech(path="/v1/embeddings", base="/v1", fields=_FIELDS, answer=_as_openai, refusal=_error)
VLLM = Speech(path="/v1/embeddings", fields=_FIELDS, models={"/v1/models": _MODELS}, answer=_as_openai, refusal=_error)
COMPATIBLE = Speech(
    path="/v1/embeddings", base="/v1", fields=_FIELDS, models={"/v1/models": _MODELS}, answer=_as_openai, refusal=_error
)
TEI = Speech(
    path="/v1/embeddings",
    fields=_FIELDS,
    max_texts=32,
    models={"/info": {"model_id": "BAAI/bge-m3", "max_input_length": 8192, "max_client_batch_size": 32}},
    answer=_as_openai,
    refusal=lambda _, said: web.json_response({"error": said, "error_type": "Validation"}, status=413),
    too_long="`inputs` must have less than 512 tokens. Given: 900",
)
OLLAMA = Speech(
    path="/api/embed",
    fields=frozenset({"model", "input", "truncate", "dimensions", "options", "keep_alive"}),
    needed={"truncate": (False,)},
    answer=_as_ollama,
    refusal=_says("error"),
    too_long="the input length exceeds the context length",
)
VOYAGE = Speech(
    path="/v1/embeddings",
    base="/v1",
    fields=frozenset({"model", "input", "input_type", "truncation", "output_dimension", "encoding_format"}),
    needed={"input_type": ("query", "document"), "truncation": (False,)},
    dimensions="output_dimension",
    role="input_type",
    max_texts=1000,
    answer=_as_openai,
    refusal=_says("detail"),
    too_long="The example at index 0 in your batch has too many tokens and does not fit into the context window.",
)
COHERE = Speech(
    path="/v2/embed",
    fields=frozenset({"model", "texts", "input_type", "embedding_types", "truncate", "output_dimension"}),
    needed={"input_type": ("search_query", "search_document"), "embedding_types": (["float"],)},
    dimensions="output_dimension",
    role="input_type",
    max_texts=96,
    answer=_as_cohere,
    refusal=_says("message"),
    too_long="too many tokens: the text has 900 tokens",
)
JINA = Speech(
    path="/v1/embeddings",
    base="/v1",
    fields=frozenset({"model", "input", "task", "embedding_type", "dimensions", "truncate"}),
    needed={"task": ("retrieval.query", "retrieval.passage")},
    role="task",
    max_texts=512,
    answer=_as_openai,
    refusal=_says("detail"),
    too_long="Input text exceeds maximum length of 8194 tokens",
)
SPEECHES = {
    "openai": OPENAI,
    "openai-compatible": COMPATIBLE,
    "ollama": OLLAMA,
    "voyage": VOYAGE,
    "cohere": COHERE,
    "jina": JINA,
    "tei": TEI,
    "vllm": VLLM,
}
"""By the service's name."""


@dataclass(slots=True)
class OpenAIServer:
    """A server, running within ``async with``; vectors are those of ``hashed_vector``, and ``SimLLM`` answers chats.

    Each request takes the next of ``faults``, if one is left, and is answered properly otherwise.
    """

    dimensions: int = 64
    """The dimensions of the vectors, if a request names none."""
    float_lists: bool = False
    """Answer with lists of numbers even when base64 is asked for, as some servers do."""
    speaks: Speech = OPENAI
    """The service that it stands for."""
    max_text_bytes: int | None = None
    """Refuse longer texts the way the API refuses too many tokens."""
    forms: frozenset[str] = frozenset({"json_schema", "json_object", "text"})
    """The forms of answer that chats take; the others are refused."""
    faults: deque[Fault] = field(default_factory=deque)
    received: list[Received] = field(default_factory=list)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client goes away before it is answered."""
    open_gate: asyncio.Event = field(default_factory=asyncio.Event)
    """Received requests wait until it is set; it is set at the start."""
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
        app.router.add_post(self.speaks.path, partial(self._serve, answer))
        for path, retrieved in self.speaks.models.items():
            app.router.add_get(path, partial(_tell, retrieved))
        app.router.add_post("/v1/chat/completions", partial(self._serve, chat))
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}{self.speaks.base}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening and close all connections."""
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
        dimensions = body.get(self.speaks.dimensions, self.dimensions)
        # A service with an input type puts its own prefix before a text.
        before = body.get(self.speaks.role, "")
        vectors = [hashed_vector(f"{before} {text}" if before else text, dimensions) for text in texts_of(body)]
        if body.get("encoding_format") == "base64" and not self.float_lists:
            numbers: list[Any] = [base64.b64encode(vector.astype("<f4").tobytes()).decode() for vector in vectors]
        else:
            numbers = [vector.tolist() for vector in vectors]
        return [{"object": "embedding", "index": i, "embedding": n} for i, n in enumerate(numbers)]


async def _tell(retrieved: object, _: web.Request) -> web.Response:
    return web.json_response(retrieved)


async def answer(server: OpenAIServer, _: web.Request, body: dict[str, Any]) -> web.Response:
    """The answer of a healthy server."""
    limit, speaks, texts = server.max_text_bytes, server.speaks, texts_of(body)
    if unknown := set(body) - speaks.fields:
        return _error(400, f"unknown fields {sorted(unknown)}")
    if wrong := [name for name, value in speaks.needed.items() if body.get(name) not in value]:
        return _error(400, f"{wrong} missing or wrong")
    if len(texts) > speaks.max_texts:
        return _error(413, f"batch size {len(texts)} > maximum allowed batch size {speaks.max_texts}")
    if limit is not None and any(len(text.encode()) > limit for text in texts):
        return speaks.refusal(400, speaks.too_long)
    if any(text == "" for text in texts):
        return _error(400, "'$.input' is invalid. Please check the API reference.")
    # The client's loop is the server's, and is measured by tests: nothing long runs on it.
    text = await asyncio.to_thread(lambda: _written(speaks.answer(body, server.rows(body))))
    return web.Response(text=text, content_type="application/json")


def _written(value: object) -> str:
    """The value as JSON, number by number: ``json.dumps`` lets no other thread run until its end."""
    return "".join(json.JSONEncoder().iterencode(value))


async def chat(server: OpenAIServer, _: web.Request, body: dict[str, Any]) -> web.Response:
    """The chat answer of a healthy server."""
    form = body.get("response_format", {"type": "text"})
    if form["type"] not in server.forms:
        return _error(400, f"'response_format' of type '{form['type']}' is not supported with this model.")
    *before, prompt = (message["content"] for message in body["messages"])
    schema = form["json_schema"]["schema"] if form["type"] == "json_schema" else _schema_of(" ".join(before))
    model = SimLLM()
    if schema is None:
        return _chat(body, content=await model.complete(prompt))
    return _chat(body, content=json.dumps(await model.complete_json(prompt, schema)))


def _schema_of(instructions: str) -> dict[str, Any] | None:
    """The schema that the instructions end with, if they do."""
    _, mark, schema = instructions.partition("JSON schema: ")
    return json.loads(schema) if mark else None


def chat_answer(content: object, *, finish_reason: str = "stop", **message: object) -> Fault:
    """A chat's answer with that content; ``message`` has its other members."""

    async def fault(_: OpenAIServer, __: web.Request, body: dict[str, Any]) -> web.Response:
        return _chat(body, finish_reason, content=content, **message)

    return fault


def _chat(body: dict[str, Any], finish_reason: str = "stop", **message: object) -> web.Response:
    choice = {"index": 0, "finish_reason": finish_reason, "message": {"role": "assistant", **message}}
    tokens = sum(len(message["content"].split()) for message in body["messages"])
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
    return await _without_end(request, 200)


async def endless_refusal(_: OpenAIServer, request: web.Request, __: dict[str, Any]) -> web.StreamResponse:
    """Refuse the key, and go on for as long as somebody listens."""
    return await _without_end(request, 401)


async def _without_end(request: web.Request, code: int) -> web.StreamResponse:
    response = web.StreamResponse(status=code, headers={"Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(b'{"choices": [{"message": {"content": "')
    while True:
        await response.write(b"and so on " * 1000)


def _vectors(body: dict[str, Any], rows: list[dict[str, Any]]) -> web.Response:
    return web.json_response(_as_openai(body, rows))
