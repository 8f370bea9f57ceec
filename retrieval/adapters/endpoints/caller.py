"""Calls to one endpoint, with limits on concurrency and time, retries, and counters."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeVar
from urllib.parse import urlsplit

from httpx2 import (
    URL,
    AsyncClient,
    InvalidURL,
    RequestError,
    Response,
    Timeout,
    TimeoutException,
    create_ssl_context,
)
from opentelemetry.trace import SpanKind, get_current_span
from opentelemetry.util.types import AttributeValue

from retrieval.adapters.endpoints import OPENAI_URL
from retrieval.adapters.endpoints.retries import Backoff, Endpoint, Sleep, TryAgainError, with_retries
from retrieval.adapters.store.deadline import seconds_left
from retrieval.adapters.tracing import span
from retrieval.domain.checks import is_number
from retrieval.domain.errors import ConfigurationError


def host_of(url: str) -> str:
    """Host and port, for messages: without the credentials that a URL can hold."""
    return urlsplit(url).netloc.rpartition("@")[2]


def shown_address(url: str) -> str:
    """The address without the credentials that it can hold."""
    return urlsplit(url)._replace(netloc=host_of(url)).geturl()


def check_address(url: str, *, what: str, settings: str) -> None:
    """Raise ``ConfigurationError`` for anything but an HTTP address; ``what`` names the server in the message.

    ``settings`` is the beginning of its settings' names.
    """
    try:
        parts = URL(url)
        is_usable = parts.scheme in {"http", "https"} and parts.host and (parts.port or 0) < 2**16
    except (InvalidURL, TypeError):
        is_usable = False
    if not is_usable:
        raise ConfigurationError(f"the {what} server needs an address like https://host/v1; set {settings}_BASE_URL")


def check_key(key: str, url: str, *, what: str, settings: str) -> None:
    """Raise ``ConfigurationError``, without the key, for a key that cannot be sent, or a missing key for OpenAI."""
    if not key and url.rstrip("/") == OPENAI_URL:
        raise ConfigurationError(f"OpenAI needs a key; set {settings}_API_KEY")
    # An HTTP library's error quotes a header that cannot be sent, and so the key.
    if not all("!" <= character <= "~" for character in key):
        raise ConfigurationError(
            f"the {what} key holds a space, a line break or a character outside ASCII; "
            f"set {settings}_API_KEY to the key alone"
        )


def check_positive(**numbers: object) -> None:
    """Raise ``ConfigurationError`` for an argument, by its name, that is not a number above 0."""
    for name, number in numbers.items():
        if not is_number(number) or number <= 0:
            raise ConfigurationError(f"{name} is {number!r:.80}; it must be a number above 0")


def _client_of(url: str, key: str) -> AsyncClient:
    """The client of the server.

    It follows no redirect: texts go to the host that was set, and to no other.
    """
    return AsyncClient(
        base_url=url,
        headers={"Authorization": f"Bearer {key}"} if key else {},
        follow_redirects=False,
        verify=_trust(),
    )


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

MOST_ANSWER_BYTES = 64 * 1024 * 1024
"""The longest answer that is read, unless a caller says less. A million numbers take some 24 MB as decimals."""

_REFUSAL_BYTES = 64 * 1024
"""As much is read of a refusal, whose beginning messages quote."""

_CONNECT_SHARE = 0.4
"""The share of an attempt's time for connecting, and the same again for TLS."""


class EndpointCaller:
    """Belongs to the event loop that it is first used in."""

    def __init__(
        self,
        endpoint: Endpoint,
        url: str,
        *,
        timeout_seconds: float,
        max_concurrency: int,
        max_attempts: int,
        sleep: Sleep = asyncio.sleep,
        rng: random.Random | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """``url`` is the endpoint's address, without the paths of requests.

        ``timeout_seconds`` is for one attempt; ``max_attempts`` for one call, the first one included.
        ``max_concurrency``: requests under way at once in one lane. Raises ``ConfigurationError`` for numbers that are
        not above 0.
        """
        check_positive(timeout_seconds=timeout_seconds, max_concurrency=max_concurrency, max_attempts=max_attempts)
        self._endpoint = endpoint
        self._client = _client_of(url, endpoint.api_key)
        self._closed = False
        self._timeout_seconds = timeout_seconds
        self._slots = defaultdict[Hashable, asyncio.Semaphore](lambda: asyncio.Semaphore(max_concurrency))
        self._backoff = Backoff(max_attempts=max_attempts)
        self._sleep = sleep
        self._rng = rng or random.Random()  # noqa: S311 - jitter is no secret
        self._now = now
        self._requests = self._tokens = self._retries = 0

    @property
    def usage(self) -> EndpointUsage:
        """The requests and tokens so far."""
        return EndpointUsage(requests=self._requests, tokens=self._tokens, retries=self._retries)

    async def post(self, path: str, body: Mapping[str, Any], *, most_bytes: int | None = None) -> bytes:
        """The body of the answer to one request with a body of JSON, for use in ``call``.

        Raises the client's errors, and for an answer with any status but 2xx the error that ``Endpoint.refusal`` makes.
        Raises the service's error of a rejected request for an answer of more than ``most_bytes``, else
        ``MOST_ANSWER_BYTES``, while it arrives.
        """
        return await self._answer("POST", path, body, most_bytes or MOST_ANSWER_BYTES)

    async def get(self, path: str) -> bytes:
        """The body of the answer to one request without a body, for use in ``call``. Raises as ``post`` does."""
        return await self._answer("GET", path, None, MOST_ANSWER_BYTES)

    async def _answer(self, method: str, path: str, body: Mapping[str, Any] | None, most_bytes: int) -> bytes:
        endpoint = self._endpoint
        async with self._client.stream(method, path, json=body, timeout=self._timeout) as answer:
            if not answer.is_success:
                raise endpoint.refusal(answer, await _read(answer, _REFUSAL_BYTES), self._now())
            answer_body = await _read(answer, most_bytes)
        if len(answer_body) > most_bytes:
            raise endpoint.service.role.rejected(
                f"the answer of {endpoint.model!r} is longer than {most_bytes} bytes, the most that is read; check "
                f"{endpoint.service.where}"
            )
        return answer_body

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

    def count_tokens(self, tokens: int) -> None:
        """Add the usage that an answer reports."""
        self._tokens += tokens
        get_current_span().set_attribute("gen_ai.usage.input_tokens", tokens)

    async def call(self, ask: Callable[[], Awaitable[T]], lane: Hashable = None) -> T:
        """Return the result of ``ask``, which sends one request by ``post`` or ``get`` and reads the answer.

        Calls of different lanes do not wait for each other. No attempt begins after the task's deadline. Raises the
        service's errors, also after ``aclose``, and those of ``ask`` except ``TryAgainError`` and the client's, which
        become the service's.
        """
        endpoint = self._endpoint
        attempts = 0

        async def attempt() -> T:
            nonlocal attempts
            if self._closed:
                raise endpoint.service.role.rejected(f"the {endpoint.service.role.name} is closed; make a new one")
            attempts += 1
            self._requests += 1
            self._retries += attempts > 1
            return await self._ask(ask)

        with span(f"{endpoint.service.operation} {endpoint.model}", SpanKind.CLIENT) as span_:
            try:
                async with self._slots[lane]:
                    return await with_retries(
                        attempt,
                        backoff=self._backoff,
                        sleep=self._sleep,
                        rng=self._rng,
                        unavailable=endpoint.service.role.unavailable,
                        seconds_left=seconds_left,
                    )
            finally:
                if span_ is not None:
                    span_.set_attributes(_attributes(endpoint, attempts))

    async def _ask(self, ask: Callable[[], Awaitable[T]]) -> T:
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
            service, is_refused = self._endpoint.service, _is_refused(broken)
            if is_refused or (reason == "ConnectError" and service.start):
                advice = f"start it with: {service.start}" if service.start else f"start it, or check {service.where}"
                said = f"{service.title or 'the server'} does not answer at {host}; {advice}"
                # No server listens there, so waiting some seconds is useless.
                raise service.role.unavailable(said) if is_refused else TryAgainError(said) from None
            raise TryAgainError(f"no connection to {host}, or it broke ({reason})") from None


def _is_refused(error: BaseException) -> bool:
    """Whether the host refused the connection because no server listens at the address."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ConnectionRefusedError):
        cause = cause.__cause__ or cause.__context__
    return cause is not None


def _attributes(endpoint: Endpoint, attempts: int) -> dict[str, AttributeValue]:
    return {
        "gen_ai.operation.name": endpoint.service.operation,
        "gen_ai.request.model": endpoint.model,
        "server.address": endpoint.host,
        "retrieval.attempts": attempts,
    }
