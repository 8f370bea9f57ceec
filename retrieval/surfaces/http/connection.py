"""Connections of the server and their requests: deadlines, disconnects, and limits on the received bytes.

uvicorn reads a header block of any size, in quadratic time, before any key is checked: ``Connection`` limits its size.
It also notifies the request in progress when its client disconnects, and ignores offers to switch the protocol, for
which httptools drops the body. The reverse proxy limits clients that send slowly or not at all (docs/how-to/deploy.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import httptools
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from retrieval.adapters.store.deadline import Deadline, deadline, late
from retrieval.surfaces.http.answers import answer_to, report
from retrieval.surfaces.http.problems import MEDIA_TYPE, BodyTimeoutError, BodyTooLargeError, encoded, problem_of_status

HEAD_BYTES = 64 * 1024
"""The greatest number of bytes of a request's line and headers, and of trailers and other bytes outside a body."""

REST_SECONDS = 10.0
"""The seconds that the rest of a request is read after its response, before the connection is closed."""

_PIECE_BYTES = HEAD_BYTES // 4
EXTENSION = "retrieval.connection"
"""The extension in a request's scope that has its connection."""


class Connection(HttpToolsProtocol):
    """Limits the number of bytes received outside of bodies, and ignores offers to switch the protocol."""

    is_lost = False
    """Whether the client has disconnected."""
    on_lost: Callable[[], None] | None = None
    """Called when the client disconnects."""
    _unsettled = 0
    """The bytes read since the last header block, body or part of a body was complete."""
    _is_refused = False

    def abort(self) -> None:
        """Drop the connection at once, with the unsent data."""
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the request in progress that its client disconnected."""
        super().connection_lost(exc)
        self.is_lost = True
        if self.on_lost is not None:
            self.on_lost()

    def data_received(self, data: bytes) -> None:
        """Read received bytes in pieces, because they may hold a body and the headers of the next request."""
        start = 0
        while start < len(data) and not self._is_refused:
            room = min(_PIECE_BYTES, HEAD_BYTES - self._unsettled)
            piece = data[start : start + room]
            start += room
            self._unsettled += len(piece)
            if room:
                self._parse(piece)
            else:
                self._refuse(431, f"the request's line and headers have more than {HEAD_BYTES:,} bytes; send less")

    def _parse(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        while data:
            try:
                self.parser.feed_data(data)
                data = b""
            except httptools.HttpParserUpgrade as offer:
                if self.parser.get_method() == b"CONNECT":
                    self._refuse(400, "this service is no tunnel")
                    break
                data = self._head_without_offer() + data[offer.args[0] :]
                # After an offer on a connection that ends with this request, the former parser would read nothing more.
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as in uvicorn
            except httptools.HttpParserError:
                self._refuse(400, "this is not an HTTP request")
                break

    def _head_without_offer(self) -> bytes:
        """The head of the request without ``Upgrade``, after which the parser expects another protocol."""
        version = self.parser.get_http_version().encode()
        lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, version)]
        lines += [b"%s: %s" % header for header in self.headers if header[0] != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self.scope["extensions"] = {EXTENSION: {"connection": self}}

    def on_headers_complete(self) -> None:
        """The headers of the request are complete."""
        self._unsettled = 0
        if not self.parser.should_upgrade():
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the request's body arrived."""
        self._unsettled = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._unsettled = 0
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def _refuse(self, status: int, detail: str) -> None:
        self._is_refused = True
        if self.transport.is_closing():
            return
        if self.cycle is not None and not self.cycle.response_complete:
            if self.cycle.response_started or self.pipeline:
                self.abort()  # a refusal would be in the middle of another response
                return
            # The body of this request is at fault: its route gets no more of it, and its response is not sent.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        problem = problem_of_status(status, detail)
        body = encoded(problem)
        head = (
            f"HTTP/1.1 {status} {problem['title']}\r\ncontent-type: {MEDIA_TYPE}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        # Closing the connection before the whole request is read could discard the response at the client.
        self.transport.write_eof()
        self.loop.call_later(REST_SECONDS, self.transport.close)


GRACE_SECONDS = 0.2
"""The seconds between a request's deadline, at which the database ends its statements, and its cancellation."""


class Exchange:
    """One request and its response."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self.sent_headers: dict[bytes, bytes] = dict(scope["headers"])
        """The headers of the request; of a repeated one the last."""
        self.headers: list[tuple[bytes, bytes]] = []
        """Headers that are added to the response."""
        self.status = 0
        """The status of the response; 0: it has not begun."""
        self.refusal: Exception | None = None
        """The error that ended the request outside its route, or None."""
        self.on_start: Callable[[], None] = lambda: None
        """Called when the response begins, unless it is a stream: the client may read it slowly."""
        self.is_gone = self._is_complete = self._is_stream = self._is_awaited = False
        sent = self.sent_headers
        self._is_body_read = b"transfer-encoding" not in sent and sent.get(b"content-length", b"0") == b"0"
        is_last = scope.get("http_version") == "1.0" or b"close" in sent.get(b"connection", b"").lower()
        # A client that waits for "100 Continue" sends no body after a response.
        self._reads_rest = is_last and b"expect" not in sent
        self._connection: Connection | None = scope.get("extensions", {}).get(EXTENSION, {}).get("connection")
        self._read = 0

    @asynccontextmanager
    async def limit(self, *, seconds: float, body_bytes: int, is_stream: bool) -> AsyncIterator[None]:
        """Limit the time of the request in the block, and the size of its body.

        The time of a stream restarts with each part. The block raises ``TimeoutError`` at its end if
        the request is late or its client disconnected.
        """
        self._seconds, self._body_bytes, self._is_stream = seconds, body_bytes, is_stream
        loop, connection = asyncio.get_running_loop(), self._connection
        self._deadline = Deadline(loop.time() + seconds, loop.time)
        async with asyncio.timeout_at(self._deadline.until + GRACE_SECONDS) as self._timeout:
            if connection is not None:
                connection.on_lost = self._hang_up
                if connection.is_lost:
                    self._hang_up()
            try:
                with deadline(self._deadline):
                    yield
            finally:
                # The next request on the connection may have begun, and have set its own callback.
                if connection is not None and connection.on_lost == self._hang_up:
                    connection.on_lost = None
                self._is_stream = False  # a refusal that follows has no time limit to restart

    async def receive(self) -> Message:
        """The next part of the request for the application; a disconnect if the body is too large."""
        self._is_awaited = True  # and stays so if the time ends meanwhile
        message = await self._receive()
        self._is_awaited = False
        if message["type"] == "http.request":
            self._read += len(message.get("body", b""))
            if self._read > self._body_bytes:
                await self.refuse(BodyTooLargeError(self._body_bytes))
                return {"type": "http.disconnect"}
            self._is_body_read = not message.get("more_body", False)
            self._restart_limit()
        return message

    async def send(self, message: Message) -> None:
        """Send the next part of the application's response."""
        if self._is_complete:
            return
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), *self.headers]
            if not self._is_stream:
                self.on_start()
        is_end = message["type"] == "http.response.body" and not message.get("more_body", False)
        if is_end and self._reads_rest and not self._is_body_read:
            await self._send({**message, "more_body": True})
            await self._read_rest()
            message = {"type": "http.response.body"}
        await self._send(message)
        self._is_complete = is_end
        self._restart_limit()

    async def _read_rest(self) -> None:
        """Read the rest of the body: a connection that is closed before could discard the response at the client."""
        with suppress(TimeoutError):
            async with asyncio.timeout(REST_SECONDS):
                while not self._is_body_read:
                    self._is_body_read = not (await self._receive()).get("more_body", False)

    async def refuse(self, error: Exception) -> None:
        """Respond with the error's problem document, unless a response has begun or the client has disconnected."""
        if self.is_gone:
            return
        self.refusal = error
        if self.status:
            report(error)
        else:
            await answer_to(error, self._scope)(self._scope, self._receive, self.send)

    @property
    def is_late(self) -> bool:
        """Whether the request took too long, or its client disconnected."""
        return self._timeout.expired()

    async def refuse_late(self) -> None:
        """Respond that the request took too long; a response that has begun is aborted."""
        if self.status and self._connection is not None:
            self._connection.abort()
        await self.refuse(BodyTimeoutError() if self._is_awaited and not self._is_body_read else late())

    def _restart_limit(self) -> None:
        """Restart the time limit of a stream, which may take as long as it makes progress."""
        if self._is_stream and not self._timeout.expired():
            self._deadline.until = self._deadline.clock() + self._seconds
            self._timeout.reschedule(self._deadline.until + GRACE_SECONDS)

    def _hang_up(self) -> None:
        """End the request, because its client has disconnected."""
        if not self._is_complete and not self._timeout.expired():
            self.is_gone = True
            self._timeout.reschedule(0)
