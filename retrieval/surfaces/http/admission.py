"""Admission of requests: checks and counts their API keys, and does a write with an ``Idempotency-Key`` once.

The answer to a write with an ``Idempotency-Key`` is kept for a day if the write succeeded; a write that failed may be
sent again under its key. Once its body has been read, a write runs to its end, even if its client hangs up or its time
is over, so that a client that sends it again gets its outcome.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from hashlib import sha256
from typing import Any, Self

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retrieval.adapters.store.database import Database
from retrieval.adapters.store.deadline import Deadline, current_deadline, in_background, late, set_deadline
from retrieval.adapters.store.installation.idempotency import (
    Attempt,
    Earlier,
    KeptAnswer,
    begin_write,
    free_key,
    keep_answer,
)
from retrieval.adapters.store.replicas import reading_after, token_of
from retrieval.domain.api_key import EVERY_SCOPE, Caller
from retrieval.domain.errors import DatabaseError, InvalidRequestError, RetrievalError
from retrieval.surfaces.http.authentication import Allowance, KeyGate
from retrieval.surfaces.http.caller import CALLER, STILL_ALLOWED
from retrieval.surfaces.http.connection import Exchange
from retrieval.surfaces.http.limits import RequestRoom, is_stream
from retrieval.surfaces.http.openapi import FRONT_PATHS
from retrieval.surfaces.http.problems import (
    EncodedBodyError,
    IdempotencyConflictError,
    IdempotencyMismatchError,
    OverloadedError,
)
from retrieval.surfaces.http.service import Service

_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_REPEATABLE = ("/search", "/search/batch", "/passages", "/preview", "/replay", "/items/bulk")
"""The paths of posted requests that change nothing, or change nothing more when they are repeated."""

AFTER_WRITE, WRITE_TOKEN = "retrieval-after-write", b"retrieval-write-token"
"""The header of a search that gives the token of a write, and the header of a write's answer that has its token."""

_log = logging.getLogger(__name__)

HEADER = "idempotency-key"
LONGEST_KEY = 255
LONGEST_ANSWER = 64 * 1024
"""Bytes of an answer that are kept."""

FINISH_SECONDS = 5.0
"""The seconds that a write with an ``Idempotency-Key`` may take beyond the time of other requests."""

HOLD_MORE_SECONDS = FINISH_SECONDS + 5.0
"""The seconds that a request holds its key after its deadline: by then no part of it can still run."""

_KEPT_HEADERS = ("content-type", "etag", "last-modified", "location")


def idempotency_key(headers: Headers) -> str | None:
    """The ``Idempotency-Key`` of a write; None where there is none. Raises ``InvalidRequestError``."""
    given = headers.getlist(HEADER)
    if not given:
        return None
    key = given[0]
    if len(given) > 1 or not 1 <= len(key) <= LONGEST_KEY or not (key.isascii() and key.isprintable()):
        raise InvalidRequestError(f"an Idempotency-Key has 1 to {LONGEST_KEY} printable ASCII characters, and is one")
    return key


class OnceOnly:
    """Does each write once; to be closed when the application ends. A request may take ``deadline_seconds``."""

    def __init__(self, *, deadline_seconds: float) -> None:
        self._hold_seconds = deadline_seconds + HOLD_MORE_SECONDS
        self._writing: set[asyncio.Task[list[Message]]] = set()

    async def aclose(self) -> None:
        """Wait for the pending writes."""
        await asyncio.gather(*self._writing, return_exceptions=True)

    async def serve(
        self,
        app: ASGIApp,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        database: Database,
        tenant_id: int,
        key_id: str,
        idempotency_key: str,
    ) -> None:
        """Let the application answer a write, or repeat the answer that the tenant's API key got before.

        Raises ``IdempotencyMismatchError``, ``IdempotencyConflictError``, ``DatabaseError``, and what the application
        raises.
        """
        body = await Request(scope, receive).body()
        attempt = Attempt(
            tenant_id=tenant_id,
            key_id=key_id,
            idempotency_key=idempotency_key,
            attempt=uuid.uuid4(),
            request_hash=_hash(scope, body),
        )
        earlier = await begin_write(database, attempt, hold_seconds=self._hold_seconds)
        if earlier is not None:
            await _answer_again(_kept(earlier, attempt), send)
            return
        writing = asyncio.create_task(_written(app, scope, body, database, attempt))
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)
        while not writing.done():
            with suppress(asyncio.CancelledError):  # neither its deadline nor its client ends it
                await asyncio.wait([writing])
        for message in writing.result():
            await send(message)


async def _written(app: ASGIApp, scope: Scope, body: bytes, database: Database, attempt: Attempt) -> list[Message]:
    """Let the application write, keep the outcome, and give the answer."""
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    answer: list[Message] = []

    async def receive() -> Message:
        if not unread:
            await asyncio.Event().wait()  # the client is there as long as it is written
        return unread.pop()

    async def send(message: Message) -> None:
        answer.append(message)

    given, left = current_deadline(), None
    if given is not None:
        longer = Deadline(given.until + FINISH_SECONDS, given.clock)
        set_deadline(longer)
        left = longer.until - longer.clock()
    try:
        async with asyncio.timeout(left):
            await app(scope, receive, send)
    except TimeoutError:
        raise late() from None  # its progress is unknown: the key stays held for its time
    except Exception:
        await _told(free_key(database, attempt))
        raise
    has_failed = answer[0]["status"] >= 400
    await _told(free_key(database, attempt) if has_failed else keep_answer(database, attempt, _answer_of(answer)))
    return answer


async def _told(work: Coroutine[Any, Any, None]) -> None:
    """Store the outcome in the database, beyond the deadline of the request; raises nothing."""
    try:
        await in_background(work)
    except RetrievalError as error:
        _log.warning("what became of a write with an idempotency key was not kept: %s", error)


def _answer_of(messages: list[Message]) -> KeptAnswer:
    start, *parts = messages
    headers = Headers(raw=list(start.get("headers", ())))
    body = b"".join(part.get("body", b"") for part in parts)
    return KeptAnswer(
        status=start["status"],
        headers={name: headers[name] for name in _KEPT_HEADERS if name in headers},
        body=body if len(body) <= LONGEST_ANSWER else None,
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


def _hash(scope: Scope, body: bytes) -> bytes:
    """The hash of a request: of its method, path, query string and body."""
    digest = sha256()
    path = scope.get("raw_path") or scope["path"].encode()
    for part in (scope["method"].encode(), path, scope.get("query_string", b"")):
        digest.update(part + b"\n")
    digest.update(body)
    return digest.digest()


OPEN_PATHS = FRONT_PATHS | {"/livez", "/readyz", "/metrics", "/openapi.json"}
"""The paths that need no key. ``/metrics``, which tells of all tenants, has a token of its own."""


class Access:
    """The callers' keys, and the number of requests that each may make. ``async with`` while the service runs.

    With ``insecure_local`` every caller is the service's own tenant and may do everything.
    """

    def __init__(self, service: Service, *, insecure_local: bool) -> None:
        self.service = service
        self.once = OnceOnly(deadline_seconds=service.settings.http_deadline_seconds)
        self._gate = None if insecure_local else KeyGate(service)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._stack.push_async_callback(self.once.aclose)
        if self._gate is not None:
            await self._stack.enter_async_context(self._gate)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def is_open(self) -> bool:
        """Whether no key is needed."""
        return self._gate is None

    async def caller(self, headers: Headers) -> tuple[Caller, Allowance | None]:
        """The caller, and the caller's remaining allowance. Raises what ``KeyGate.caller`` raises."""
        if self._gate is None:
            return Caller(self.service.settings.tenant, EVERY_SCOPE), None
        return await self._gate.caller(headers)

    async def check(self, headers: Headers) -> None:
        """Check again a key that was let in: it may have been revoked, or have expired.

        Raises ``AuthenticationError``, and ``DatabaseError`` where it cannot be looked up.
        """
        if self._gate is not None:
            await self._gate.key(headers)

    async def serve(self, app: ASGIApp, scope: Scope, exchange: Exchange, room: RequestRoom) -> None:
        """Answer a request with a valid key; a write with an ``Idempotency-Key`` is done once.

        Raises the errors of ``caller`` and ``OnceOnly.serve``, ``OverloadedError``, ``EncodedBodyError``,
        ``InvalidRequestError``, and what the application raises.
        """
        headers = Headers(scope=scope)
        caller, allowance = await self.caller(headers)
        state = scope.setdefault("state", {})
        state[CALLER] = caller
        if is_stream(scope):
            state[STILL_ALLOWED] = lambda: self.check(headers)
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
        """Adds the token of the write to the answer if searches read from replicas."""

        async def with_token(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                host = next(iter(self.service.opened), None)  # where none is open, nothing was written
                if host is not None and host.database.replicas is not None:
                    with suppress(DatabaseError):  # it is written all the same
                        token = (WRITE_TOKEN, (await token_of(host.database)).encode())
                        message["headers"] = [*message.get("headers", ()), token]
            await send(message)

        return with_token
