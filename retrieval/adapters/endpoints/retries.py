"""The meaning of an endpoint's refusals, and retries by exponential backoff with jitter."""

from __future__ import annotations

import logging
import math
import random
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from httpx2 import Response

from retrieval.adapters.endpoints.breaker import Role
from retrieval.domain.checks import JSONSyntaxError, JSONTextError, clean_text, is_finite, json_of
from retrieval.domain.errors import RetrievalError

logger = logging.getLogger(__name__)

T = TypeVar("T")

Sleep = Callable[[float], Awaitable[object]]
"""Waits for a number of seconds."""


class TryAgainError(Exception):
    """An attempt failed, and another may succeed. ``with_retries`` never raises this error.

    ``retry_after_seconds`` is the wait that the server asked for, or None.
    """

    def __init__(self, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """The number of attempts and the waits between them."""

    max_attempts: int = 6
    """The number of attempts, at least 1; the first one counts."""
    first_seconds: float = 0.5
    longest_seconds: float = 20.0
    """The longest wait between two attempts, unless the server asks for one."""
    longest_retry_after_seconds: float = 60.0
    """The longest wait that a server may ask for; on a longer one there is no further attempt."""

    def delay(self, failures: int, jitter: float) -> float:
        """Seconds to wait after the given number of failures (from 1), doubling each time; ``jitter`` is in [0, 1).

        The wait is between half and all of the doubled time ("equal jitter", M. Brooker, AWS Architecture Blog, 2015),
        so that clients which failed at the same time do not retry at the same time.
        """
        ceiling = min(self.longest_seconds, self.first_seconds * 2.0 ** min(failures - 1, 30))
        return ceiling * (1 + jitter) / 2


async def with_retries(
    attempt: Callable[[], Awaitable[T]],
    *,
    backoff: Backoff,
    sleep: Sleep,
    rng: random.Random,
    unavailable: type[RetrievalError],
    seconds_left: Callable[[], float] = lambda: math.inf,
) -> T:
    """Return the result of ``attempt``; retry it while it raises ``TryAgainError``.

    Raises ``unavailable`` when the attempts are used up, the server asks for too long a wait, or the next attempt would
    begin after ``seconds_left``. Other errors of the attempt pass through.
    """
    failures = 0
    while True:
        try:
            return await attempt()
        except TryAgainError as failure:
            failures += 1
            seconds = _wait(failure, failures, backoff, rng.random(), unavailable)
            if seconds >= seconds_left():
                raise _final_error(failure, failures, unavailable) from failure
            reason = str(failure)
        logger.info("%s; attempt %d in %.1f s", reason, failures + 1, seconds)
        await sleep(seconds)


def _wait(
    failure: TryAgainError, failures: int, backoff: Backoff, jitter: float, unavailable: type[RetrievalError]
) -> float:
    """Seconds until the next attempt. Raises ``unavailable`` if there is none."""
    requested = failure.retry_after_seconds
    if requested is not None and requested > backoff.longest_retry_after_seconds:
        raise unavailable(f"{failure}, and asks to wait {requested:.0f} seconds; try again after that") from failure
    if failures >= backoff.max_attempts:
        raise _final_error(failure, failures, unavailable) from failure
    delay = backoff.delay(failures, jitter)
    return delay if requested is None else requested + backoff.first_seconds * jitter


def _final_error(failure: TryAgainError, failures: int, unavailable: type[RetrievalError]) -> RetrievalError:
    attempts = "once" if failures == 1 else f"{failures} times"
    return unavailable(f"{failure} (tried {attempts}); try again later")


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds that an answer's ``Retry-After`` asks to wait, at least 0; None if absent or unreadable.

    Reads both forms of RFC 9110, section 10.2.3: a number of seconds, or a date, counted from ``now`` (time zone
    aware).
    """
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        return _seconds_until(value, now)
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _seconds_until(value: str, now: datetime) -> float | None:
    try:
        then = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    return max(0.0, (then - now).total_seconds())


_LONGEST_DETAIL = 200
_SAID = ("message", "detail", "error")
"""The members in which servers explain an error."""
_PASSING = frozenset({408, 409, 425, 429})
_TOO_LONG = re.compile(
    r"context.?length|too (long|large|many)|max\w*.{0,60}tokens|less than \d+ tokens|tokens per request",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointService:
    """A kind of service, with the texts of its messages and the classes of its errors."""

    serves: str
    """The plural name of its results: ``embeddings``."""
    operation: str
    """The operation's name in traces, by OpenTelemetry: ``embeddings``, ``chat``."""
    key: str
    """The setting of its key."""
    where: str
    """The settings of its model and its address, for advice."""
    refused_advice: str
    """The advice for a request that it refuses."""
    role: Role
    """Who asks it, and the errors if trying again later may help, and if only a person can mend the cause."""
    too_long: type[RetrievalError]
    """The error if the request has too many tokens."""
    refused: type[RetrievalError]
    """The error if the service refuses something about the request itself."""
    title: str = ""
    """The name of the service, for people; empty: its host is enough."""
    start: str = ""
    """The command that starts a server on this machine."""
    pull: str = ""
    """The command that downloads a model, with ``{model}`` in it."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The destination of a request, as messages name it."""

    service: EndpointService
    host: str
    model: str
    api_key: str = field(repr=False)
    """Never shown: it is removed from the server's answers."""

    def refusal(self, answer: Response, body: bytes, now: datetime) -> Exception:
        """The error to raise for an answer with such a status and body; ``now`` is time zone aware.

        ``TryAgainError`` for a transient status, else one of the service's errors.
        """
        said = _said(body)
        status, detail, rejected = answer.status_code, self._detail(said), self.service.role.rejected
        if status == 429 and isinstance(said, dict) and said.get("code") == "insufficient_quota":
            return rejected(f"{self.host}: the key's quota is used up (429); see the account's billing")
        if status in _PASSING or status >= 500:
            wait = retry_after(answer.headers, now)
            return TryAgainError(f"{self.host} answered {status}{detail}", retry_after_seconds=wait)
        if 300 <= status < 400:
            # Texts and key go only to the configured host.
            return rejected(
                f"{self.host} answered with a redirect ({status}), which is not followed; check {self.service.where}"
            )
        if status == 413 or (status in {400, 422} and _TOO_LONG.search(detail)):
            return self.service.too_long(f"{self.host}: too many tokens for {self.model!r}{detail}")
        if status in {401, 403, 404}:
            return rejected(self._advice(status, detail))
        return self.service.refused(
            f"{self.host} refused the request ({status}){detail}; check {self.service.refused_advice}"
        )

    def _advice(self, status: int, detail: str) -> str:
        if status == 401:
            # The server's own words often quote a part of the key.
            return f"{self.host} refused the key (401); check {self.service.key}"
        if status == 403:
            return f"{self.host}: the key may not use {self.model!r} (403){detail}; allow it or choose another"
        if self.service.pull:
            pull = self.service.pull.format(model=self.model)
            return f"{self.service.title} at {self.host} has no model {self.model!r} (404){detail}; get it with: {pull}"
        return (
            f"{self.host} has no model {self.model!r} or no {self.service.serves} (404){detail}; check "
            f"{self.service.where}"
        )

    def _detail(self, said: object) -> str:
        """The server's own words, on one line and without the key, after a colon; empty when it has none."""
        if isinstance(said, dict):
            said = next((said[name] for name in _SAID if isinstance(said.get(name), str)), None)
        words = self.quoted(said) if isinstance(said, str) else ""
        return f": {words}" if words else ""

    def quoted(self, words: str) -> str:
        """The beginning of the server's words, on one line, without control characters and without the key."""
        line = " ".join(clean_text(words, is_line=True).split())
        shown = line.replace(self.api_key, "[key]") if self.api_key else line
        return shown[:_LONGEST_DETAIL].rstrip(".")


def _said(body: bytes) -> object:
    """What the server says of an error: a JSON value, from its member ``error`` if there is one, or a text."""
    try:
        said = json_of(body)
    except JSONTextError:
        return body.decode(errors="replace")
    return said.get("error", said) if isinstance(said, dict) else said


def parsed_answer(body: bytes, *, whose: str, rejected: type[RetrievalError]) -> Any:
    """The JSON object or list in an answer's body; None for any other body.

    ``whose`` names the answer in messages. Raises ``TryAgainError`` for a body that ends too soon, and ``rejected`` for
    JSON that is not accepted.
    """
    try:
        answer = json_of(body)
    except JSONTextError as error:
        # A text that begins as JSON and ends too soon was cut; any other text is not an answer.
        text = body.strip()
        begins, ends = text[:1] in (b"{", b"["), text[-1:] in (b"}", b"]")
        if not text or (begins and (not ends or isinstance(error, JSONSyntaxError))):
            raise TryAgainError(f"{whose} was cut short") from None
        if begins:
            # The advice behind the reason is for the person who writes JSON.
            why = str(error).partition(";")[0]
            raise rejected(f"{whose} cannot be used: {why}; use another endpoint") from None
        return None
    return answer if isinstance(answer, dict | list) else None


_TOKENS = (("usage", "total_tokens"), ("prompt_eval_count",), ("meta", "billed_units", "input_tokens"))
"""The places of the number of tokens in the answers of OpenAI, Ollama and Cohere."""


def total_tokens(answer: Any) -> int:
    """The tokens that a server counted; 0 where its answer has no such number."""
    for path in _TOKENS:
        value = answer
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if is_finite(value) and value > 0:
            return int(value)
    return 0
