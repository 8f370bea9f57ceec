"""Each request is seen from outside: its span, its place in the metrics, its line in the log."""

from __future__ import annotations

import logging
import time
from typing import Any

from opentelemetry import propagate
from opentelemetry.trace import Span, SpanKind
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retrieval.adapters.tracing import started, tracer
from retrieval.engine.stopwatch import Clock
from retrieval.surfaces.http.metrics import Metrics

ACCESS = logging.getLogger("retrieval.access")
"""One line a request. Operators' own looks are said on the level DEBUG."""

HUNG_UP = 499
"""The status in metrics and logs of a request whose client was gone before there was an answer."""

_QUIET = frozenset({"/livez", "/readyz", "/metrics"})


class Telemetry:
    """Middleware of ASGI, to be the outermost: it hears also of what the others answer."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, clock: Clock = time.perf_counter) -> None:
        self._app = app
        self._metrics = metrics
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer, began = _Answer(send), self._clock()
        try:
            if tracer() is None:
                await self._app(scope, receive, answer.send)
            else:
                await self._traced(scope, receive, answer)
        finally:
            self._tell(scope, answer, self._clock() - began)

    async def _traced(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        """Within a span of the trace that the caller's ``traceparent`` names, if it names one."""
        parent = propagate.extract(_text_headers(scope))
        with started(scope["method"], SpanKind.SERVER, parent) as traced:
            await self._app(scope, receive, answer.send)
            if traced is not None:
                _describe(traced, scope, answer)

    def _tell(self, scope: Scope, answer: _Answer, seconds: float) -> None:
        method, route, status = scope["method"], route_of(scope), answer.status or HUNG_UP
        self._metrics.answered(method, route, status, seconds)
        level = logging.DEBUG if scope["path"] in _QUIET else logging.INFO
        if ACCESS.isEnabledFor(level):
            caller = scope.get("state", {}).get("caller")
            told: dict[str, Any] = {
                "method": method,
                "route": route or None,
                "status": status,
                "ms": round(seconds * 1e3, 1),
                "request_id": answer.request_id,
                "tenant": getattr(caller, "tenant", None),
                "key_id": getattr(caller, "key_id", None) or None,
            }
            ACCESS.log(level, "%s %s %d", method, route or "no route", status, extra={"told": told})


class _Answer:
    """What is sent, and what of it is told."""

    __slots__ = ("_send", "request_id", "status")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        self.request_id = ""

    async def send(self, message: Message) -> None:
        """Pass a part of the answer on."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            for name, value in message.get("headers", ()):
                if name == b"x-request-id":
                    self.request_id = value.decode("latin-1")
        await self._send(message)


def route_of(scope: Scope) -> str:
    """The route as it is written, such as ``/v1/collections/{name}``; empty where none matched."""
    return getattr(scope.get("route"), "path", "")


def _describe(traced: Span, scope: Scope, answer: _Answer) -> None:
    route = route_of(scope)
    traced.update_name(f"{scope['method']} {route}" if route else scope["method"])
    traced.set_attributes(
        {
            "http.request.method": scope["method"],
            "http.response.status_code": answer.status or HUNG_UP,
            "url.scheme": scope.get("scheme", "http"),
            "retrieval.request_id": answer.request_id,
        }
    )
    if route:
        traced.set_attribute("http.route", route)
    if answer.status >= 500:
        traced.set_attribute("error.type", str(answer.status))


def _text_headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
