"""The application: its routes, the middleware around them, and running it on a socket."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.util
import logging
import math
import re
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.telemetry import TelemetryConfig
from opentelemetry import propagate
from opentelemetry.trace import Span, SpanKind
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from retrieval.adapters.tracing import span, tracer
from retrieval.domain.errors import ConfigurationError, RetrievalError
from retrieval.domain.items.embedding import Embedder
from retrieval.domain.llm import LLM
from retrieval.settings import Settings
from retrieval.surfaces.http import limits
from retrieval.surfaces.http.admission import OPEN_PATHS, Access
from retrieval.surfaces.http.answers import on_error, on_invalid, on_status
from retrieval.surfaces.http.caller import CALLER, Service
from retrieval.surfaces.http.connection import Connection, Exchange
from retrieval.surfaces.http.json_bodies import LARGE_AT_ONCE, path_of_names
from retrieval.surfaces.http.openapi import ABOUT, TAGS, DescribedAPI, add_front
from retrieval.surfaces.http.problems import MisdirectedError, OverloadedError, problem_type
from retrieval.surfaces.http.readiness import ReadinessCheck
from retrieval.surfaces.http.routes import (
    collections,
    documents,
    installation,
    items,
    learning,
    memories,
    profiles,
    search,
    tickets,
)
from retrieval.surfaces.http.telemetry import HEADER, request_id_of, reset_request_id, set_request_id
from retrieval.surfaces.listening import installed_version, is_local, listening_socket, server_of, url_of
from retrieval.surfaces.tenants import begin_holding, give_back

ACCESS = logging.getLogger("retrieval.access")
"""Logs a line for each request; requests of ``_QUIET`` on the level DEBUG."""

HUNG_UP = 499
"""The status, in metrics and logs, of a request whose client disconnected before the response."""

_QUIET = frozenset({"/livez", "/readyz", "/metrics"})


class Frame:
    """ASGI middleware that does everything around a request's route in one pass.

    It assigns the request an id and room among the concurrent requests, refuses it if there is no room, starts
    its deadline, checks its API key, sends the response, and counts and logs the outcome.
    """

    def __init__(self, app: ASGIApp, *, access: Access) -> None:
        self._app = app
        self._access = access
        self._load, self._metrics = access.service.load, access.service.metrics
        self._settings = access.service.settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange, began = Exchange(scope, receive, send), time.perf_counter()
        request_id = request_id_of(exchange.sent_headers.get(HEADER))
        exchange.headers.append((HEADER, request_id.encode()))
        token = set_request_id(request_id)
        try:
            if tracer() is None:
                await self._serve_with_room(exchange, scope)
            else:
                # The span belongs to the trace in the caller's ``traceparent``, if there is one.
                parent = propagate.extract(
                    {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
                )
                with span(scope["method"], SpanKind.SERVER, parent) as current:
                    await self._serve_with_room(exchange, scope)
                    if current is not None:
                        _describe(current, scope, exchange.status or HUNG_UP, request_id)
        finally:
            self._record(exchange, scope, request_id, time.perf_counter() - began)
            reset_request_id(token)

    async def _serve_with_room(self, exchange: Exchange, scope: Scope) -> None:
        if scope["path"] in OPEN_PATHS:
            # Requests for the state of the service need no room: they are served however busy it is.
            await self._respond(exchange, scope, None)
        elif room := self._load.enter():
            exchange.on_start = room.leave
            begin_holding(scope)
            try:
                await self._respond(exchange, scope, room)
            finally:
                room.leave()
                give_back(scope)
        else:
            await exchange.refuse(OverloadedError())

    async def _respond(self, exchange: Exchange, scope: Scope, room: limits.RequestRoom | None) -> None:
        """Respond within the time limit; every error is caught here."""
        try:
            limit = limits.most_body_bytes(scope, self._settings)
            limits.check_length(exchange.sent_headers.get(b"content-length"), limit)
            seconds = limits.most_seconds(exchange.sent_headers.get(limits.TIMEOUT_HEADER), self._settings)
            async with exchange.limit(seconds=seconds, body_bytes=limit, is_stream=limits.goes_on(scope)):
                if self._access.is_open:
                    check_local(scope)
                if room is None:
                    await self._route(scope, exchange.receive, exchange.send)
                else:
                    await self._access.serve(self._route, scope, exchange, room)
        except ClientDisconnect:
            pass  # in the middle of the body: nobody to respond to
        except Exception as error:  # noqa: BLE001 - see above
            is_late = isinstance(error, TimeoutError) and exchange.is_late
            await (exchange.refuse_late() if is_late else exchange.refuse(error))

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        inner = scope
        if (path := path_of_names(scope)) is not None:
            inner = {**inner, "path": path}
        if scope["method"] == "HEAD":  # the server sends no body
            inner = {**inner, "method": "GET"}
        try:
            await self._app(inner, receive, send)
        finally:
            scope["route"] = inner.get("route")

    def _record(self, exchange: Exchange, scope: Scope, request_id: str, seconds: float) -> None:
        method, route, status = scope["method"], route_of(scope), exchange.status or HUNG_UP
        refusal = None if exchange.refusal is None else problem_type(type(exchange.refusal)).name
        self._metrics.answered(method, route, status, seconds)
        level = logging.DEBUG if scope["path"] in _QUIET else logging.INFO
        if ACCESS.isEnabledFor(level):
            caller = scope.get("state", {}).get(CALLER)
            fields: dict[str, Any] = {
                "method": method,
                "route": route or None,
                "status": status,
                "refusal": refusal,
                "ms": round(seconds * 1e3, 1),
                "request_id": request_id,
                "tenant": getattr(caller, "tenant", None),
                "key_id": getattr(caller, "key_id", None) or None,
            }
            # A request that is refused before its route is looked up has none, and its path may hold names.
            where = route or (f"(refused: {refusal})" if refusal else "(no route)")
            ACCESS.log(level, "%s %s %d", method, where, status, extra={"fields": fields})


_HOST = re.compile(r"(?:https?://)?(?P<host>\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z.-]+)(?::[0-9]*)?")
"""The strict form of a host or an origin, because parsers disagree about ``a@b`` and ``a/b``."""


def check_local(scope: Scope) -> None:
    """Raise ``MisdirectedError`` for a request that names another host, or that a page of another host sent.

    This refuses DNS rebinding: a foreign host's name may resolve to this machine, but the browser still sends the name.
    """
    headers = Headers(scope=scope)
    hosts, origins = headers.getlist("host"), headers.getlist("origin")
    if len(hosts) != 1 or len(origins) > 1 or not all(map(_names_this_machine, (*hosts, *origins))):
        raise MisdirectedError(
            "this service accepts only requests from this machine, and none from pages of other hosts: call it as "
            "127.0.0.1 or localhost"
        )


@lru_cache(maxsize=64)
def _names_this_machine(host: str) -> bool:
    match = _HOST.fullmatch(host)
    return match is not None and is_local(match["host"].strip("[]"))


def route_of(scope: Scope) -> str:
    """The template of the route, such as ``/v1/collections/{name}``; empty if none matched."""
    return getattr(scope.get("route"), "path", "")


def _describe(span: Span, scope: Scope, status: int, request_id: str) -> None:
    route = route_of(scope)
    span.update_name(f"{scope['method']} {route}" if route else scope["method"])
    span.set_attributes(
        {
            "http.request.method": scope["method"],
            "http.response.status_code": status,
            "url.scheme": scope.get("scheme", "http"),
            "retrieval.request_id": request_id,
            **({"http.route": route} if route else {}),
            **({"error.type": str(status)} if status >= 500 else {}),
        }
    )


_NO_TELEMETRY: TelemetryConfig = {
    "tracing": False, "metrics": False, "logs": False, "operation_spans": False, "auto_configure": False,
}  # fmt: skip
"""FastAPI's own telemetry would put query strings and error messages into traces: see ``telemetry``."""


_ROUTERS = (
    search.router, collections.router, collections.named, items.router, documents.router, memories.router,
    learning.feedback_router, learning.router, learning.actors_router, search.in_collection, search.retrievals_router,
    profiles.router, installation.reembedding_router, installation.figures_router, tickets.router,
    installation.health_router,
)  # fmt: skip
"""The routers, in the order in which they are tried and listed by OpenAPI: the most frequent requests first."""


def has_console(settings: Settings) -> bool:
    """Whether the console is enabled and the libraries of its extra are installed."""
    return settings.http_console and all(
        importlib.util.find_spec(name) is not None for name in ("htpy", "python_multipart")
    )


def create_app(
    settings: Settings, *, embedder: Embedder | None = None, llm: LLM | None = None, insecure_local: bool = False
) -> FastAPI:
    """The ASGI application; it opens the platform when it starts and closes it when it ends.

    With ``insecure_local`` it needs no API keys, and serves only requests from this machine.
    """
    service = Service(settings, embedder=embedder, llm=llm)
    access = Access(service, insecure_local=insecure_local)

    @asynccontextmanager
    async def opened(_app: FastAPI) -> AsyncIterator[None]:
        async with service, contextlib.aclosing(access):
            yield

    app = DescribedAPI(
        title="Retrieval",
        description=ABOUT,
        openapi_tags=TAGS,
        version=installed_version() or "0",
        lifespan=opened,
        redirect_slashes=False,
        # See ``add_front``: FastAPI's own pages load scripts from other hosts.
        docs_url=None,
        redoc_url=None,
        telemetry=_NO_TELEMETRY,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.service = service
    app.state.insecure_local = insecure_local
    app.state.readiness = ReadinessCheck(service)
    app.state.large = asyncio.Semaphore(LARGE_AT_ONCE)
    for router in _ROUTERS:
        app.include_router(router)
    is_shown = has_console(settings)
    add_front(app, needs_key=not insecure_local, has_console=is_shown)
    app.add_exception_handler(RetrievalError, on_error)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_status)
    # The middleware that is added last is the outermost.
    app.add_middleware(Frame, access=access)
    if settings.http_cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.http_cors_origins,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["*"],
            expose_headers=["*"],
            max_age=600,
        )
    if is_shown:
        from retrieval.surfaces.console import ConsoleDoor, add_views

        add_views(app, access)
        app.add_middleware(ConsoleDoor)
    return app


KEEP_ALIVE_SECONDS = 75
"""The seconds that an idle connection stays open: longer than in clients and proxies, so that they close it first."""

SWITCH_SECONDS = 0.001
"""The seconds that another thread may hold the interpreter before the event loop runs; Python's 5 ms add up."""

YOUNG_OBJECTS = 50_000
"""The number of new objects after which the garbage collector runs: more than the requests in flight hold.

Requests create no reference cycles; with Python's default of 700 the collector would run ten times per search.
"""

LAST_ANSWERS_SECONDS = 2
"""The seconds beyond its deadline that a last request may take when the service shuts down."""


def check_exposure(host: str, *, insecure_local: bool) -> None:
    """Refuse to serve other machines without keys. Raises ``ConfigurationError``."""
    if insecure_local and not is_local(host):
        raise ConfigurationError(
            f"anyone who can reach {host} could read and change everything: leave out --insecure-local and create keys "
            "with retrieval keys create, or listen on 127.0.0.1"
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
    """Serve until ``stop`` is set, and finish the requests in flight; ``announce`` is called with the URL.

    Port 0 takes a free port. Raises ``ConfigurationError`` if it cannot listen, or if the settings do not work. While
    the database is unavailable it responds with 503.
    """
    check_exposure(host, insecure_local=insecure_local)
    app = create_app(settings, insecure_local=insecure_local)
    with listening_socket(host, port) as listener:
        async with app.router.lifespan_context(app):
            announce(url_of(listener))
            await serve(app, listener, stop)


async def serve(app: FastAPI, listener: socket.socket, stop: asyncio.Event) -> None:
    """Serve the open application on the socket until ``stop`` is set, or until its settings turn out not to work."""
    service: Service = app.state.service
    _tune_interpreter()
    server = server_of(
        app,
        loop="none",
        http=Connection,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=math.ceil(service.settings.http_deadline_seconds) + LAST_ANSWERS_SECONDS,
    )
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    stopping, failing = asyncio.create_task(stop.wait()), asyncio.create_task(_failure(service))
    try:
        await asyncio.wait([serving, stopping, failing], return_when=asyncio.FIRST_COMPLETED)
        service.stopping.set()
        server.should_exit = True
        await serving
        if failing.done():
            raise failing.result()
    finally:
        for task in (stopping, failing):
            task.cancel()


def _tune_interpreter() -> None:
    """Keep the event loop responsive: exempt loaded modules from garbage collection, and switch threads sooner.

    A full garbage collection visits every object while nothing else runs, and most objects belong to modules.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
    sys.setswitchinterval(SWITCH_SECONDS)


async def _failure(service: Service) -> ConfigurationError:
    """Returns the error of settings that do not work; waits forever if they work."""
    with contextlib.suppress(RetrievalError):
        try:
            await service.host()
        except ConfigurationError as error:
            return error
    await asyncio.Event().wait()
    raise AssertionError
