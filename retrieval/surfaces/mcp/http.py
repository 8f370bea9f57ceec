"""The server over streamable HTTP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.types import ASGIApp

from retrieval.surfaces.listening import Listening
from retrieval.surfaces.mcp.address import PATH, check_exposure, protection
from retrieval.surfaces.mcp.bearer import BearerToken

LAST_ANSWERS_SECONDS = 5
"""How long the connections may take to close once the server is told to end."""


def http_app(server: MCPServer, host: str, *, token: str | None, names: Sequence[str] = ()) -> ASGIApp:
    """The protocol at ``/mcp``; ``names`` are those that clients call this machine by, besides ``host``.

    Its sessions live in ``server.session_manager.run()``. Raises ``ConfigurationError`` where other machines could
    reach it without a token.
    """
    check_exposure(host, token)
    app = server.streamable_http_app(streamable_http_path=PATH, host=host, transport_security=protection(host, names))
    return app if token is None else BearerToken(app, token)


async def serve_http(server: MCPServer, app: ASGIApp, listener: socket.socket, stop: asyncio.Event) -> None:
    """Serve the app of the server on the socket until the stop."""
    listening = Listening(
        uvicorn.Config(
            app,
            # Logging is the program's, and so is the life of the sessions: see below.
            log_config=None,
            lifespan="off",
            access_log=False,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=LAST_ANSWERS_SECONDS,
        )
    )
    # The sessions end first, so that the streams of events which clients keep open end by themselves.
    async with server.session_manager.run():
        serving = asyncio.create_task(listening.serve(sockets=[listener]))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        listening.should_exit = True
    await serving
