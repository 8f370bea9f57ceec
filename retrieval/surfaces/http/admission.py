"""Admission of requests: checks and counts their API keys, and does a write with an ``Idempotency-Key`` only once.

The response to a successful write with an ``Idempotency-Key`` is stored for a day; a failed write may be repeated with
its key. Once its body has been read, a write runs to its end even if its client disconnects or its deadline passes, so
that a client that repeats it gets its outcome.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from contextlib import suppress
from hashlib import sha256

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retrieval.adapters.store.database import Database
from retrieval.adapters.store.deadline import Deadline, deadline, in_background, late, seconds_left
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
from retrieval.surfaces.http import problems
from retrieval.surfaces.http.authentication import Allowance, gate_of
from retrieval.surfaces.http.caller import CALLER, STILL_ALLOWED, WRITE, Service
from retrieval.surfaces.http.connection import Exchange
from retrieval.surfaces.http.limits import RequestRoom, is_stream
from retrieval.surfaces.http.openapi import FRONT_PATHS

_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_REPEATABLE = ("/search", "/search/batch", "/passages", "/preview", "/replay", "/items/bulk")
"""The paths of POST requests that change nothing, or nothing more when they are repeated."""

AFTER_WRITE, WRITE_TOKEN = "retrieval-after-write", b"retrieval-write-token"
"""The header with the token of a write: in the request of a search, and in the response to the write."""

_log = logging.getLogger(__name__)

HEADER = "idempotency-key"
LONGEST_KEY = 255
LONGEST_ANSWER = 64 * 1024
"""The greatest number of bytes of a response that is stored."""

FINISH_SECONDS = 5.0
"""The seconds that a write with an ``Idempotency-Key`` may take beyond its deadline."""

HOLD_MORE_SECONDS = FINISH_SECONDS + 5.0
"""The seconds that a request holds its key after its deadline: after them no part of it can still run."""

_KEPT_HEADERS = ("content-type", "etag", "last-modified", "location")


def idempotency_key(headers: Headers) -> str | None:
    """The ``Idempotency-Key`` of a write; None if there is none. Raises ``InvalidRequestError``."""
    keys = headers.getlist(HEADER)
    if not keys:
        return None
    key = keys[0]
    if len(keys) > 1 or not 1 <= len(key) <= LONGEST_KEY or not (key.isascii() and key.isprintable()):
        raise InvalidRequestError(f"send one Idempotency-Key of 1 to {LONGEST_KEY} printable ASCII characters")
    return key


OPEN_PATHS = FRONT_PATHS | {"/livez", "/readyz", "/metrics", "/openapi.json"}
"""The paths that need no key. ``/metrics``, which covers all tenants, has a separate token."""


class Access:
    """Checks the callers' keys and rate limits; close it at the end.

    With ``insecure_local`` every caller has the service's own tenant and all scopes.
    """

    def __init__(self, service: Service, *, insecure_local: bool) -> None:
        self.service = service
        self.is_open = insecure_local
        self._gate = gate_of(service)
        self._writing: set[asyncio.Task[list[Message]]] = set()

    async def aclose(self) -> None:
        """Wait for the writes and checks in progress."""
        await asyncio.gather(*self._writing, return_exceptions=True)
        await self._gate.aclose()

    async def caller(self, headers: Headers) -> tuple[Caller, Allowance | None]:
        """The caller, and the caller's remaining allowance. Raises the errors of ``KeyGate.caller``."""
        if self.is_open:
            return Caller(self.service.settings.tenant, EVERY_SCOPE), None
        return await self._gate.caller(headers)

    async def check(self, headers: Headers) -> None:
        """Check an admitted key again, which may have been revoked. Raises the errors of ``KeyGate.key``."""
        if not self.is_open:
            await self._gate.key(headers)

    async def serve(self, app: ASGIApp, scope: Scope, exchange: Exchange, room: RequestRoom) -> None:
        """Serve a request with a valid key; do a write with an ``Idempotency-Key`` once.

        Raises the errors of ``caller``, ``OverloadedError``, ``EncodedBodyError``, ``InvalidRequestError``,
        ``IdempotencyMismatchError``, ``IdempotencyConflictError``, ``DatabaseError``, and the application's errors.
        """
        headers = Headers(scope=scope)
        caller, allowance = await self.caller(headers)
        state = scope.setdefault("state", {})
        state[CALLER] = caller
        if is_stream(scope):
            state[STILL_ALLOWED] = lambda: self.check(headers)
        if not room.belongs_to(caller.key_id):
            raise problems.OverloadedError("too many requests with this API key are in progress; try again in a moment")
        if allowance is not None:
            exchange.headers += [(name.lower().encode(), value.encode()) for name, value in allowance.headers().items()]
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise problems.EncodedBodyError
        with reading_after(headers.get(AFTER_WRITE)):
            method, path = scope["method"], scope["path"]
            if method not in _WRITES or (method == "POST" and path.endswith(_REPEATABLE)):
                await app(scope, exchange.receive, exchange.send)
                return
            send = self._with_token(exchange.send)
            if (key := idempotency_key(headers)) is None:
                await app(scope, exchange.receive, send)
                return
            for message in await self._answer_once(app, scope, exchange.receive, caller, key):
                await send(message)

    def _with_token(self, send: Send) -> Send:
        """Adds the token of the write to the response if searches read from replicas."""

        async def with_token(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                host = next(iter(self.service.opened), None)  # if none is open, nothing was written
                if host is not None and host.database.replicas is not None:
                    with suppress(DatabaseError):  # the write succeeded even without a token
                        token = (WRITE_TOKEN, (await token_of(host.database)).encode())
                        message["headers"] = [*message.get("headers", ()), token]
            await send(message)

        return with_token

    async def _answer_once(
        self, app: ASGIApp, scope: Scope, receive: Receive, caller: Caller, key: str
    ) -> list[Message]:
        """The response to the write, or the stored response to an earlier request with the idempotency key."""
        platform = await self.service.of_tenant(caller.tenant, scope)
        body = await Request(scope, receive).body()
        attempt = Attempt(
            tenant_id=platform.tenant_id,
            key_id=caller.key_id,
            idempotency_key=key,
            attempt=uuid.uuid4(),
            request_hash=_hash(scope, body),
        )
        scope["state"][WRITE] = _identity(attempt)
        writing = asyncio.create_task(self._write(app, scope, body, platform.database, attempt))
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)
        while not writing.done():
            with suppress(asyncio.CancelledError):  # neither the deadline nor a disconnect ends the write
                await asyncio.wait([writing])
        return writing.result()

    async def _write(
        self, app: ASGIApp, scope: Scope, body: bytes, database: Database, attempt: Attempt
    ) -> list[Message]:
        """Let the application do the write, and store the outcome."""
        unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        answer: list[Message] = []
        failure: Exception | None = None

        async def receive() -> Message:
            if not unread:
                await asyncio.Event().wait()  # the application sees no disconnect during the write
            return unread.pop()

        async def send(message: Message) -> None:
            answer.append(message)

        seconds = seconds_left() + FINISH_SECONDS
        hold_seconds = self.service.settings.http_deadline_seconds + HOLD_MORE_SECONDS
        try:
            with deadline(Deadline(time.monotonic() + seconds)):
                async with asyncio.timeout(seconds):
                    earlier = await begin_write(database, attempt, hold_seconds=hold_seconds)
                    if earlier is not None:
                        return _repeated(earlier, attempt)
                    try:
                        await app(scope, receive, send)
                    except Exception as error:  # noqa: BLE001 - raised again when the key is free
                        failure = error
        except TimeoutError:
            raise late() from None  # its outcome is unknown: the key stays held until it expires
        has_failed = failure is not None or answer[0]["status"] >= 400
        storing = free_key(database, attempt) if has_failed else keep_answer(database, attempt, _answer_of(answer))
        try:
            await in_background(storing)  # beyond the deadline of the request
        except RetrievalError as error:
            _log.warning("the outcome of a write with an idempotency key was not stored: %s", error)
        if failure is not None:
            raise failure
        return answer


def _answer_of(messages: list[Message]) -> KeptAnswer:
    start, *parts = messages
    headers = Headers(raw=list(start.get("headers", ())))
    body = b"".join(part.get("body", b"") for part in parts)
    return KeptAnswer(
        status=start["status"],
        headers={name: headers[name] for name in _KEPT_HEADERS if name in headers},
        body=body if len(body) <= LONGEST_ANSWER else None,
    )


def _repeated(earlier: Earlier, attempt: Attempt) -> list[Message]:
    """The response to the earlier request. Raises ``IdempotencyMismatchError`` and ``IdempotencyConflictError``."""
    answer = earlier.answer
    if earlier.request_hash != attempt.request_hash:
        raise problems.IdempotencyMismatchError
    if answer is None:
        message = "a request with this Idempotency-Key is in progress; try again in a moment"
        raise problems.IdempotencyConflictError(message, headers={"Retry-After": "1"})
    if answer.body is None:
        raise problems.IdempotencyConflictError(
            f"this was done, with status {answer.status}; the response had more than {LONGEST_ANSWER:,} bytes and is "
            "not stored: read what you need"
        )
    headers = MutableHeaders(answer.headers)
    headers["idempotency-replayed"] = "true"
    if answer.status != 204:
        headers["content-length"] = str(len(answer.body))
    return [
        {"type": "http.response.start", "status": answer.status, "headers": headers.raw},
        {"type": "http.response.body", "body": answer.body},
    ]


def _hash(scope: Scope, body: bytes) -> bytes:
    """The hash of a request's method, path, query string, body, and of the headers that change what it does."""
    path, headers = scope.get("raw_path") or scope["path"].encode(), Headers(scope=scope)
    meaning = (headers.get(name, "").encode("latin-1") for name in ("content-type", "if-match", "if-none-match"))
    parts = (scope["method"].encode(), path, scope.get("query_string", b""), *meaning, body)
    return sha256(b"\n".join(parts)).digest()


def _identity(attempt: Attempt) -> uuid.UUID:
    """The identity of a write, the same in all its repetitions."""
    named = f"{attempt.key_id}\n{attempt.idempotency_key}\n".encode()
    return uuid.UUID(bytes=sha256(named + attempt.request_hash).digest()[:16], version=5)
