"""The server over streamable HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Sequence

import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from retrieval.surfaces.listening import Listening
from retrieval.surfaces.mcp.address import PATH, check_exposure, protection
from retrieval.surfaces.mcp.bearer import BearerToken

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
