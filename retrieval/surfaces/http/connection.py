"""A connection of the server: a head has so many bytes and so much time, and who says nothing is not waited for.

The server's own protocol takes a head of any size, in quadratic time, and waits for it for ever; and both come before
any key.
"""

from __future__ import annotations

import asyncio
import json

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from retrieval.surfaces.http.hang_up import extensions
from retrieval.surfaces.http.problems import MEDIA_TYPE, encoded, problem_of_status

HEAD_BYTES = 64 * 1024
"""The most of a request's line and headers, of the trailers after a body, and of what else is no body."""

HEAD_SECONDS = 10.0
"""How long a head may take from its first byte, and the rest of a body after its answer."""

FIRST_SECONDS = 30.0
"""How long a new connection may say nothing."""

_TOO_LARGE = encoded(problem_of_status(431, f"the request's line and headers have more than {HEAD_BYTES:,} bytes"))
_UNREADABLE = encoded(problem_of_status(400, "this is no request of HTTP"))


class _HeadTooLargeError(Exception):
    """Ends the parser."""


class Connection(HttpToolsProtocol):
    """Counts what arrives and is no body yet; a timer runs only while a part of a head is awaited."""

    _unsettled = 0
    """Bytes since the last that made sense: since a head or a body was complete, or a part of a body came."""
    _arrived = 0
    """Bytes of the latest part that were not settled before it."""
    _timer: asyncio.TimerHandle | None = None
    _is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there."""
        super().connection_made(transport)
        self._extensions = extensions(transport.abort)
        self._wait(FIRST_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._settle()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Something of a request, or of several."""
        if self._is_refused:
            return
        is_first = not self._unsettled
        self._unsettled = self._arrived = self._unsettled + len(data)
        super().data_received(data)
        if self._unsettled > HEAD_BYTES:
            self._refuse(431, _TOO_LARGE)
        elif self._unsettled and is_first:
            self._wait(HEAD_SECONDS)

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self.scope["extensions"] = self._extensions

    def on_headers_complete(self) -> None:
        """Its head is there; one that came in a large part is measured, for where in that it began is not known."""
        if self._is_large():
            raise _HeadTooLargeError
        self._settle()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of its body; what nobody reads any more, for its request is answered, has to end soon."""
        if not self.cycle.response_complete:
            self._settle()
        else:
            self._unsettled = 1
        super().on_body(body)

    def on_message_complete(self) -> None:
        """It is complete."""
        self._settle()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """What came cannot be read, or its head is too large."""
        del msg
        if self._is_large():
            self._refuse(431, _TOO_LARGE)
        else:
            self._refuse(400, _UNREADABLE)

    def timeout_keep_alive_handler(self) -> None:
        """Nothing came after an answer; one that is not even read is not waited for."""
        self._leave()

    def _is_large(self) -> bool:
        if self._arrived <= HEAD_BYTES or not self.headers:
            return False
        # A name and a value stand with a colon and a line end, mostly also with a space.
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > HEAD_BYTES

    def _refuse(self, status: int, body: bytes) -> None:
        self._settle()
        if self.transport.is_closing():
            return
        if self._is_answering():
            self.transport.abort()  # A refusal would stand in the middle of another answer.
            return
        reason = json.loads(body)["title"]
        head = (
            f"HTTP/1.1 {status} {reason}\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n"
            "connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        # Closed while something of the request is unread, the client might never see the answer.
        self._is_refused = True
        self.transport.write_eof()
        self._wait(HEAD_SECONDS)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _settle(self) -> None:
        self._unsettled = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if self.transport.is_closing() else self.loop.call_later(seconds, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        if self._is_answering():
            self._wait(HEAD_SECONDS)  # Its time is the exchange's matter.
        else:
            self._leave()

    def _leave(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()
