"""Runs the server: over standard input and output for one client, or over HTTP for many."""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from anyio import BrokenResourceError
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retrieval.domain.errors import ConfigurationError, DatabaseError, RetrievalError
from retrieval.settings import Settings
from retrieval.surfaces.http.problems import AuthenticationError, RateLimitedError
from retrieval.surfaces.listening import bracketed, is_local, is_unspecified, listening_socket, server_of, url_of
from retrieval.surfaces.mcp.failures import failure_line
from retrieval.surfaces.mcp.served import CALLER, Offer, Served
from retrieval.surfaces.mcp.server import ANSWER_SECONDS, RetrievalServer

if TYPE_CHECKING:
    from retrieval.surfaces.http.authentication import KeyGate

_log = logging.getLogger(__name__)

PATH = "/mcp"
_LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The address at which a server listens: a host, a port (0: a free one), and further host names of clients."""

    host: str = "127.0.0.1"
    port: int = 8765
    names: Sequence[str] = ()
    asks_keys: bool = False
    """Whether clients send API keys, which determine their tenant and their rights."""


def check_exposure(address: ServerAddress, token: str | None) -> None:
    """Refuse to be reachable from other machines without a token or keys. Raises ``ConfigurationError``."""
    if token is None and not address.asks_keys and not is_local(address.host):
        raise ConfigurationError(
            f"anyone who can reach {address.host} could read and change stored data: set RETRIEVAL_MCP_TOKEN to a "
            "secret that clients then send, require API keys with --keys, or listen on 127.0.0.1"
        )


def protection(host: str, more: Sequence[str]) -> TransportSecuritySettings:
    """Refuses other host names than the server's, against DNS rebinding by web pages.

    A server that listens on every address does not know its names unless they are given; without them only the token
    that it then requires keeps such pages out.
    """
    everywhere = is_unspecified(host)
    if everywhere and not more:
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    names = dict.fromkeys([*_LOCAL_NAMES, *([] if everywhere else [bracketed(host)]), *more])
    hosts = [form for name in names for form in (name, f"{name}:*")]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{form}" for form in hosts for scheme in ("http", "https")],
    )


CHECK_SECONDS = 1.0
"""The seconds after which the key of a stream of events is checked again."""


class Bearers:
    """Admits requests with the server's token or an API key as ``Authorization: Bearer``; refuses others with 401.

    A request with the token acts as the server's own user. A session that began with a key belongs to that key only.
    """

    def __init__(self, app: ASGIApp, token: str | None = None, gate: KeyGate | None = None) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of ASGI."""
        headers = Headers(scope=scope)
        if scope["type"] != "http" or self._has_token(headers.get("authorization", "")):
            await self._app(scope, receive, send)
            return
        try:
            if self._gate is None:
                raise AuthenticationError
            caller, _ = await self._gate.caller(headers)
        except RetrievalError as error:
            await _refusal(error, asks_keys=self._gate is not None)(scope, receive, send)
            return
        # The SDK lets only the user who began a session use it.
        bearer = AccessToken(token="", client_id=caller.key_id, scopes=sorted(caller.scopes))
        scope["user"] = AuthenticatedUser(bearer)
        reset = CALLER.set(caller)
        try:
            if scope["method"] == "GET":
                await self._stream(self._gate, scope, receive, send)
            else:
                await self._app(scope, receive, send)
        finally:
            CALLER.reset(reset)

    async def _stream(self, gate: KeyGate, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a stream of events, which its client may keep open for days, until its key is no longer valid."""
        serving = asyncio.ensure_future(self._app(scope, receive, send))
        try:
            while not (await asyncio.wait([serving], timeout=CHECK_SECONDS))[0]:
                with suppress(DatabaseError):
                    await gate.key(Headers(scope=scope))
        except AuthenticationError:
            serving.cancel()
            await asyncio.wait([serving])
            await send({"type": "http.response.body", "body": b""})
        else:
            await serving
        finally:
            serving.cancel()

    def _has_token(self, header: str) -> bool:
        if self._token is None:
            return False
        scheme, _, sent = header.partition(" ")
        # In constant time, so that the token cannot be guessed byte by byte.
        return hmac.compare_digest(sent.strip().encode(), self._token) and scheme.lower() == "bearer"


def _refusal(error: RetrievalError, *, asks_keys: bool) -> JSONResponse:
    if isinstance(error, AuthenticationError):
        wanted = "<API key>; make one with: retrieval keys create NAME" if asks_keys else "<RETRIEVAL_MCP_TOKEN>"
        what = "an API key" if asks_keys else "a token"
        said = f"{what} is needed: send the header Authorization: Bearer {wanted}"
        return _error(said, 401, {"WWW-Authenticate": "Bearer"})
    if isinstance(error, RateLimitedError):
        return _error(str(error), 429, error.headers)
    _log.warning("a key could not be looked up: %s", error)
    return _error(failure_line(error), 503, {"Retry-After": "1"})


def _error(message: str, status: int, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """A refusal as an error of the protocol: clients show its message, and of other bodies nothing."""
    body = JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=INVALID_REQUEST, message=message))
    return JSONResponse(body.model_dump(by_alias=True, exclude_unset=True), status, headers)


_REMEDIES = {
    421: "the URL has a host name that is not the server's; let the user start it with: retrieval mcp --name HOST",
    404: f"there is nothing at the path of the URL; give one that ends in {PATH}",
    403: "the server refuses requests from pages of this origin; let the user start it with: retrieval mcp --name HOST",
}


_NO_MESSAGE = "the body is not a message of JSON-RPC 2.0: an object with jsonrpc, method, params and, for a request, id"


def with_readable_refusals(app: ASGIApp) -> ASGIApp:
    """The app, but with an error of the protocol on one line where the SDK refuses with plain text or with several."""

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        start: Message | None = None
        text = b""

        async def readable(message: Message) -> None:
            nonlocal start, text
            if message["type"] == "http.response.start" and message["status"] >= HTTPStatus.BAD_REQUEST:
                start = message
            elif start is None:
                await send(message)
            else:
                text += message.get("body", b"")
                if message.get("more_body"):
                    return
                if line := _refusal_line(start, text):
                    await _error(line, start["status"])(scope, receive, send)
                else:
                    await send(start)
                    await send({**message, "body": text})

        await app(scope, receive, readable)

    return served


def _refusal_line(start: Message, text: bytes) -> str | None:
    """The line in place of a refusal of the SDK; None: it is an error of the protocol on one line."""
    if Headers(raw=start["headers"]).get("content-type") != "application/json":
        return _REMEDIES.get(start["status"]) or text.decode()
    return _NO_MESSAGE if b"Validation error: " in text else None


STOP_SECONDS = math.ceil(ANSWER_SECONDS) + 2
"""The seconds that calls under way, and then connections, may take to end when the server stops."""


def http_app(server: MCPServer, address: ServerAddress, *, token: str | None, gate: KeyGate | None = None) -> ASGIApp:
    """The protocol at ``/mcp``.

    Its sessions live in ``server.session_manager.run()``. Raises ``ConfigurationError`` if other machines could reach
    it without a token or keys.
    """
    check_exposure(address, token)
    rules = protection(address.host, address.names)
    app = with_readable_refusals(
        server.streamable_http_app(streamable_http_path=PATH, host=address.host, transport_security=rules)
    )
    return app if token is None and gate is None else Bearers(app, token, gate)


class UntilStopped:
    """Finishes the requests that began before the stop, and refuses later ones with status 503."""

    def __init__(self, app: ASGIApp, stop: asyncio.Event) -> None:
        self._app, self._stop = app, stop
        self._under_way: set[asyncio.Task[object]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if self._stop.is_set():
            ends = _error("the server is ending; try again in a moment", 503, {"Retry-After": "1"})
            await ends(scope, receive, send)
            return
        if scope["type"] == "http" and scope["method"] == "GET":
            # A stream of events ends only with its session.
            await self._app(scope, receive, send)
            return
        if task := asyncio.current_task():
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        await self._app(scope, receive, send)

    async def drained(self, seconds: float) -> None:
        """Return once no request is in flight, or after ``seconds``."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=seconds)


async def serve_http(server: MCPServer, app: ASGIApp, listener: socket.socket, stop: asyncio.Event) -> None:
    """Serve the server's app on the socket until the stop."""
    served = UntilStopped(app, stop)
    listening = server_of(served, timeout_graceful_shutdown=STOP_SECONDS)
    # The sessions end before the connections, so that the streams of events which clients keep open end by themselves.
    async with server.session_manager.run():
        serving = asyncio.create_task(listening.serve(sockets=[listener]))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        listening.should_exit = True
        await served.drained(STOP_SECONDS)
    await serving


async def run_stdio(settings: Settings, offer: Offer, stop: asyncio.Event) -> bool:
    """Serve the client at standard input until the client closes it, or until the stop.

    Returns whether the client closed standard input or output. If not, a thread is still blocked in a read, and only
    ending the process ends it; the database is closed.
    """
    async with Served(settings, offer) as served:
        serving = asyncio.create_task(RetrievalServer(served).run_stdio_async())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
    if not serving.done():
        return False
    try:
        await serving
    except* (BrokenPipeError, BrokenResourceError):
        _log.info("the client has closed its end of standard output")
    return True


async def run_http(
    settings: Settings, offer: Offer, address: ServerAddress, stop: asyncio.Event, announce: Callable[[str], None]
) -> None:
    """Serve clients over HTTP until the stop; ``announce`` is called with the URL.

    Raises ``ConfigurationError`` if it cannot listen, or if others could reach it without a token or keys.
    """
    served = Served(settings, offer)
    server = RetrievalServer(served)
    async with AsyncExitStack() as stack:
        gate = None
        if address.asks_keys:
            # Loaded here: a client that starts the server waits for everything that is loaded.
            from retrieval.surfaces.http.authentication import gate_of

            gate = gate_of(served)
            stack.push_async_callback(gate.aclose)
        token = None if settings.mcp_token is None else settings.mcp_token.get_secret_value()
        app = http_app(server, address, token=token, gate=gate)
        with listening_socket(address.host, address.port) as listener:
            announce(url_of(listener, PATH))
            async with served:
                await serve_http(server, app, listener, stop)
