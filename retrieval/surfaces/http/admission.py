"""Admission: before anything of a request is read, its key is checked and counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Scope, Send

from retrieval.adapters.store.installation.access import StoredKey, find_key, note_key_used
from retrieval.adapters.store.replicas import reading_after, token_of
from retrieval.domain.api_key import EVERY_SCOPE, ApiKey, Caller
from retrieval.domain.errors import DatabaseError
from retrieval.engine.stopwatch import Clock
from retrieval.surfaces.http.authentication import Allowance, Authenticator, RateLimits
from retrieval.surfaces.http.caller import CALLER, STILL_ALLOWED
from retrieval.surfaces.http.connection import Exchange
from retrieval.surfaces.http.limits import RequestRoom, is_stream
from retrieval.surfaces.http.once import OnceOnly, idempotency_key
from retrieval.surfaces.http.openapi import FRONT_PATHS
from retrieval.surfaces.http.problems import AuthenticationError, EncodedBodyError, OverloadedError, RateLimitedError
from retrieval.surfaces.http.service import Service

_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_REPEATABLE = ("/search", "/search/batch", "/passages", "/preview", "/replay", "/items/bulk")
"""The paths where a posted request changes nothing, or changes nothing more when it is repeated."""

AFTER_WRITE, WRITE_TOKEN = "retrieval-after-write", b"retrieval-write-token"
"""A search shows the token of a write in the first, and a write answers with its own in the second."""

OPEN_PATHS = FRONT_PATHS | {"/livez", "/readyz", "/metrics", "/openapi.json"}
"""The paths that need no key. ``/metrics``, which tells of all tenants, has a token of its own."""


class Access:
    """The callers' keys, and the number of requests that each may make. ``async with`` while the service runs.

    With ``insecure_local`` whoever asks is the service's own tenant and may do all.
    """

    def __init__(
        self,
        service: Service,
        *,
        insecure_local: bool,
        clock: Clock = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.service = service
        self.once = OnceOnly(deadline_seconds=service.settings.http_deadline_seconds)
        self._limits = RateLimits(clock)
        self._authenticator = None if insecure_local else Authenticator(self._find, self._used, clock=clock, now=now)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._stack.push_async_callback(self.once.aclose)
        if self._authenticator is not None:
            await self._stack.enter_async_context(self._authenticator)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @property
    def is_open(self) -> bool:
        """Whether no key is needed."""
        return self._authenticator is None

    async def caller(self, headers: Headers, address: str) -> tuple[Caller, Allowance | None]:
        """The caller, and the caller's remaining allowance.

        Raises ``AuthenticationError``, ``RateLimitedError``, and ``DatabaseError`` where no key can be looked up.
        """
        if self._authenticator is None:
            return Caller(self.service.settings.tenant, EVERY_SCOPE), None
        key = await self._key(self._authenticator, headers, address)
        return Caller(key.tenant, key.scopes, key.key_id, key), self._counted(key)

    async def check(self, headers: Headers, address: str) -> None:
        """Whether who was let in still would be: a key may have been revoked, or have expired.

        Raises ``AuthenticationError``, and ``DatabaseError`` where it cannot be looked up.
        """
        if self._authenticator is not None:
            await self._key(self._authenticator, headers, address)

    async def _key(self, authenticator: Authenticator, headers: Headers, address: str) -> ApiKey:
        return await authenticator.key_of(_single(headers, "authorization"), _single(headers, "x-api-key"), address)

    def _counted(self, key: ApiKey) -> Allowance:
        per_minute = key.requests_per_minute or self.service.settings.http_requests_per_minute
        allowance = self._limits.take(key.key_id, per_minute)
        if allowance.wait_seconds:
            raise RateLimitedError(
                f"this API key may make {per_minute:,} requests a minute; wait as long as Retry-After says",
                allowance.wait_seconds,
                headers=allowance.headers(),
            )
        return allowance

    async def _find(self, key_id: str) -> StoredKey | None:
        return await find_key((await self.service.host()).database, key_id)

    async def _used(self, found: StoredKey, at: datetime) -> None:
        await note_key_used((await self.service.host()).database, found.tenant_id, found.key.key_id, at)

    async def serve(self, app: ASGIApp, scope: Scope, exchange: Exchange, room: RequestRoom) -> None:
        """Have a request answered whose key lets in, and a write that bears an ``Idempotency-Key`` done once.

        Raises the errors of ``caller`` and ``OnceOnly.serve``, ``OverloadedError``, ``EncodedBodyError``,
        ``InvalidRequestError``, and what the application raises.
        """
        headers = Headers(scope=scope)
        address = (scope.get("client") or ("",))[0]
        caller, allowance = await self.caller(headers, address)
        state = scope.setdefault("state", {})
        state[CALLER] = caller
        if is_stream(scope):
            state[STILL_ALLOWED] = lambda: self.check(headers, address)
        if not room.belongs_to(caller.key_id):
            raise OverloadedError("too many requests of this API key are being answered; try again in a moment")
        if allowance is not None:
            exchange.headers += [(name.lower().encode(), value.encode()) for name, value in allowance.headers().items()]
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise EncodedBodyError
        with reading_after(headers.get(AFTER_WRITE)):
            method, path = scope["method"], scope["path"]
            if method not in _WRITES or (method == "POST" and path.endswith(_REPEATABLE)):
                await app(scope, exchange.receive, exchange.send)
                return
            send = self._with_token(exchange.send)
            if (key := idempotency_key(headers)) is None:
                await app(scope, exchange.receive, send)
                return
            platform = await self.service.of_tenant(caller.tenant, scope)
            await self.once.serve(
                app,
                scope,
                exchange.receive,
                send,
                database=platform.database,
                tenant_id=platform.tenant_id,
                key_id=caller.key_id,
                idempotency_key=key,
            )

    def _with_token(self, send: Send) -> Send:
        """Adds the token of what was written to the answer, where searches read from replicas."""

        async def with_token(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                database = (await self.service.host()).database
                if database.replicas is not None:
                    with suppress(DatabaseError):  # it is written all the same
                        token = (WRITE_TOKEN, (await token_of(database)).encode())
                        message["headers"] = [*message.get("headers", ()), token]
            await send(message)

        return with_token


def _single(headers: Headers, name: str) -> str | None:
    """The header's value. Of two nobody knows which one counts for whoever stands in between.

    Raises ``AuthenticationError`` for more than one.
    """
    found = headers.getlist(name)
    if len(found) > 1:
        raise AuthenticationError
    return found[0] if found else None
