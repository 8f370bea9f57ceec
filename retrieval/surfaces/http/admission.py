"""Admission: before anything of a request is read, its key is checked and counted; and a write is done once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retrieval.adapters.store.installation.access import StoredKey, find_key, note_key_used
from retrieval.domain.api_key import EVERY_SCOPE, ApiKey
from retrieval.engine.stopwatch import Clock
from retrieval.surfaces.http.authentication import Allowance, Authenticator, RateLimits
from retrieval.surfaces.http.caller import CALLER, STILL_ALLOWED, Caller
from retrieval.surfaces.http.front import FRONT_PATHS
from retrieval.surfaces.http.idempotency import OnceOnly, attempt_of, idempotency_key
from retrieval.surfaces.http.limits import PLACE, RequestRoom, is_stream
from retrieval.surfaces.http.problems import AuthenticationError, EncodedBodyError, OverloadedError, RateLimitedError
from retrieval.surfaces.http.service import Service

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


class Admission:
    """Middleware of ASGI. What it raises is for the middleware around it to answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of ASGI."""
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        address = (scope.get("client") or ("",))[0]
        caller, allowance = await self._access.caller(headers, address)
        state = scope.setdefault("state", {})
        state[CALLER] = caller
        if is_stream(scope):
            state[STILL_ALLOWED] = lambda: self._access.check(headers, address)
        place: RequestRoom | None = state.get(PLACE)
        if place is not None and not place.belongs_to(caller.key_id):
            raise OverloadedError("too many requests of this API key are being answered; try again in a moment")
        if allowance is not None:
            send = _sending(send, allowance.headers())
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise EncodedBodyError
        key = idempotency_key(scope["method"], scope["path"], headers)
        if key is None:
            await self._app(scope, receive, send)
            return
        platform = await self._access.service.platform(caller.tenant, scope)
        attempt = attempt_of(scope, tenant_id=platform.tenant_id, key_id=caller.key_id, key=key)
        await self._access.once.serve(self._app, scope, receive, send, database=platform.database, attempt=attempt)


def _single(headers: Headers, name: str) -> str | None:
    """The header's value. Of two nobody knows which one counts for whoever stands in between.

    Raises ``AuthenticationError`` for more than one.
    """
    found = headers.getlist(name)
    if len(found) > 1:
        raise AuthenticationError
    return found[0] if found else None


def _sending(send: Send, headers: Mapping[str, str]) -> Send:
    """Adds the headers to the answer."""
    more = [(name.lower().encode(), value.encode()) for name, value in headers.items()]

    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *more]
        await send(message)

    return with_headers
