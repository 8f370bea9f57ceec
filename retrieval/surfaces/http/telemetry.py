"""Each request seen from outside: its id, its span, its place in the metrics, its line in the log.

Keys and passwords are never meant to be logged. Should a message hold one all the same, it is taken out.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import sys
import time
import traceback
from collections.abc import Iterable
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from opentelemetry import propagate
from opentelemetry.trace import Span, SpanKind
from pydantic import SecretStr
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retrieval.adapters.tracing import started, tracer
from retrieval.engine.stopwatch import Clock
from retrieval.settings import Settings
from retrieval.surfaces.http.metrics import Metrics

HEADER = b"x-request-id"

_SANE = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")

_CURRENT: ContextVar[str] = ContextVar("retrieval_request_id", default="")

set_request_id, reset_request_id = _CURRENT.set, _CURRENT.reset


def current_request_id() -> str:
    """The id of the request that is being answered; empty outside of one."""
    return _CURRENT.get()


def request_id_of(given: bytes | None) -> str:
    """The id that came with the request, if it can stand in a log as it is; else a new one."""
    text = "" if given is None else given.decode("latin-1")
    return text if text and _SANE.fullmatch(text) else secrets.token_hex(16)


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
    """An answer as it is sent, and the numbers of it that are logged."""

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


SECRET = "[secret]"  # noqa: S105 - stands in the place of one

_KEY = re.compile(r"(rtv_[A-Za-z0-9]{12}_)[A-Za-z0-9_-]+")
"""A key's first part names it, and may be told."""

_PASSWORD = re.compile(r"(://[^\s:/@]*:)[^\s/@]+@")
_PARAMETER = re.compile(r"((?:^|[?&;\s])(?:ssl)?password=)('[^']*'|[^\s&;'\"]+)", re.IGNORECASE)


_TOLD = ((_KEY, rf"\1{SECRET}"), (_PASSWORD, rf"\1{SECRET}@"), (_PARAMETER, rf"\1{SECRET}"))


class Redaction:
    """Takes secrets out of a text."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # Shorter ones would be found in ordinary words.
        known = {one for one in secrets if len(one) >= 4}
        known |= {json.dumps(one, ensure_ascii=False)[1:-1] for one in known}  # as they stand in a line of JSON
        found = sorted(known, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, found))) if found else None

    @classmethod
    def of(cls, settings: Settings) -> Redaction:
        """Redacts every secret of the settings, and the password in the database's URL."""
        values = [getattr(settings, name) for name in type(settings).model_fields]
        secrets = [value.get_secret_value() for value in values if isinstance(value, SecretStr)]
        url = settings.database_url.get_secret_value() if settings.database_url else ""
        return cls([*secrets, *_passwords(url)])

    def __call__(self, text: str) -> str:
        """The text without them."""
        if self._known is not None:
            text = self._known.sub(SECRET, text)
        for secret, told in _TOLD:
            text = secret.sub(told, text)
        return text


class TextFormatter(logging.Formatter):
    """Such as ``12:30:01.250 INFO retrieval.access POST /v1/... 200 ms=3.1 request_id=...``."""

    def __init__(self, redaction: Redaction, *, debug: bool = False) -> None:
        super().__init__()
        self._redaction = redaction
        self._debug = debug

    def format(self, record: logging.LogRecord) -> str:
        """One line; a traceback follows on lines of its own."""
        time = _time(record).strftime("%H:%M:%S.%f")[:-3]
        told = {"request_id": current_request_id(), **_told(record)}
        shown = " ".join(f"{name}={value}" for name, value in told.items() if value not in (None, "", []))
        line = f"{time} {record.levelname} {record.name} {_one_line(record.getMessage())}"
        parts = [f"{line} {shown}".rstrip(), *([_traceback(record, debug=self._debug)] if record.exc_info else [])]
        return self._redaction("\n".join(parts))


class JSONFormatter(logging.Formatter):
    """One object a line: ``time`` (ISO 8601, UTC), ``level``, ``logger``, ``message``, ``request_id``, what is told."""

    def __init__(self, redaction: Redaction, *, debug: bool = False) -> None:
        super().__init__()
        self._redaction = redaction
        self._debug = debug

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the record holds."""
        told: dict[str, Any] = {
            "time": _time(record).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "request_id": current_request_id() or None,
            **_told(record),
        }
        if record.exc_info:
            told["traceback"] = _traceback(record, debug=self._debug)
        return self._redaction(json.dumps(told, ensure_ascii=False, default=str))


class ServiceHandler(logging.Handler):
    """Our own records from INFO on, of libraries warnings, or everything from INFO on when debugging."""

    def __init__(self, *, debug: bool = False) -> None:
        super().__init__(logging.DEBUG if debug else logging.INFO)
        self._debug = debug

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is of those."""
        is_ours = record.name == "retrieval" or record.name.startswith("retrieval.")
        return record.levelno >= (logging.INFO if is_ours or self._debug else logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record."""
        if sys.stderr is None:
            return
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - what cannot be written down must not end a request
            self.handleError(record)
            return
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def configure_service_logging(settings: Settings, *, as_json: bool, debug: bool = False) -> None:
    """Send the process's log records to standard error as lines of JSON, or of text."""
    handler = ServiceHandler(debug=debug)
    redaction = Redaction.of(settings)
    formatter = JSONFormatter if as_json else TextFormatter
    handler.setFormatter(formatter(redaction, debug=debug))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)


def _passwords(url: str) -> list[str]:
    """The passwords in the database's URL, encoded and decoded."""
    found = [one[1] for one in re.finditer(r"://[^:/@]*:(.+)@", url)]
    found += [one[2] for one in _PARAMETER.finditer(url)]
    return [*found, *map(unquote, found)]


def _told(record: logging.LogRecord) -> dict[str, Any]:
    told = getattr(record, "told", None)
    return told if isinstance(told, dict) else {}


def _time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _traceback(record: logging.LogRecord, *, debug: bool) -> str:
    """The place of an error, with the classes of the errors alone unless debugging: messages may quote the query."""
    lines: list[str] = []
    error = record.exc_info[1] if record.exc_info else None
    while error is not None:
        said = f": {error}" if debug else ""
        lines.append(f"{type(error).__module__}.{type(error).__qualname__}{said}")
        lines += [
            f"  {frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)
        ]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n".join(lines)
