"""A run of the service: from the socket that it listens on to the last answer that it owes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import socket
import sys
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI

from retrieval.domain.errors import ConfigurationError, RetrievalError
from retrieval.settings import Settings
from retrieval.surfaces.http.app import create_app
from retrieval.surfaces.http.connection import Connection
from retrieval.surfaces.http.service import Service
from retrieval.surfaces.listening import is_local, listening, server_of, url_of

KEEP_ALIVE_SECONDS = 75
"""How long an idle connection stays open: longer than clients and proxies keep theirs, so that they close it."""

SWITCH_SECONDS = 0.001
"""How long a thread that computes keeps the interpreter from the event loop; Python's own 5 ms add up."""

LAST_ANSWERS_SECONDS = 2
"""How much longer than a request may take the last ones may take, once the service is told to end."""


def check_exposure(host: str, *, insecure_local: bool) -> None:
    """Refuse to serve other machines without keys. Raises ``ConfigurationError``."""
    if insecure_local and not is_local(host):
        raise ConfigurationError(
            f"whoever reaches {host} could read and change everything: leave out --insecure-local and make keys with "
            "retrieval keys create, or listen on 127.0.0.1"
        )


async def run_service(
    settings: Settings,
    host: str,
    port: int,
    stop: asyncio.Event,
    announce: Callable[[str], None],
    *,
    insecure_local: bool = False,
) -> None:
    """Serve clients until the stop, and then those that are being answered; ``announce`` is told the URL.

    Port 0 takes a free one. Raises ``ConfigurationError`` where it cannot listen, or where the settings cannot work;
    while the database is away it serves, and says so.
    """
    check_exposure(host, insecure_local=insecure_local)
    app = create_app(settings, insecure_local=insecure_local)
    with listening(host, port) as listener:
        async with app.router.lifespan_context(app):
            announce(url_of(listener))
            await serve(app, listener, stop)


async def serve(app: FastAPI, listener: socket.socket, stop: asyncio.Event) -> None:
    """Serve the open application on the socket until the stop, or until it is known that its settings cannot work."""
    service: Service = app.state.service
    _make_way()
    server = server_of(_config(app, service.settings))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    stopping, failing = asyncio.create_task(stop.wait()), asyncio.create_task(_failure(service))
    try:
        await asyncio.wait([serving, stopping, failing], return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        await serving
        if failing.done():
            raise failing.result()
    finally:
        for task in (stopping, failing):
            task.cancel()


def _make_way() -> None:
    """Have the loop answer soon while others work: what is loaded is no garbage, and threads give way sooner.

    A full collection looks at every object while nothing else runs; those of the modules are most of them.
    """
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(SWITCH_SECONDS)


async def _failure(service: Service) -> ConfigurationError:
    """The error of settings that cannot work; it waits for ever for those that can."""
    with contextlib.suppress(RetrievalError):
        try:
            await service.host()
        except ConfigurationError as error:
            return error
    await asyncio.Event().wait()
    raise AssertionError


def _config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        # Logging is the program's, and so are the loop and the life of the application.
        log_config=None,
        lifespan="off",
        loop="none",
        access_log=False,
        server_header=False,
        http=Connection,
        ws="none",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=math.ceil(settings.http_deadline_seconds) + LAST_ANSWERS_SECONDS,
    )
