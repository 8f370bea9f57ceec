"""The application: its routes, the middleware around them, and a run of it from the socket to the last answer."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.util
import math
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.telemetry import TelemetryConfig
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from retrieval.domain.errors import ConfigurationError, RetrievalError
from retrieval.domain.items.embedding import Embedder
from retrieval.domain.llm import LLM
from retrieval.settings import Settings
from retrieval.surfaces.http.admission import Access
from retrieval.surfaces.http.answers import on_error, on_invalid, on_status
from retrieval.surfaces.http.authentication import RATE_HEADERS
from retrieval.surfaces.http.caller import Handles
from retrieval.surfaces.http.connection import Connection
from retrieval.surfaces.http.door import Door
from retrieval.surfaces.http.json_bodies import LARGE_AT_ONCE
from retrieval.surfaces.http.limits import Limits
from retrieval.surfaces.http.openapi import add_front, describe, operation_id
from retrieval.surfaces.http.readiness import ReadinessCheck
from retrieval.surfaces.http.routes import ROUTERS
from retrieval.surfaces.http.service import Service
from retrieval.surfaces.listening import installed_version, is_local, listening, server_of, url_of

_NO_TELEMETRY: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}
"""The framework's own would put query strings and what errors say into traces: see ``telemetry``."""


def has_console(settings: Settings) -> bool:
    """Whether the console is on, and the libraries of its extra are there."""
    return settings.http_console and all(
        importlib.util.find_spec(name) is not None for name in ("htpy", "python_multipart")
    )


def create_app(
    settings: Settings, *, embedder: Embedder | None = None, llm: LLM | None = None, insecure_local: bool = False
) -> FastAPI:
    """The application, to be run by a server of ASGI; it opens the platform when it starts and closes it at its end.

    With ``insecure_local`` no key is needed, and only requests of this machine's own are served.
    """
    service = Service(settings, embedder=embedder, llm=llm)
    access = Access(service, insecure_local=insecure_local)

    @asynccontextmanager
    async def opened(_app: FastAPI) -> AsyncIterator[None]:
        async with service, access:
            yield

    app = FastAPI(
        title="Retrieval",
        version=installed_version() or "0",
        lifespan=opened,
        redirect_slashes=False,
        # See ``front``: FastAPI's own pages load their scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        telemetry=_NO_TELEMETRY,
        generate_unique_id_function=operation_id,
    )
    app.state.service = service
    app.state.insecure_local = insecure_local
    app.state.readiness = ReadinessCheck(service)
    app.state.handles = Handles()
    app.state.large = asyncio.Semaphore(LARGE_AT_ONCE)
    describe(app)
    for router in ROUTERS:
        app.include_router(router)
    is_shown = has_console(settings)
    add_front(app, needs_key=not insecure_local, has_console=is_shown)
    if is_shown:
        from retrieval.surfaces.console import add_views

        add_views(app, access)
    app.add_exception_handler(RetrievalError, on_error)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_status)
    _surround(app, access, is_shown=is_shown)
    return app


def _surround(app: FastAPI, access: Access, *, is_shown: bool) -> None:
    """Put around the routes what happens to each request; what is added last is met first."""
    service = access.service
    app.add_middleware(Door, access=access, limits=Limits.of(service.settings))
    if service.settings.http_cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=service.settings.http_cors_origins,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["*"],
            expose_headers=["ETag", "Retry-After", "X-Request-ID", "Idempotency-Replayed", *RATE_HEADERS],
            max_age=600,
        )
    if is_shown:
        from retrieval.surfaces.console.frame import ConsoleDoor

        app.add_middleware(ConsoleDoor)


KEEP_ALIVE_SECONDS = 75
"""How long an idle connection stays open: longer than clients and proxies keep theirs, so that they close it."""

SWITCH_SECONDS = 0.001
"""How long a thread that computes keeps the interpreter from the event loop; Python's own 5 ms add up."""

YOUNG_OBJECTS = 50_000
"""The objects that are made before the garbage collector looks at them: what the requests in flight hold, and more.

No request leaves garbage that only the collector frees; Python's own 700 make it look ten times a search."""

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
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
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
