"""What happens around every request, whichever it is: its id, its limits, and an answer whatever goes wrong."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from retrieval.adapters.store.deadline import reset_deadline, set_deadline
from retrieval.domain.errors import RetrievalError
from retrieval.surfaces.http import request_id as ids
from retrieval.surfaces.http.admission import OPEN_PATHS
from retrieval.surfaces.http.exchange import Exchange
from retrieval.surfaces.http.limits import TIMEOUT_HEADER, Limits, check_length, is_stream
from retrieval.surfaces.http.load import Load, take_place
from retrieval.surfaces.http.request_refusals import OverloadedError
from retrieval.surfaces.http.tenants import begin_holding, give_back

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
                take_place(scope, place)
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
