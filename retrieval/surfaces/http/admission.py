"""Admission: before anything of a request is read, its key is checked and counted; and a write is done once.

The answer to a write that bears an ``Idempotency-Key`` is kept for a day, if the write succeeded; one that failed may
be sent again under its key. A write that was begun goes on to its end also when its client hangs up or its time is
over, so that whoever sends it again hears what became of it. Bodies are hashed as they come in, and never held.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from hashlib import sha256
from types import TracebackType
from typing import Any, Self

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retrieval.adapters.store.database import Database
from retrieval.adapters.store.deadline import Deadline, current_deadline, in_background, late, set_deadline
from retrieval.adapters.store.installation.access import StoredKey, find_key, note_key_used
from retrieval.adapters.store.installation.idempotency import (
    Attempt,
    Earlier,
    KeptAnswer,
    begin_write,
    free_key,
    keep_answer,
)
from retrieval.adapters.store.replicas import reading_after, token_of
from retrieval.domain.api_key import EVERY_SCOPE, ApiKey, Caller
from retrieval.domain.errors import DatabaseError, InvalidRequestError, RetrievalError
from retrieval.engine.stopwatch import Clock
from retrieval.surfaces.http.authentication import Allowance, Authenticator, RateLimits
from retrieval.surfaces.http.caller import CALLER, STILL_ALLOWED
from retrieval.surfaces.http.connection import Exchange
from retrieval.surfaces.http.limits import RequestRoom, is_stream
from retrieval.surfaces.http.openapi import FRONT_PATHS
from retrieval.surfaces.http.problems import (
    AuthenticationError,
    EncodedBodyError,
    IdempotencyConflictError,
    IdempotencyMismatchError,
    OverloadedError,
    RateLimitedError,
)
from retrieval.surfaces.http.service import Service

_log = logging.getLogger(__name__)

HEADER = "idempotency-key"
LONGEST_KEY = 255
LONGEST_ANSWER = 64 * 1024
"""Bytes of an answer that are kept."""

FINISH_SECONDS = 5.0
"""How much longer than another request a write with an ``Idempotency-Key`` may take."""

HOLD_MORE_SECONDS = FINISH_SECONDS + 5.0
"""How much longer than its deadline a request holds its key: until nothing of it can be going on any more."""

_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_REPEATABLE = ("/search", "/search/batch", "/passages", "/preview", "/replay", "/items/bulk")
"""The paths where a posted request changes nothing, or changes nothing more when it is repeated."""
_KEPT_HEADERS = ("content-type", "etag", "last-modified", "location")


AFTER_WRITE, WRITE_TOKEN = "retrieval-after-write", b"retrieval-write-token"
"""A search shows the token of a write in the first, and a write answers with its own in the second."""


def _is_write(method: str, path: str) -> bool:
    return method in _WRITES and not (method == "POST" and path.endswith(_REPEATABLE))


def idempotency_key(headers: Headers) -> str | None:
    """The key of a write; None: none is given. Raises ``InvalidRequestError``."""
    given = headers.getlist(HEADER)
    if not given:
        return None
    key = given[0]
    if len(given) > 1 or not 1 <= len(key) <= LONGEST_KEY or not (key.isascii() and key.isprintable()):
        raise InvalidRequestError(f"an Idempotency-Key has 1 to {LONGEST_KEY} printable ASCII characters, and is one")
    return key


def attempt_of(scope: Scope, *, tenant_id: int, key_id: str, key: str) -> Attempt:
    """A new attempt at the write under that idempotency key, by the tenant's API key."""
    return Attempt(
        tenant_id=tenant_id,
        key_id=key_id,
        idempotency_key=key,
        attempt=uuid.uuid4(),
        request_hash=_request_hash(scope),
    )


class OnceOnly:
    """Has writes done once; close it when the application ends. A request may take ``deadline_seconds``."""

    def __init__(self, *, deadline_seconds: float) -> None:
        self._hold_seconds = deadline_seconds + HOLD_MORE_SECONDS
        self._background: set[asyncio.Task[None]] = set()

    async def aclose(self) -> None:
        """Wait for what is being kept."""
        await asyncio.gather(*self._background, return_exceptions=True)

    async def serve(
        self, app: ASGIApp, scope: Scope, receive: Receive, send: Send, *, database: Database, attempt: Attempt
    ) -> None:
        """Answer a write by the application, or as it was answered before.

        It is ended while its body is awaited, and not by its deadline or a client that hangs up afterwards. Raises
        ``IdempotencyMismatchError``, ``IdempotencyConflictError``, ``DatabaseError``, and what the application raises.
        """
        earlier = await begin_write(database, attempt, hold_seconds=self._hold_seconds)
        if earlier is not None:
            kept = _kept(earlier, attempt)
            if await _body_hash(receive) != kept.body_hash:
                raise IdempotencyMismatchError
            await _answer_again(kept, send)
            return
        exchange = _Recorded(receive, send)
        writing = asyncio.create_task(self._written(app, scope, exchange, database, attempt))
        while not writing.done():
            try:
                await asyncio.wait([writing])
            except asyncio.CancelledError:
                if exchange.is_awaiting_body:
                    writing.cancel()
        await writing
        await exchange.flush()

    async def _written(
        self, app: ASGIApp, scope: Scope, exchange: _Recorded, database: Database, attempt: Attempt
    ) -> None:
        """Have it written, and keep what became of it."""
        given = current_deadline()
        answer = None
        try:
            async with asyncio.timeout(None if given is None else given.until - given.clock() + FINISH_SECONDS):
                if given is not None:
                    set_deadline(Deadline(given.until + FINISH_SECONDS, given.clock))
                await app(scope, exchange.receive, exchange.send)
                answer = await exchange.answer()
        except asyncio.CancelledError:
            await self._told(free_key(database, attempt))
            raise
        except TimeoutError:
            raise late() from None  # nobody knows how far it came: the key stays held for its time
        except Exception:
            await self._told(free_key(database, attempt))
            raise
        if answer is not None:
            await self._told(keep_answer(database, attempt, answer))
        elif exchange.has_failed:
            await self._told(free_key(database, attempt))

    async def _told(self, work: Coroutine[Any, Any, None]) -> None:
        """Tell the database, beyond the deadline of the request; it raises nothing."""

        async def tell() -> None:
            try:
                await work
            except RetrievalError as error:
                _log.warning("what became of a write with an idempotency key was not kept: %s", error)

        task = in_background(tell())
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        await asyncio.shield(task)


class _Recorded:
    """A request and its answer as they pass, the answer held back until it is complete or too long to be kept."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._digest = sha256()
        self._is_body_read = False
        self._held: list[Message] = []
        self._length = 0
        self._status = 0
        self._headers: dict[str, str] = {}
        self._is_complete = False
        self._is_too_long = False
        self._is_receiving = False

    @property
    def is_awaiting_body(self) -> bool:
        """Whether the application waits for more of the body: nothing is done yet."""
        return self._is_receiving and not self._is_body_read and not self._is_complete

    @property
    def has_failed(self) -> bool:
        """Whether the answer tells of a failure."""
        return self._status >= 400

    async def receive(self) -> Message:
        """The next part of the request."""
        self._is_receiving = True
        message = await self._receive()
        self._is_receiving = False
        if message["type"] == "http.request":
            self._digest.update(message.get("body", b""))
            self._is_body_read = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """The next part of the answer."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = Headers(raw=list(message.get("headers", ())))
            self._headers = {name: headers[name] for name in _KEPT_HEADERS if name in headers}
        elif message["type"] == "http.response.body":
            self._length += len(message.get("body", b""))
            self._is_complete = not message.get("more_body", False)
        self._held.append(message)
        self._is_too_long = self._is_too_long or self._length > LONGEST_ANSWER
        if self._is_too_long and not self._is_complete:
            await self.flush()

    async def flush(self) -> None:
        """Send what was held back."""
        held, self._held = self._held, []
        for message in held:
            await self._send(message)

    async def answer(self) -> KeptAnswer | None:
        """The whole answer, once the body was read to its end; None if it never was, or for one that is none."""
        if not self._is_complete or self.has_failed:
            return None
        while not self._is_body_read:
            if (await self.receive())["type"] == "http.disconnect":
                return None
        body = b"".join(message.get("body", b"") for message in self._held)
        return KeptAnswer(
            body_hash=self._digest.digest(),
            status=self._status,
            headers=self._headers,
            body=None if self._is_too_long else body,
        )


def _kept(earlier: Earlier, attempt: Attempt) -> KeptAnswer:
    """The answer to the earlier request. Raises ``IdempotencyMismatchError`` and ``IdempotencyConflictError``."""
    if earlier.request_hash != attempt.request_hash:
        raise IdempotencyMismatchError
    if earlier.answer is None:
        message = "a request with this Idempotency-Key is being answered; ask again in a moment"
        raise IdempotencyConflictError(message, headers={"Retry-After": "1"})
    return earlier.answer


async def _answer_again(answer: KeptAnswer, send: Send) -> None:
    if answer.body is None:
        raise IdempotencyConflictError(
            f"this was done, and answered with status {answer.status}; that answer had more than "
            f"{LONGEST_ANSWER:,} bytes and is not kept: read what you need"
        )
    headers = MutableHeaders(answer.headers)
    headers["idempotency-replayed"] = "true"
    if answer.status != 204:
        headers["content-length"] = str(len(answer.body))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers.raw})
    await send({"type": "http.response.body", "body": answer.body})


async def _body_hash(receive: Receive) -> bytes:
    digest, is_more = sha256(), True
    while is_more:
        message = await receive()
        digest.update(message.get("body", b""))
        is_more = message["type"] == "http.request" and message.get("more_body", False)
    return digest.digest()


def _request_hash(scope: Scope) -> bytes:
    """The hash of the method, the path and the query string."""
    parts = (scope["method"].encode(), scope.get("raw_path") or scope["path"].encode(), scope.get("query_string", b""))
    return sha256(b"\n".join(parts)).digest()


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
            if not _is_write(scope["method"], scope["path"]):
                await app(scope, exchange.receive, exchange.send)
                return
            send = self._with_token(exchange.send)
            if (key := idempotency_key(headers)) is None:
                await app(scope, exchange.receive, send)
                return
            platform = await self.service.of_tenant(caller.tenant, scope)
            attempt = attempt_of(scope, tenant_id=platform.tenant_id, key_id=caller.key_id, key=key)
            await self.once.serve(app, scope, exchange.receive, send, database=platform.database, attempt=attempt)

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
