"""A connection of the server: bounds on heads, time and silence, and one exchange of request and answer.

Nobody waits for a deadline or for the end of a connection in a task of its own until it matters: most requests are
answered before, and pay for one timer only.

The server's own protocol takes a head of any size, in quadratic time, and waits for it for ever; and both come before
any key.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from enum import Enum
from typing import Any

from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from retrieval.adapters.store.deadline import Deadline, late
from retrieval.surfaces.http.answers import answer_to, report
from retrieval.surfaces.http.problems import MEDIA_TYPE, BodyTimeoutError, BodyTooLargeError, encoded, problem_of_status

_NAME, _CALL = "retrieval.hang_up", "call"

Extensions = dict[str, dict[object, object]]


def extensions(abort: Callable[[], None]) -> Extensions:
    """The extensions in the scope of each request; ``abort`` drops the connection and what it has yet to send."""
    return {_NAME: {_CALL: abort}}


def hang_up(scope: Scope) -> None:
    """Drop the request's connection at once, where the server can."""
    abort = scope.get("extensions", {}).get(_NAME, {}).get(_CALL)
    if abort is not None:
        abort()


WATCH_AFTER_SECONDS = 0.05
"""When a request is that old, its client is watched for hanging up."""

BODY_SECONDS = 10.0
"""How long a body may take that does not flow: a request that waits for its own takes the place of others."""

HELD_PARTS = 4
"""The parts of a body that are read before the application asks for them: this shows whether the client is there."""

GRACE_SECONDS = 0.2
"""The database ends what is late by itself; this much later, everything else is ended too."""

LET_GO_SECONDS = 1.0
"""How long what was ended may take to end, before the client is answered without it and it is ended again."""


class Ended(Enum):
    """Why a request was ended before its answer."""

    LATE = "late"
    HUNG_UP = "hung up"


class Exchange:
    """Watches over one request. ``begin`` it in the task that answers it, and ``end`` it there."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self.request_id = request_id
        self.ended: Ended | None = None
        """Why the application was ended, if it was."""
        self.on_answer: Callable[[], None] = lambda: None
        """Called once the whole answer is known; the client may take its time to read it."""
        self._start: Message | None = None
        self._task: asyncio.Task[Any] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._held: asyncio.Queue[Message] = asyncio.Queue(HELD_PARTS)
        self._alone: asyncio.Task[None] | None = None
        self._read = self._cancelled = 0
        self._is_listening = self._is_begun = self._is_complete = self._is_sending = self._flows = False
        self._is_body_read = True

    def begin(self, *, seconds: float, body_limit: int, has_body: bool, flows: bool) -> Deadline:
        """Set the time running; gives the deadline for the statements."""
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._seconds, self._limit, self._flows = seconds, body_limit, flows
        self._is_body_read = not has_body
        now = loop.time()
        self._deadline = Deadline(now + seconds, loop.time)
        self._body_until = math.inf if flows else now + BODY_SECONDS
        self._timer = loop.call_later(WATCH_AFTER_SECONDS, self._on_time)
        return self._deadline

    def end(self) -> None:
        """Nobody is watched any more."""
        self._task = None
        self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()

    async def receive(self) -> Message:
        """The next part of the request, for the application; of a body that is too large, that the client is gone."""
        message = await self._next()
        if message["type"] == "http.request":
            self._read += len(message.get("body", b""))
            if self._read > self._limit:
                await self.refuse(BodyTooLargeError(self._limit))
                return {"type": "http.disconnect"}
            self._is_body_read = not message.get("more_body", False)
            self._go_on()
        return message

    async def send(self, message: Message) -> None:
        """The next part of the answer, from the application; the head is sent with the body, unless that flows."""
        if self._is_complete:
            return
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), (b"x-request-id", self.request_id.encode())]
            self._start = message
            if not self._flows:
                return
        elif not message.get("more_body", False):
            self._is_complete = True
            self.on_answer()
        self._is_begun = self._is_sending = True
        if self._start is not None:
            start, self._start = self._start, None
            await self._send(start)
        if message["type"] != "http.response.start":
            await self._send(message)
        self._is_sending = False
        self._go_on()

    async def refuse(self, error: Exception) -> None:
        """Answer with the problem document of the error, unless the answer has begun or nobody waits for it."""
        if self.ended is Ended.HUNG_UP:
            return
        if self._is_begun:
            report(error)
        else:
            await answer_to(error, self._scope)(self._scope, self._receive, self.send)

    def ended_by_itself(self) -> bool:
        """Whether it was the exchange, and nobody else, that cancelled the task; it may then go on."""
        task = asyncio.current_task()
        for _ in range(self._cancelled):
            if task is not None:
                task.uncancel()
        return self.ended is not None and (task is None or not task.cancelling())

    async def tell_end(self) -> None:
        """Answer why the application was ended."""
        if self.ended is Ended.LATE:
            await self.refuse(late() if self._is_body_read else BodyTimeoutError())

    def _go_on(self) -> None:
        """A stream may take long, if only it goes on."""
        if self._flows:
            self._deadline.until = self._deadline.clock() + self._seconds

    def _on_time(self) -> None:
        """Watch for the client's hanging up, and end what is late; and come back for what is not yet."""
        loop, until = asyncio.get_running_loop(), self._deadline.until + GRACE_SECONDS
        if not self._is_body_read:
            until = min(until, self._body_until)
        if loop.time() >= until:
            self._stop(Ended.LATE)
            return
        if self._watcher is None and (self._is_body_read or not (self._flows or self._is_listening)):
            self._watcher = loop.create_task(self._wait_for_hang_up())
        # As long as it listens itself, the application hears of it.
        self._timer = loop.call_at(
            until if self._watcher else min(until, loop.time() + WATCH_AFTER_SECONDS), self._on_time
        )

    async def _next(self) -> Message:
        if self._watcher is not None and not (self._watcher.done() and self._held.empty()):
            return await self._held.get()
        self._is_listening = True
        try:
            return await self._receive()
        finally:
            self._is_listening = False

    async def _wait_for_hang_up(self) -> None:
        """Listen in the application's place, and hold for it what comes."""
        is_there = True
        while is_there:
            message = await self._receive()
            is_there = message["type"] == "http.request"
            self._is_body_read = self._is_body_read or not message.get("more_body", False)
            if not is_there:
                self._stop(Ended.HUNG_UP)
            await self._held.put(message)

    def _stop(self, why: Ended) -> None:
        is_sent = self._is_complete and not self._is_sending
        if self._task is not None and self.ended is None and not is_sent:
            self.ended = why
            if why is Ended.LATE and self._is_sending:
                hang_up(self._scope)
            self._cancel()

    def _cancel(self) -> None:
        if self._task is not None:
            self._timer.cancel()
            self._cancelled += 1
            self._task.cancel()
            self._timer = asyncio.get_running_loop().call_later(LET_GO_SECONDS, self._insist)

    def _insist(self) -> None:
        """The application does not let itself be ended: a server hangs, or the cancellation got lost.

        The client need not wait for it.
        """
        self._alone = asyncio.get_running_loop().create_task(self.tell_end())
        # The client may be gone, and the server say so.
        self._alone.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._cancel()


HEAD_BYTES = 64 * 1024
"""The most of a request's line and headers, of the trailers after a body, and of what else is no body."""

HEAD_SECONDS = 10.0
"""How long a head may take from its first byte, and the rest of a body after its answer."""

FIRST_SECONDS = 30.0
"""How long a new connection may say nothing."""

_PIECE_BYTES = HEAD_BYTES // 4

_TOO_LARGE = encoded(problem_of_status(431, f"the request's line and headers have more than {HEAD_BYTES:,} bytes"))
_UNREADABLE = encoded(problem_of_status(400, "this is no request of HTTP"))


class Connection(HttpToolsProtocol):
    """Bounds what arrives and is no body; a timer runs only while a part of a head is awaited."""

    _unsettled = 0
    """Bytes since the last that made sense: since a head or a body was complete, or a part of a body came."""
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
        """Read a part of a request, or of several, in pieces: a body and the head behind it may come together."""
        is_first = not self._unsettled
        for start in range(0, len(data), _PIECE_BYTES):
            if self._is_refused:
                return
            piece = data[start : start + _PIECE_BYTES]
            self._unsettled += len(piece)
            if self._unsettled > HEAD_BYTES:
                self._refuse(431, _TOO_LARGE)
            else:
                super().data_received(piece)
        if self._unsettled and is_first and not self._is_refused:
            self._wait(HEAD_SECONDS)

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self.scope["extensions"] = self._extensions

    def on_headers_complete(self) -> None:
        """Its head is there."""
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
        """Answers a request that cannot be read."""
        del msg
        self._refuse(400, _UNREADABLE)

    def timeout_keep_alive_handler(self) -> None:
        """Nothing came after an answer; one that is not even read is not waited for."""
        self._leave()

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
