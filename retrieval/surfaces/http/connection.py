"""A connection of the server and an exchange of request and answer on it: the deadline, hang-ups, bounds on bytes.

uvicorn reads a head of any size, in quadratic time, before any key is checked: ``Connection`` bounds the head. It also
notifies the request in progress when its client hangs up. The reverse proxy bounds clients that send slowly or not at
all (docs/how-to/deploy.md).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Protocol, Self

from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from retrieval.adapters.store.deadline import Deadline, late, reset_deadline, set_deadline
from retrieval.surfaces.http.answers import answer_to, report
from retrieval.surfaces.http.problems import MEDIA_TYPE, BodyTimeoutError, BodyTooLargeError, encoded, problem_of_status

HEAD_BYTES = 64 * 1024
"""The most bytes of a request's line and headers, of trailers after a body, and of anything else outside a body."""

_PIECE_BYTES = HEAD_BYTES // 4
_EXTENSION = "retrieval.connection"

_TOO_LARGE = encoded(problem_of_status(431, f"the request's line and headers have more than {HEAD_BYTES:,} bytes"))
_UNREADABLE = encoded(problem_of_status(400, "this is no request of HTTP"))


class Wire(Protocol):
    """The connection of a request, as an exchange needs it."""

    is_lost: bool
    """Whether the client has hung up."""
    on_lost: Callable[[], None] | None
    """Called when the client hangs up."""

    def abort(self) -> None:
        """Drop the connection at once, with the unsent data."""


def extensions(wire: Wire) -> dict[str, Any]:
    """The extensions in the scope of a request on that connection."""
    return {_EXTENSION: {"wire": wire}}


class Connection(HttpToolsProtocol):
    """Limits the received bytes outside of bodies."""

    is_lost = False
    on_lost: Callable[[], None] | None = None
    _unsettled = 0
    """The bytes read since a head or a body was complete, or since a part of a body came."""
    _is_refused = False

    def abort(self) -> None:
        """Drop the connection at once, with the unsent data."""
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the request in progress that its client hung up."""
        super().connection_lost(exc)
        self.is_lost = True
        if self.on_lost is not None:
            self.on_lost()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request, or of several, in pieces: a body and the head behind it may come together."""
        for start in range(0, len(data), _PIECE_BYTES):
            if self._is_refused:
                return
            piece = data[start : start + _PIECE_BYTES]
            self._unsettled += len(piece)
            if self._unsettled > HEAD_BYTES:
                self._refuse(431, _TOO_LARGE)
            else:
                super().data_received(piece)

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self.scope["extensions"] = extensions(self)

    def on_headers_complete(self) -> None:
        """Its head is there."""
        self._unsettled = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of its body came."""
        self._unsettled = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """It is complete."""
        self._unsettled = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answers a request that cannot be read."""
        del msg
        self._refuse(400, _UNREADABLE)

    def _refuse(self, status: int, body: bytes) -> None:
        if self.transport.is_closing():
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self.abort()  # A refusal would be in the middle of another answer.
            return
        head = (
            f"HTTP/1.1 {status} {json.loads(body)['title']}\r\ncontent-type: {MEDIA_TYPE}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        # If the connection were closed before the request is read, the client might never see the answer.
        self._is_refused = True
        self.transport.write_eof()
        self.loop.call_later(self.timeout_keep_alive, self.transport.close)


GRACE_SECONDS = 0.2
"""The seconds after its deadline when a request is cancelled; the database ends late statements by itself before."""


class Exchange(AbstractAsyncContextManager["Exchange"]):
    """One request and its answer; ``async with`` gives it ``seconds``, which begin anew with each part of a stream.

    At the end of the block ``TimeoutError`` is raised for a request that is late or whose client hung up.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self.headers: list[tuple[bytes, bytes]] = []
        """Added to those of the answer."""
        self.status = 0
        """The status of the answer; 0: it has not begun."""
        self.on_start: Callable[[], None] = lambda: None
        """Called when the answer begins, unless it is a stream: a client may take its time to read it."""
        self.is_gone = self._is_complete = self._flows = False
        self._wire: Wire | None = scope.get("extensions", {}).get(_EXTENSION, {}).get("wire")
        self._read = 0

    def limit(self, *, seconds: float, body_bytes: int, has_body: bool, flows: bool) -> Self:
        """Set how long the request may take, and how large its body may be."""
        self._seconds, self._body_bytes, self._is_body_read, self._flows = seconds, body_bytes, not has_body, flows
        return self

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self.deadline = Deadline(loop.time() + self._seconds, loop.time)
        self._token = set_deadline(self.deadline)
        self._timeout = asyncio.timeout_at(self.deadline.until + GRACE_SECONDS)
        await self._timeout.__aenter__()
        if self._wire is not None:
            self._wire.on_lost = self._hang_up
            if self._wire.is_lost:
                self._hang_up()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The next request of the connection may have begun, once this one was answered.
        if self._wire is not None and self._wire.on_lost == self._hang_up:
            self._wire.on_lost = None
        reset_deadline(self._token)
        await self._timeout.__aexit__(kind, error, trace)

    async def receive(self) -> Message:
        """Give the application the next part of the request; of a body that is too large, a disconnect."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._read += len(message.get("body", b""))
            if self._read > self._body_bytes:
                await self.refuse(BodyTooLargeError(self._body_bytes))
                return {"type": "http.disconnect"}
            self._is_body_read = not message.get("more_body", False)
            self._go_on()
        return message

    async def send(self, message: Message) -> None:
        """Send the next part of the application's answer."""
        if self._is_complete:
            return
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), *self.headers]
            if not self._flows:
                self.on_start()
        await self._send(message)
        self._is_complete = message["type"] == "http.response.body" and not message.get("more_body", False)
        self._go_on()

    async def refuse(self, error: Exception) -> None:
        """Answer with the problem document of the error, unless the answer has begun or the client has left."""
        if self.is_gone:
            return
        if self.status:
            report(error)
        else:
            await answer_to(error, self._scope)(self._scope, self._receive, self.send)

    @property
    def is_late(self) -> bool:
        """Whether the request took too long, or its client hung up."""
        return self._timeout.expired()

    async def tell_late(self) -> None:
        """Answer that the request took too long; an answer that has begun is broken off."""
        if self.status and self._wire is not None:
            self._wire.abort()
        await self.refuse(late() if self._is_body_read else BodyTimeoutError())

    def _go_on(self) -> None:
        """Restart the time limit of a stream: it may last as long as it makes progress."""
        if self._flows and not self._timeout.expired():
            self.deadline.until = self.deadline.clock() + self._seconds
            self._timeout.reschedule(self.deadline.until + GRACE_SECONDS)

    def _hang_up(self) -> None:
        """End the request, because its client has left."""
        if not self._is_complete and not self._timeout.expired():
            self.is_gone = True
            self._timeout.reschedule(0)
