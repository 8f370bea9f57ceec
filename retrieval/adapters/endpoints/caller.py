"""Asking one endpoint: so many at once, each within its time, tried again where that may help, and counted."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable
from datetime import UTC, datetime
from typing import TypeVar

from httpx2 import Timeout
from openai import APIConnectionError, APIStatusError, APITimeoutError
from opentelemetry.trace import SpanKind, get_current_span
from opentelemetry.util.types import AttributeValue

from retrieval.adapters.endpoints.refusals import Endpoint
from retrieval.adapters.endpoints.retries import Backoff, Sleep, TryAgainError, with_retries
from retrieval.adapters.endpoints.usage import Usage
from retrieval.adapters.store.deadline import seconds_left
from retrieval.adapters.tracing import span

T = TypeVar("T")

_CONNECT_SHARE = 0.4
"""Of an attempt's time, for the connection and again for its TLS."""


class Caller:
    """Belongs to the event loop that it is first used in."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        timeout_seconds: float,
        max_concurrency: int,
        max_attempts: int,
        sleep: Sleep = asyncio.sleep,
        rng: random.Random | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """``timeout_seconds`` is for one attempt; ``max_attempts`` for one call, the first one included.

        ``max_concurrency``: requests under way at once in one lane.
        """
        self._endpoint = endpoint
        self._timeout_seconds = timeout_seconds
        self._slots = defaultdict[Hashable, asyncio.Semaphore](lambda: asyncio.Semaphore(max_concurrency))
        self._backoff = Backoff(max_attempts=max_attempts)
        self._sleep = sleep
        self._rng = rng or random.Random()  # noqa: S311 - jitter is no secret
        self._now = now
        self._requests = self._tokens = self._retries = 0

    @property
    def usage(self) -> Usage:
        """What has been asked so far."""
        return Usage(requests=self._requests, tokens=self._tokens, retries=self._retries)

    @property
    def timeout(self) -> Timeout:
        """What to give the client for a request that begins now, besides the time that an attempt has.

        Connecting ends before it is cancelled: the client leaves a connection open whose TLS handshake is.
        """
        seconds = min(self._timeout_seconds, seconds_left())
        return Timeout(seconds, connect=_CONNECT_SHARE * seconds)

    def count_tokens(self, tokens: int) -> None:
        """Add what an answer says that it took."""
        self._tokens += tokens
        get_current_span().set_attribute("gen_ai.usage.input_tokens", tokens)

    async def call(self, post: Callable[[], Awaitable[T]], lane: Hashable = None) -> T:
        """What ``post`` gives, which sends one request by the ``openai`` client and reads the answer.

        Calls of different lanes do not wait for each other. No attempt begins after the deadline of the task.
        Raises the service's errors, and what ``post`` raises besides the client's errors and ``TryAgainError``.
        """
        attempts = 0

        async def attempt() -> T:
            nonlocal attempts
            attempts += 1
            self._requests += 1
            self._retries += attempts > 1
            return await self._ask(post)

        endpoint = self._endpoint
        with span(f"{endpoint.service.operation} {endpoint.model}", SpanKind.CLIENT) as traced:
            try:
                async with self._slots[lane]:
                    return await with_retries(
                        attempt,
                        backoff=self._backoff,
                        sleep=self._sleep,
                        rng=self._rng,
                        unavailable=endpoint.service.unavailable,
                        seconds_left=seconds_left,
                    )
            finally:
                if traced is not None:
                    traced.set_attributes(_told(endpoint, attempts))

    async def _ask(self, post: Callable[[], Awaitable[T]]) -> T:
        """One request. Errors of the client are not chained to ours: they quote the server, which may quote the key."""
        host, seconds = self._endpoint.host, self._timeout_seconds
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            async with asyncio.timeout(seconds):
                return await post()
        except (TimeoutError, APITimeoutError):
            waited = min(seconds, round(loop.time() - started, 2))
            raise TryAgainError(f"{host} did not answer within {waited:g} seconds") from None
        except APIStatusError as refused:
            raise self._endpoint.refusal(refused, self._now()) from None
        except APIConnectionError as broken:
            reason = type(broken.__cause__ or broken).__name__
            raise TryAgainError(f"no connection to {host}, or it broke ({reason})") from None


def _told(endpoint: Endpoint, attempts: int) -> dict[str, AttributeValue]:
    return {
        "gen_ai.operation.name": endpoint.service.operation,
        "gen_ai.request.model": endpoint.model,
        "server.address": endpoint.host,
        "retrieval.attempts": attempts,
    }
