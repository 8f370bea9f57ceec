"""The frame of every request: who may send it, its limits, and an answer whatever goes wrong."""

from __future__ import annotations

import asyncio
import re
from functools import lru_cache

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from retrieval.adapters.store.deadline import reset_deadline, set_deadline
from retrieval.domain.errors import RetrievalError
from retrieval.surfaces.http import telemetry as ids
from retrieval.surfaces.http.admission import OPEN_PATHS
from retrieval.surfaces.http.answers import answer_to
from retrieval.surfaces.http.connection import Exchange
from retrieval.surfaces.http.limits import PLACE, TIMEOUT_HEADER, Limits, Load, check_length, is_stream
from retrieval.surfaces.http.problems import MisdirectedError, OverloadedError
from retrieval.surfaces.http.service import begin_holding, give_back
from retrieval.surfaces.listening import is_local

_HOST, _ORIGIN = b"host", b"origin"
_HOST_AND_PORT = rb"(?P<host>\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z.-]+)(:[0-9]*)?"
_WRITTEN = {_HOST: re.compile(_HOST_AND_PORT), _ORIGIN: re.compile(rb"https?://" + _HOST_AND_PORT)}
"""How a host is written, and nothing else: parsers do not agree on what ``a@b`` or ``a/b`` is."""

_REFUSALS = {
    _HOST: "this service serves this machine alone: call it as 127.0.0.1 or localhost",
    _ORIGIN: "this service serves this machine alone, and no pages of other hosts",
}


class LocalOnly:
    """Refuses requests that name another host than this machine, or come from a page of another.

    A page can have its own name lead to this machine's address; the name still stands in what its browser sends.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of ASGI."""
        if scope["type"] == "http":
            found = [(name, value) for name, value in scope["headers"] if name in _REFUSALS]
            for name, refusal in _REFUSALS.items():
                values = [value for one, value in found if one == name]
                if len(values) > 1 or not (_is_local(name, values[0]) if values else name == _ORIGIN):
                    await answer_to(MisdirectedError(refusal), scope)(scope, receive, send)
                    return
        await self._app(scope, receive, send)


@lru_cache(maxsize=64)
def _is_local(name: bytes, value: bytes) -> bool:
    found = _WRITTEN[name].fullmatch(value)
    return found is not None and is_local(found["host"].strip(b"[]").decode("ascii"))


_LENGTH, _ENCODING = b"content-length", b"transfer-encoding"
_WANTED = frozenset({ids.HEADER, TIMEOUT_HEADER, _LENGTH, _ENCODING})


class Frame:
    """Middleware of ASGI; costs each request some microseconds, and no task."""

    def __init__(self, app: ASGIApp, *, limits: Limits, load: Load) -> None:
        self._app = app
        self._limits = limits
        self._load = load

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        found = {name: value for name, value in scope["headers"] if name in _WANTED}
        request_id = ids.request_id_of(found.get(ids.HEADER))
        token = ids.set_request_id(request_id)
        exchange = Exchange(scope, receive, send, request_id)
        try:
            if scope["path"] in OPEN_PATHS:
                # How the service is has to be told also when there is too much to do; and none of them needs a place.
                await self._limited(exchange, scope, found)
            elif place := self._load.enter():
                exchange.on_answer = place.leave
                scope.setdefault("state", {})[PLACE] = place
                begin_holding(scope)
                try:
                    await self._limited(exchange, scope, found)
                finally:
                    place.leave()
                    give_back(scope)
            else:
                await exchange.refuse(OverloadedError())
        finally:
            ids.reset_request_id(token)

    async def _limited(self, exchange: Exchange, scope: Scope, found: dict[bytes, bytes]) -> None:
        try:
            body_limit = self._limits.body_of(scope)
            check_length(found.get(_LENGTH), body_limit)
            seconds = self._limits.seconds_of(found.get(TIMEOUT_HEADER))
        except RetrievalError as refusal:
            await exchange.refuse(refusal)
            return
        has_body = _ENCODING in found or found.get(_LENGTH, b"0") != b"0"
        token = set_deadline(
            exchange.begin(seconds=seconds, body_limit=body_limit, has_body=has_body, flows=is_stream(scope))
        )
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except asyncio.CancelledError:
            if not exchange.ended_by_itself():
                raise
            await exchange.tell_end()
        except ClientDisconnect:
            pass  # in the middle of its body: nobody is there to be answered
        except Exception as error:  # noqa: BLE001 - this is where every error ends
            await (exchange.refuse(error) if exchange.ended is None else exchange.tell_end())
        finally:
            exchange.end()
            reset_deadline(token)
