"""Runs of the server: over standard input and output for one client, over HTTP for many."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from anyio import BrokenResourceError

from retrieval.settings import Settings
from retrieval.surfaces.listening import listening, url_of
from retrieval.surfaces.mcp.address import PATH
from retrieval.surfaces.mcp.http import http_app, serve_http
from retrieval.surfaces.mcp.opening import Opening
from retrieval.surfaces.mcp.server import build_server

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Place:
    """Where to listen: an address, a port (0: a free one), and more names that clients call it by."""

    host: str = "127.0.0.1"
    port: int = 8765
    names: Sequence[str] = ()


async def run_stdio(settings: Settings, collection: str, stop: asyncio.Event) -> bool:
    """Serve the client at standard input until it closes that, or until the stop.

    Tells whether the client closed it, or its end of standard output. If not, a thread still sits in a read that
    nothing ends: end the process then, for the database is closed.
    """
    async with Opening(settings, collection) as opening:
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
    settings: Settings, collection: str, place: Place, stop: asyncio.Event, announce: Callable[[str], None]
) -> None:
    """Serve clients over HTTP until the stop; ``announce`` is told the URL.

    Raises ``ConfigurationError`` where it cannot listen, or where others could reach it without a token.
    """
    token = settings.mcp_token.get_secret_value() if settings.mcp_token is not None else None
    opening = Opening(settings, collection)
    server = build_server(opening)
    app = http_app(server, place.host, token=token, names=place.names)
    with listening(place.host, place.port) as listener:
        announce(url_of(listener, PATH))
        async with opening:
            await serve_http(server, app, listener, stop)
