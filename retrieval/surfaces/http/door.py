"""The door of the service: what happens to each request around its route, in one pass of one middleware.

A request gets an id and a place among those that are answered at once, or is told to come again. Its deadline begins,
its caller is let in, and whatever becomes of it is answered, counted and written as one line of the log.
"""

from __future__ import annotations

import logging
import re
import time
from functools import lru_cache
from typing import Any

from opentelemetry import propagate
from opentelemetry.trace import Span, SpanKind
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from retrieval.adapters.tracing import started, tracer
from retrieval.engine.stopwatch import Clock
from retrieval.surfaces.http.admission import OPEN_PATHS, Access
from retrieval.surfaces.http.connection import Exchange
from retrieval.surfaces.http.json_bodies import path_of_names
from retrieval.surfaces.http.limits import TIMEOUT_HEADER, Limits, RequestRoom, check_length, is_stream
from retrieval.surfaces.http.problems import MisdirectedError, OverloadedError
from retrieval.surfaces.http.telemetry import HEADER, request_id_of, reset_request_id, set_request_id
from retrieval.surfaces.listening import is_local
from retrieval.surfaces.tenants import begin_holding, give_back

ACCESS = logging.getLogger("retrieval.access")
"""One line a request. Operators' own looks are said on the level DEBUG."""

HUNG_UP = 499
"""The status in metrics and logs of a request whose client was gone before there was an answer."""

_QUIET = frozenset({"/livez", "/readyz", "/metrics"})
_LENGTH, _ENCODING = b"content-length", b"transfer-encoding"
_WANTED = frozenset({HEADER, TIMEOUT_HEADER, _LENGTH, _ENCODING})


class Door:
    """Middleware of ASGI around all routes."""

    def __init__(self, app: ASGIApp, *, access: Access, limits: Limits, clock: Clock = time.perf_counter) -> None:
        self._app = app
        self._access = access
        self._load, self._metrics = access.service.load, access.service.metrics
        self._limits = limits
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        found = {name: value for name, value in scope["headers"] if name in _WANTED}
        exchange, request_id, began = Exchange(scope, receive, send), request_id_of(found.get(HEADER)), self._clock()
        exchange.headers.append((HEADER, request_id.encode()))
        token = set_request_id(request_id)
        try:
            if tracer() is None:
                await self._placed(exchange, scope, found)
            else:
                # Within a span of the trace that the caller's ``traceparent`` names, if it names one.
                parent = propagate.extract(
                    {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
                )
                with started(scope["method"], SpanKind.SERVER, parent) as traced:
                    await self._placed(exchange, scope, found)
                    if traced is not None:
                        _describe(traced, scope, exchange.status or HUNG_UP, request_id)
        finally:
            self._tell(scope, exchange.status or HUNG_UP, request_id, self._clock() - began)
            reset_request_id(token)

    async def _placed(self, exchange: Exchange, scope: Scope, found: dict[bytes, bytes]) -> None:
        if scope["path"] in OPEN_PATHS:
            # How the service is has to be told also when there is too much to do; and none of them needs a place.
            await self._answered(exchange, scope, found, None)
        elif room := self._load.enter():
            exchange.on_start = room.leave
            begin_holding(scope)
            try:
                await self._answered(exchange, scope, found, room)
            finally:
                room.leave()
                give_back(scope)
        else:
            await exchange.refuse(OverloadedError())

    async def _answered(
        self, exchange: Exchange, scope: Scope, found: dict[bytes, bytes], room: RequestRoom | None
    ) -> None:
        """Have the request answered in its time; this is where every error ends."""
        try:
            limit = self._limits.body_of(scope)
            check_length(found.get(_LENGTH), limit)
            seconds = self._limits.seconds_of(found.get(TIMEOUT_HEADER))
            has_body = _ENCODING in found or found.get(_LENGTH, b"0") != b"0"
            async with exchange.limit(seconds=seconds, body_bytes=limit, has_body=has_body, flows=is_stream(scope)):
                await self._let_in(exchange, scope, room)
        except ClientDisconnect:
            pass  # in the middle of its body: nobody is there to be answered
        except Exception as error:  # noqa: BLE001 - see above
            await (
                exchange.tell_late() if isinstance(error, TimeoutError) and exchange.is_late else exchange.refuse(error)
            )

    async def _let_in(self, exchange: Exchange, scope: Scope, room: RequestRoom | None) -> None:
        if self._access.is_open:
            check_local(scope)
        if room is None:
            await self._routed(scope, exchange.receive, exchange.send)
        else:
            await self._access.serve(self._routed, scope, exchange, room)

    async def _routed(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = path_of_names(scope)
        await self._app(scope if path is None else {**scope, "path": path}, receive, send)

    def _tell(self, scope: Scope, status: int, request_id: str, seconds: float) -> None:
        method, route = scope["method"], route_of(scope)
        self._metrics.answered(method, route, status, seconds)
        level = logging.DEBUG if scope["path"] in _QUIET else logging.INFO
        if ACCESS.isEnabledFor(level):
            caller = scope.get("state", {}).get("caller")
            told: dict[str, Any] = {
                "method": method,
                "route": route or None,
                "status": status,
                "ms": round(seconds * 1e3, 1),
                "request_id": request_id,
                "tenant": getattr(caller, "tenant", None),
                "key_id": getattr(caller, "key_id", None) or None,
            }
            ACCESS.log(level, "%s %s %d", method, route or "no route", status, extra={"told": told})


_HOST, _ORIGIN = b"host", b"origin"
_HOST_AND_PORT = rb"(?P<host>\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z.-]+)(:[0-9]*)?"
_WRITTEN = {_HOST: re.compile(_HOST_AND_PORT), _ORIGIN: re.compile(rb"https?://" + _HOST_AND_PORT)}
"""How a host is written, and nothing else: parsers do not agree on what ``a@b`` or ``a/b`` is."""

_REFUSALS = {
    _HOST: "this service serves this machine alone: call it as 127.0.0.1 or localhost",
    _ORIGIN: "this service serves this machine alone, and no pages of other hosts",
}


def check_local(scope: Scope) -> None:
    """Raise ``MisdirectedError`` for a request that names another host than this machine, or comes from its page.

    A page can have its own name lead to this machine's address; the name still stands in what its browser sends.
    """
    found = [(name, value) for name, value in scope["headers"] if name in _REFUSALS]
    for name, refusal in _REFUSALS.items():
        values = [value for one, value in found if one == name]
        if len(values) > 1 or not (_names_this_machine(name, values[0]) if values else name == _ORIGIN):
            raise MisdirectedError(refusal)


@lru_cache(maxsize=64)
def _names_this_machine(name: bytes, value: bytes) -> bool:
    found = _WRITTEN[name].fullmatch(value)
    return found is not None and is_local(found["host"].strip(b"[]").decode("ascii"))


def route_of(scope: Scope) -> str:
    """The route as it is written, such as ``/v1/collections/{name}``; empty where none matched."""
    return getattr(scope.get("route"), "path", "")


def _describe(traced: Span, scope: Scope, status: int, request_id: str) -> None:
    route = route_of(scope)
    traced.update_name(f"{scope['method']} {route}" if route else scope["method"])
    traced.set_attributes(
        {
            "http.request.method": scope["method"],
            "http.response.status_code": status,
            "url.scheme": scope.get("scheme", "http"),
            "retrieval.request_id": request_id,
            **({"http.route": route} if route else {}),
            **({"error.type": str(status)} if status >= 500 else {}),
        }
    )
