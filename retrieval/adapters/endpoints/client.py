"""Calls to one endpoint: limits on concurrency and time, retries by exponential backoff with jitter, counters."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypedDict, TypeVar

from httpx2 import AsyncClient, RequestError, Response, Timeout, TimeoutException, create_ssl_context
from opentelemetry.trace import SpanKind, get_current_span

from retrieval.adapters.endpoints.endpoint import Endpoint, TryAgainError, total_tokens
from retrieval.adapters.store.deadline import seconds_left
from retrieval.adapters.tracing import span
from retrieval.domain.checks import checked_positive
from retrieval.domain.errors import ConfigurationError


async def _read(answer: Response, most_bytes: int) -> bytes:
    """The answer's body; of a longer body the beginning, which is longer than ``most_bytes``."""
    body = bytearray()
    async for part in answer.aiter_bytes():
        body += part
        if len(body) > most_bytes:
            break
    return bytes(body)


@cache
def _trust() -> ssl.SSLContext:
    """The trusted certificates, read once for all clients, because reading takes 40 ms."""
    return create_ssl_context()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointUsage:
    """Counts since the embedder or language model was made."""

    requests: int = 0
    """Requests sent, retries included."""
    tokens: int = 0
    """Tokens as the provider's answers count them; 0 if they do not."""
    retries: int = 0
    """The number of requests that repeated a failed one."""


T = TypeVar("T")

Sleep = Callable[[float], Awaitable[object]]
"""Waits for a number of seconds."""

_FIRST_SECONDS, _LONGEST_SECONDS = 0.5, 20.0
"""The first wait, and the longest between two attempts, unless the server asks for one."""

_LONGEST_RETRY_AFTER_SECONDS = 60.0
"""The longest wait that a server may ask for; on a longer one there is no further attempt."""

_log = logging.getLogger(__name__)


def delay(failures: int, jitter: float) -> float:
    """Seconds to wait after the given number of failures (from 1), doubling each time; ``jitter`` is in [0, 1).

    The wait is between half and all of the doubled time ("equal jitter", M. Brooker, AWS Architecture Blog, 2015), so
    that clients which failed at the same time do not retry at the same time.
    """
    ceiling = min(_LONGEST_SECONDS, _FIRST_SECONDS * 2.0 ** min(failures - 1, 30))
    return ceiling * (1 + jitter) / 2


MOST_ANSWER_BYTES = 64 * 1024 * 1024
"""The longest answer that is read, unless a caller says less. A million numbers take some 24 MB as decimals."""

_REFUSAL_BYTES = 64 * 1024
"""The bytes that are read of a refusal; messages quote its beginning."""

_CONNECT_SHARE = 0.4
"""The share of an attempt's time for connecting, and the same again for TLS."""


class CallLimits(TypedDict, total=False):
    """The limits of calls to an endpoint, and the functions for waiting and for the time: arguments of every client."""

    timeout_seconds: float
    """For one attempt, from connecting to the last byte of the answer; 30 by default."""
    max_attempts: int
    """For one call, the first attempt included."""
    max_concurrency: int
    """Requests under way at once; of an embedder, for documents and for queries each."""
    sleep: Sleep
    rng: random.Random
    """For jitter."""
    now: Callable[[], datetime]
    """The time, with a zone, from which the date of a ``Retry-After`` is counted."""


class EndpointClient:
    """The base of every client of an endpoint; belongs to the event loop that it is first used in.

    Overload (408, 409, 425, 429, 5xx), broken connections, truncated answers and timeouts are retried with
    exponential backoff and jitter, not before ``Retry-After``. A ``Retry-After`` of more than 60 s is not awaited.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        max_attempts: int,
        max_concurrency: int,
        timeout_seconds: float = 30.0,
        sleep: Sleep = asyncio.sleep,
        rng: random.Random | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """See ``CallLimits``. Raises ``ConfigurationError`` for an unusable endpoint or number."""
        endpoint.check()
        checked_positive("timeout_seconds", timeout_seconds, error=ConfigurationError)
        checked_positive("max_concurrency", max_concurrency, error=ConfigurationError)
        checked_positive("max_attempts", max_attempts, error=ConfigurationError)
        self._endpoint = endpoint
        self._client = AsyncClient(
            base_url=endpoint.url,
            headers={"Authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {},
            follow_redirects=False,  # texts go to the host that was set, and to no other
            verify=_trust(),
        )
        self._closed = False
        self._timeout_seconds = timeout_seconds
        self._slots = defaultdict[Hashable, asyncio.Semaphore](lambda: asyncio.Semaphore(max_concurrency))
        self._max_attempts = max_attempts
        self._sleep = sleep
        self._rng = rng or random.Random()  # noqa: S311 - jitter is no secret
        self._now = now
        self.usage = EndpointUsage()

    async def _post(self, path: str, body: Mapping[str, Any], *, most_bytes: int | None = None) -> Any:
        """The JSON of the answer to one request with a body of JSON, for use in ``_call``; its tokens are counted.

        Raises the client's errors, the error of ``Endpoint.refusal`` for any status but 2xx, the errors of
        ``Endpoint.parsed``, and the role's error of a rejected request for an answer of more than ``most_bytes``.
        """
        answer = await self._answer("POST", path, body, most_bytes or MOST_ANSWER_BYTES)
        tokens = total_tokens(answer)
        self.usage = replace(self.usage, tokens=self.usage.tokens + tokens)
        get_current_span().set_attribute("gen_ai.usage.input_tokens", tokens)
        return answer

    async def _get(self, path: str) -> Any:
        """The JSON of the answer to one request without a body, for use in ``_call``. Raises as ``_post`` does."""
        return await self._answer("GET", path, None, MOST_ANSWER_BYTES)

    async def _answer(self, method: str, path: str, body: Mapping[str, Any] | None, most_bytes: int) -> Any:
        endpoint = self._endpoint
        async with self._client.stream(method, path, json=body, timeout=self._timeout) as answer:
            if not answer.is_success:
                raise endpoint.refusal(answer, await _read(answer, _REFUSAL_BYTES), self._now())
            answer_body = await _read(answer, most_bytes)
        if len(answer_body) > most_bytes:
            raise endpoint.role.rejected(
                f"the answer of {endpoint.model!r} is longer than {most_bytes} bytes, the most that is read; check "
                f"{endpoint.where}"
            )
        return endpoint.parsed(answer_body)

    async def aclose(self) -> None:
        """Close the connections."""
        self._closed = True
        await self._client.aclose()

    @property
    def _timeout(self) -> Timeout:
        """The client's timeouts for a request that begins now.

        Connecting times out before the attempt is cancelled: the client does not close a connection whose TLS handshake
        is cancelled.
        """
        seconds = min(self._timeout_seconds, seconds_left())
        return Timeout(seconds, connect=_CONNECT_SHARE * seconds)

    async def _call(self, ask: Callable[[], Awaitable[T]], lane: Hashable = None) -> T:
        """Return the result of ``ask``, which sends one request by ``_post`` or ``_get`` and reads the answer.

        Calls of different lanes do not wait for each other. No attempt begins after the task's deadline. Raises the
        role's errors for ``TryAgainError`` and the client's, also after ``aclose``, and the other errors of ``ask``.
        """
        endpoint, attempts = self._endpoint, 0
        with span(f"{endpoint.operation} {endpoint.model}", SpanKind.CLIENT) as span_:
            try:
                async with self._slots[lane]:
                    while True:
                        if self._closed:
                            raise endpoint.role.closed()
                        attempts += 1
                        retries = self.usage.retries + (attempts > 1)
                        self.usage = replace(self.usage, requests=self.usage.requests + 1, retries=retries)
                        try:
                            return await self._attempt(ask)
                        except TryAgainError as failure:
                            seconds = self._seconds_after(failure, attempts)
                        await self._sleep(seconds)
            finally:
                if span_ is not None:
                    span_.set_attribute("gen_ai.operation.name", endpoint.operation)
                    span_.set_attribute("gen_ai.request.model", endpoint.model)
                    span_.set_attribute("server.address", endpoint.host)
                    span_.set_attribute("retrieval.attempts", attempts)

    def _seconds_after(self, failure: TryAgainError, attempts: int) -> float:
        """The seconds to wait before the next attempt.

        Raises the error of an unavailable service when the attempts are used up, the server asks for too long a wait,
        or the next attempt would begin after the deadline.
        """
        requested, jitter = failure.retry_after_seconds, self._rng.random()
        unavailable = self._endpoint.role.unavailable
        if requested is not None and requested > _LONGEST_RETRY_AFTER_SECONDS:
            raise unavailable(f"{failure}, and asks to wait {requested:.0f} seconds; try again after that") from failure
        seconds = delay(attempts, jitter) if requested is None else requested + _FIRST_SECONDS * jitter
        if attempts >= self._max_attempts or seconds >= seconds_left():
            times = "once" if attempts == 1 else f"{attempts} times"
            raise unavailable(f"{failure} (tried {times}); try again later") from failure
        _log.info("%s; attempt %d in %.1f s", failure, attempts + 1, seconds)
        return seconds

    async def _attempt(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Send one request. Errors do not chain the client's, which quote the server, which may quote the key."""
        host, seconds = self._endpoint.host, self._timeout_seconds
        loop = asyncio.get_running_loop()
        start = loop.time()
        try:
            async with asyncio.timeout(seconds):
                return await ask()
        except (TimeoutError, TimeoutException):
            waited = min(seconds, round(loop.time() - start, 2))
            raise TryAgainError(f"{host} did not answer within {waited:g} seconds") from None
        except RequestError as broken:
            reason = type(broken).__name__
            endpoint, is_refused = self._endpoint, _is_refused(broken)
            if is_refused or (reason == "ConnectError" and endpoint.start):
                advice = (
                    f"start it with: {endpoint.start}" if endpoint.start else f"start it, or check {endpoint.where}"
                )
                said = f"{endpoint.title or 'the server'} does not answer at {host}; {advice}"
                # No server listens there, so waiting some seconds is useless.
                raise endpoint.role.unavailable(said) if is_refused else TryAgainError(said) from None
            raise TryAgainError(f"no connection to {host}, or it broke ({reason})") from None


def _is_refused(error: BaseException) -> bool:
    """Whether the host refused the connection because no server listens at the address."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ConnectionRefusedError):
        cause = cause.__cause__ or cause.__context__
    return cause is not None
