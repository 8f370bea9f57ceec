"""Runs of the server: over standard input and output for one client, over HTTP for many."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import uvicorn
from anyio import BrokenResourceError
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from retrieval.domain.errors import ConfigurationError
from retrieval.settings import Settings
from retrieval.surfaces.listening import Listening, bracketed, is_local, is_unspecified, listening, url_of
from retrieval.surfaces.mcp.opening import StoreOpening
from retrieval.surfaces.mcp.server import build_server

PATH = "/mcp"
_LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")


def check_exposure(host: str, token: str | None) -> None:
    """Refuse to be reachable from other machines without a token. Raises ``ConfigurationError``."""
    if token is None and not is_local(host):
        raise ConfigurationError(
            f"whoever reaches {host} could read and change the principles: set RETRIEVAL_MCP_TOKEN to a secret that "
            "clients then send, or listen on 127.0.0.1"
        )


def protection(host: str, more: Sequence[str]) -> TransportSecuritySettings:
    """Against pages in a browser that give this address a name of theirs: other names are refused.

    Where the server listens on every address, the names are known only if they are given; without them, the token that
    is needed there keeps such pages out.
    """
    everywhere = not is_local(host) and is_unspecified(host)
    if everywhere and not more:
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    names = dict.fromkeys([*_LOCAL_NAMES, *([] if everywhere else [bracketed(host)]), *more])
    hosts = [form for name in names for form in (name, f"{name}:*")]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{form}" for form in hosts for scheme in ("http", "https")],
    )


class BearerToken:
    """Lets requests through that bear ``Authorization: Bearer <token>``, and answers the others with 401."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of ASGI."""
        if scope["type"] == "http" and not self._is_borne(Headers(scope=scope).get("authorization", "")):
            refusal = JSONResponse(
                {"error": "a token is needed: send the header Authorization: Bearer <RETRIEVAL_MCP_TOKEN>"},
                status_code=401,
                headers={"WWW-Authenticate": "Bearer"},
            )
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_borne(self, header: str) -> bool:
        scheme, _, given = header.partition(" ")
        # In constant time, so that the token cannot be guessed byte by byte.
        return hmac.compare_digest(given.strip().encode(), self._token) and scheme.lower() == "bearer"


LAST_ANSWERS_SECONDS = 5
"""How long answers, and then the connections, may take to end once the server is told to."""


def http_app(server: MCPServer, host: str, *, token: str | None, names: Sequence[str] = ()) -> ASGIApp:
    """The protocol at ``/mcp``; ``names`` are those that clients call this machine by, besides ``host``.

    Its sessions live in ``server.session_manager.run()``. Raises ``ConfigurationError`` where other machines could
    reach it without a token.
    """
    check_exposure(host, token)
    app = server.streamable_http_app(streamable_http_path=PATH, host=host, transport_security=protection(host, names))
    return app if token is None else BearerToken(app, token)


class UntilStopped:
    """Answers what an app was asked before the stop, and what comes later with status 503."""

    def __init__(self, app: ASGIApp, stop: asyncio.Event) -> None:
        self._app, self._stop = app, stop
        self._unanswered = 0
        self._has_answered = asyncio.Event()
        self._has_answered.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if self._stop.is_set():
            ends = PlainTextResponse("the server is ending; try again in a moment", 503, {"Retry-After": "1"})
            await ends(scope, receive, send)
            return
        if scope["type"] == "http" and scope["method"] == "GET":
            # A stream of events has no last answer: it ends with its session.
            await self._app(scope, receive, send)
            return
        self._unanswered += 1
        self._has_answered.clear()
        try:
            await self._app(scope, receive, send)
        finally:
            self._unanswered -= 1
            if not self._unanswered:
                self._has_answered.set()

    async def answered(self, seconds: float) -> None:
        """Return once nothing is left to answer, or after so many seconds."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._has_answered.wait(), seconds)


async def serve_http(server: MCPServer, app: ASGIApp, listener: socket.socket, stop: asyncio.Event) -> None:
    """Serve the app of the server on the socket until the stop."""
    served = UntilStopped(app, stop)
    listening = Listening(
        uvicorn.Config(
            served,
            # Logging is the program's, and so is the life of the sessions: see below.
            log_config=None,
            lifespan="off",
            access_log=False,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=LAST_ANSWERS_SECONDS,
        )
    )
    # The sessions end before the connections, so that the streams of events which clients keep open end by themselves.
    async with server.session_manager.run():
        serving = asyncio.create_task(listening.serve(sockets=[listener]))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        listening.should_exit = True
        await served.answered(LAST_ANSWERS_SECONDS)
    await serving


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServerPlace:
    """The place of a server: an address, a port (0: a free one), and further names that clients use."""

    host: str = "127.0.0.1"
    port: int = 8765
    names: Sequence[str] = ()


async def run_stdio(settings: Settings, collection: str, stop: asyncio.Event) -> bool:
    """Serve the client at standard input until it closes that, or until the stop.

    Tells whether the client closed it, or its end of standard output. If not, a thread still sits in a read that
    nothing ends: end the process then, for the database is closed.
    """
    async with StoreOpening(settings, collection) as opening:
        serving = asyncio.create_task(build_server(opening).run_stdio_async())
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
    settings: Settings, collection: str, place: ServerPlace, stop: asyncio.Event, announce: Callable[[str], None]
) -> None:
    """Serve clients over HTTP until the stop; ``announce`` is told the URL.

    Raises ``ConfigurationError`` where it cannot listen, or where others could reach it without a token.
    """
    token = settings.mcp_token.get_secret_value() if settings.mcp_token is not None else None
    opening = StoreOpening(settings, collection)
    server = build_server(opening)
    app = http_app(server, place.host, token=token, names=place.names)
    with listening(place.host, place.port) as listener:
        announce(url_of(listener, PATH))
        async with opening:
            await serve_http(server, app, listener, stop)
