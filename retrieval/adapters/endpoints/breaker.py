"""A circuit breaker: searches do not wait for an embedder, language model or reranker that does not answer."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from retrieval.adapters.store.deadline import LateError, seconds_left, within
from retrieval.domain import errors

T = TypeVar("T")

Ask = Callable[[], Awaitable[T]]

MOST_KEPT = 256
"""The most services whose breakers are kept; beyond that the least recently used breaker is dropped."""

_LONGEST_REASON = 200
_FINISH_SECONDS = 2.0
"""The part of a deadline that is reserved for storing the results."""

_log = logging.getLogger(__name__)


class Permit:
    """A call that a breaker allows."""


@dataclass(slots=True)
class Breaker:
    """Decides whether a service is called. Pure: callers pass times in seconds of a monotonic clock.

    A closed breaker permits every call. ``most_failures`` failures in a row open it, or one call that used up its
    budget. An open breaker refuses calls for a while, and then permits one call at a time, the probe. A success closes
    it; a failed probe doubles the wait, up to a bound (M. Nygard, "Release It!", 2007, "Circuit Breaker").
    """

    most_failures: int = 3
    first_wait_seconds: float = 1.0
    longest_wait_seconds: float = 30.0
    _failures: int = 0
    _wait_seconds: float = 0.0
    _until: float = 0.0
    _probe: Permit | None = None

    @property
    def is_open(self) -> bool:
        """Whether calls are refused, except a probe."""
        return self._wait_seconds > 0

    def permit(self, now: float) -> Permit | None:
        """A permit for a call; None: the call is refused. ``release`` has to follow it, whatever its outcome."""
        permit = Permit()
        if self.is_open:
            if self._probe is not None or now < self._until:
                return None
            self._probe = permit
        return permit

    def record_success(self) -> None:
        """Close the breaker: a call was answered."""
        self._failures, self._wait_seconds, self._probe = 0, 0.0, None

    def record_failure(self, permit: Permit, now: float, *, is_spent: bool) -> None:
        """Count a call that was not answered; ``is_spent``: it used up its budget.

        While the breaker is open, only the probe counts.
        """
        if permit is self._probe:
            self._open(min(2 * self._wait_seconds, self.longest_wait_seconds), now)
        elif not self.is_open:
            self._failures += 1
            if is_spent or self._failures >= self.most_failures:
                self._open(self.first_wait_seconds, now)

    def release(self, permit: Permit) -> None:
        """End a call. If it neither succeeded nor failed, another call may be the probe."""
        if permit is self._probe:
            self._probe = None

    def _open(self, wait_seconds: float, now: float) -> None:
        self._failures, self._wait_seconds, self._until, self._probe = 0, wait_seconds, now + wait_seconds, None


@dataclass(frozen=True, slots=True)
class Role:
    """A kind of service, with its name and its errors."""

    name: str
    """``embedder``, ``language model`` or ``reranker``."""
    unavailable: type[errors.RetrievalError]
    """Raised when it does not answer."""
    rejected: type[errors.RetrievalError]
    """Raised by a service that answered, and refused."""
    more_time: str = ""
    """The advice behind the message of a spent budget."""

    def closed(self) -> errors.RetrievalError:
        """The error of a call after ``aclose``."""
        return self.rejected(f"the {self.name} is closed; make a new one")


EMBEDDER = Role("embedder", errors.EmbedderUnavailableError, errors.EmbedderRejectedError)
LANGUAGE_MODEL = Role("language model", errors.LLMUnavailableError, errors.LLMRejectedError)
RERANKER = Role(
    "reranker",
    errors.RerankerUnavailableError,
    errors.RerankerRejectedError,
    more_time="; raise rerank.milliseconds in the profile, or lower rerank.candidates",
)


@dataclass(frozen=True, slots=True)
class Outage:
    """A service that is not called at present, because it does not answer."""

    role: str
    """``embedder``, ``language model`` or ``reranker``."""
    name: str
    why: str
    """The message of the last call that failed."""


class Guard:
    """Calls one service through its breaker. Belongs to one event loop."""

    def __init__(self, role: Role, name: str, clock: Callable[[], float]) -> None:
        self._role, self._name, self._clock = role, name, clock
        self._breaker = Breaker()
        self._why = ""

    @property
    def outage(self) -> Outage | None:
        """The reason why the service is not called; None: it is called."""
        return Outage(self._role.name, self._name, self._why) if self._breaker.is_open else None

    async def in_time(self, ask: Ask[T], seconds: float) -> T:
        """Return the service's answer, within ``seconds`` and half of the time until the deadline.

        A call that takes longer is cancelled and not awaited. Raises the role's error if no answer comes, without a
        call while the breaker is open; and the errors of ``ask``.
        """
        budget = min(seconds, seconds_left() / 2)
        why = f"{self._name} did not answer within {round(budget, 2):g} s"
        if is_whole := budget == seconds:
            why += self._role.more_time

        async def ended(permit: Permit) -> T:
            try:
                return await within(ask(), budget)
            except LateError:
                if is_whole:  # a short time limit of the caller says nothing about the service
                    self._record_failure(permit, why, is_spent=True)
                raise

        try:
            return await self._through(ended)
        except LateError:
            raise self._role.unavailable(why) from None

    async def call(self, ask: Ask[T], seconds: float | None = None) -> T:
        """Return the service's answer, however long it takes; after ``seconds`` the breaker counts a spent budget.

        Raises the role's error without a call while the breaker is open, and the errors of ``ask``.
        """

        async def timed(permit: Permit) -> T:
            if seconds is None:
                return await ask()
            spent = partial(self._record_failure, permit, f"no answer within {seconds:g} s", is_spent=True)
            timer = asyncio.get_running_loop().call_later(seconds, spent)
            try:
                return await ask()
            finally:
                timer.cancel()

        return await self._through(timed)

    async def _through(self, ask: Callable[[Permit], Awaitable[T]]) -> T:
        """Return the answer to a call that the breaker permits, and tell the breaker its outcome."""
        permit = self._breaker.permit(self._clock())
        if permit is None:
            raise self._role.unavailable(f"{self._name} is skipped for now, because its last calls failed: {self._why}")
        try:
            answer = await ask(permit)
        except self._role.rejected:
            self._record_success()
            raise
        except LateError:
            raise
        except Exception as error:
            # Other errors may have any message, or none.
            why = str(error) if isinstance(error, errors.RetrievalError) else type(error).__name__
            self._record_failure(permit, why, is_spent=False)
            raise
        finally:
            self._breaker.release(permit)
        self._record_success()
        return answer

    def _record_success(self) -> None:
        if self._breaker.is_open:
            _log.warning("the %s %s answers again", self._role.name, self._name)
        self._breaker.record_success()

    def _record_failure(self, permit: Permit, why: str, *, is_spent: bool) -> None:
        was_open = self._breaker.is_open
        self._breaker.record_failure(permit, self._clock(), is_spent=is_spent)
        self._why = " ".join(why.split())[:_LONGEST_REASON]
        if self._breaker.is_open and not was_open:
            _log.warning("the %s %s is skipped until a probe succeeds: %s", self._role.name, self._name, self._why)


class Guards:
    """The guards of a process's services of one role."""

    def __init__(self, role: Role, clock: Callable[[], float] = time.monotonic) -> None:
        self._role, self._clock = role, clock
        self._guards: OrderedDict[int, tuple[object, Guard]] = OrderedDict()

    def of(self, service: object, name: str) -> Guard:
        """The guard of a service, shared by all of its callers."""
        if id(service) not in self._guards:
            # The reference to the service keeps its id from being reused.
            self._guards[id(service)] = service, Guard(self._role, name, self._clock)
        self._guards.move_to_end(id(service))
        while len(self._guards) > MOST_KEPT:
            self._guards.popitem(last=False)
        return self._guards[id(service)][1]

    @property
    def outages(self) -> list[Outage]:
        """The services that are not called at present."""
        return [outage for _, guard in self._guards.values() if (outage := guard.outage) is not None]


async def before_deadline(ask: Ask[T], unavailable: type[errors.RetrievalError], most_seconds: float = math.inf) -> T:
    """Return the result of ``ask`` if it comes within ``most_seconds`` and can be stored before the task's deadline.

    Raises ``unavailable`` if it does not.
    """
    remaining = seconds_left()
    seconds = min(most_seconds, max(remaining - _FINISH_SECONDS, remaining / 2))
    if math.isinf(seconds):
        return await ask()
    try:
        return await within(ask(), seconds)
    except LateError:
        why = "" if seconds == most_seconds else ", the time before the deadline"
        raise unavailable(f"no answer within {round(seconds, 2):g} s{why}") from None
