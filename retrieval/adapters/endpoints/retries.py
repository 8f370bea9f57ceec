"""Trying again: exponential backoff with jitter that honours what the server asks for."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from retrieval.domain.errors import RetrievalError

logger = logging.getLogger(__name__)

T = TypeVar("T")

Sleep = Callable[[float], Awaitable[object]]
"""Waits for a number of seconds."""


class TryAgainError(Exception):
    """One attempt failed in a way that another may not. ``with_retries`` lets none of them out.

    ``retry_after_seconds`` is how long the server asked to wait, or None when it did not say.
    """

    def __init__(self, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How often to try and how long to wait in between."""

    max_attempts: int = 6
    """At least 1, the first one included."""
    first_seconds: float = 0.5
    longest_seconds: float = 20.0
    """The longest wait of our own choosing."""
    longest_retry_after_seconds: float = 60.0
    """The longest wait that a server may ask for; a longer one is given up at once."""

    def delay(self, failures: int, jitter: float) -> float:
        """Seconds to wait after that many failures (from 1), doubling each time; ``jitter`` is in [0, 1).

        Between half and all of the doubled time ("equal jitter", M. Brooker, AWS Architecture Blog, 2015), so
        that clients which failed together do not come back together.
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
    """What ``attempt`` returns, tried again while it raises ``TryAgainError``.

    Raises ``unavailable`` when the attempts are used up, the server asks for too long a wait, or the next attempt would
    begin when no ``seconds_left`` are left; anything else that the attempt raises passes through.
    """
    failures = 0
    while True:
        try:
            return await attempt()
        except TryAgainError as failure:
            failures += 1
            seconds = _wait(failure, failures, backoff, rng.random(), unavailable)
            if seconds >= seconds_left():
                raise _given_up(failure, failures, unavailable) from failure
            reason = str(failure)
        logger.info("%s; attempt %d in %.1f s", reason, failures + 1, seconds)
        await sleep(seconds)


def _wait(
    failure: TryAgainError, failures: int, backoff: Backoff, jitter: float, unavailable: type[RetrievalError]
) -> float:
    """Seconds until the next attempt; raises ``unavailable`` when there is none."""
    asked = failure.retry_after_seconds
    if asked is not None and asked > backoff.longest_retry_after_seconds:
        raise unavailable(f"{failure}, and asks to wait {asked:.0f} seconds; try again after that") from failure
    if failures >= backoff.max_attempts:
        raise _given_up(failure, failures, unavailable) from failure
    own = backoff.delay(failures, jitter)
    return own if asked is None else asked + backoff.first_seconds * jitter


def _given_up(failure: TryAgainError, failures: int, unavailable: type[RetrievalError]) -> RetrievalError:
    tried = "once" if failures == 1 else f"{failures} times"
    return unavailable(f"{failure} (tried {tried}); try again later")


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds that an answer's ``Retry-After`` asks to wait, at least 0; None when absent or unreadable.

    Both forms of RFC 9110, section 10.2.3: a number of seconds, or a date, counted from ``now`` (time zone
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
    except ValueError:
        return None
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    return max(0.0, (then - now).total_seconds())
