"""A server's socket and URL, a uvicorn server without signal handlers, and the version of the package."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import ipaddress
import os
import socket
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from retrieval.adapters.extras import DISTRIBUTION
from retrieval.domain.errors import ConfigurationError

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

_BACKLOG = 1024
"""Connections that may wait to be accepted, so that a burst of clients is answered, if only with a refusal."""


def new_loop() -> asyncio.AbstractEventLoop:
    """The fastest event loop that is installed."""
    if importlib.util.find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()


def server_of(app: ASGIApp, **options: Any) -> uvicorn.Server:
    """An HTTP server with further ``options`` of uvicorn, which the extras of servers install.

    It leaves signals, logging, and opening and closing the application to the program.
    """
    # Imported here: the command line also imports this module, and works without any extra.
    import uvicorn

    class Listening(uvicorn.Server):
        """Handles no signals: uvicorn's handlers would end the process before the database is closed."""

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    config = uvicorn.Config(
        app, log_config=None, lifespan="off", access_log=False, server_header=False, ws="none", **options
    )
    return Listening(config)


def is_local(host: str) -> bool:
    """Whether only this machine can reach the address; a host name counts as reachable by others."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_unspecified(host: str) -> bool:
    """Whether the address stands for every address of this machine."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 takes a free one. Raises ``ConfigurationError``."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, UnicodeError) as error:
        # The message of ``create_server`` names the address again.
        number, said = getattr(error, "errno", None), getattr(error, "strerror", None)
        reason = os.strerror(number) if number and number > 0 else said or "no host has that name"
        raise ConfigurationError(
            f"cannot listen on {host} port {port} ({reason}); name another with --host and --port"
        ) from error


def url_of(listener: socket.socket, path: str = "") -> str:
    """The URL of the server for a client on this machine."""
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = "127.0.0.1"
    return f"http://{bracketed(host)}:{port}{path}"


def bracketed(host: str) -> str:
    """The host as written in a URL."""
    return f"[{host}]" if ":" in host else host


def installed_version() -> str | None:
    """The version, such as ``0.1.0``; None if the program runs from its sources without being installed."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return None
