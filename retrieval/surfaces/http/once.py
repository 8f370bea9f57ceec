"""Writes that are done once: the answer to one that bears an ``Idempotency-Key`` is kept for a day, if it succeeded.

One that failed may be sent again under its key. A write that was begun, once its body is there, goes on to its end also
when its client hangs up or its time is over, so that whoever sends it again hears what became of it.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Coroutine
from contextlib import suppress
from hashlib import sha256
from typing import Any

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
from retrieval.domain.errors import InvalidRequestError, RetrievalError
from retrieval.surfaces.http.problems import IdempotencyConflictError, IdempotencyMismatchError

_log = logging.getLogger(__name__)

HEADER = "idempotency-key"
LONGEST_KEY = 255
LONGEST_ANSWER = 64 * 1024
"""Bytes of an answer that are kept."""

FINISH_SECONDS = 5.0
"""How much longer than another request a write with an ``Idempotency-Key`` may take."""

HOLD_MORE_SECONDS = FINISH_SECONDS + 5.0
"""How much longer than its deadline a request holds its key: until nothing of it can be going on any more."""

_KEPT_HEADERS = ("content-type", "etag", "last-modified", "location")


def idempotency_key(headers: Headers) -> str | None:
    """The key of a write; None: none is given. Raises ``InvalidRequestError``."""
    given = headers.getlist(HEADER)
    if not given:
        return None
    key = given[0]
    if len(given) > 1 or not 1 <= len(key) <= LONGEST_KEY or not (key.isascii() and key.isprintable()):
        raise InvalidRequestError(f"an Idempotency-Key has 1 to {LONGEST_KEY} printable ASCII characters, and is one")
    return key


class OnceOnly:
    """Has writes done once; close it when the application ends. A request may take ``deadline_seconds``."""

    def __init__(self, *, deadline_seconds: float) -> None:
        self._hold_seconds = deadline_seconds + HOLD_MORE_SECONDS
        self._writing: set[asyncio.Task[list[Message]]] = set()

    async def aclose(self) -> None:
        """Wait for what is being written."""
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
        """Answer a write by the application, or as it was answered before to the tenant's API key.

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
    """Have it written, and what became of it kept; gives the answer."""
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
        raise late() from None  # nobody knows how far it came: the key stays held for its time
    except Exception:
        await _told(free_key(database, attempt))
        raise
    has_failed = answer[0]["status"] >= 400
    await _told(free_key(database, attempt) if has_failed else keep_answer(database, attempt, _answer_of(answer)))
    return answer


async def _told(work: Coroutine[Any, Any, None]) -> None:
    """Tell the database, beyond the deadline of the request; it raises nothing."""
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
