"""A breaker keeps searches from waiting for an embedder, language model or reranker that does not answer."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from retrieval.adapters.store.deadline import Deadline, deadline, seconds_left
from retrieval.domain.errors import (
    EmbedderRejectedError,
    EmbedderUnavailableError,
    LLMRejectedError,
    LLMUnavailableError,
    RerankerRejectedError,
    RerankerUnavailableError,
    RetrievalError,
)

T = TypeVar("T")

Ask = Callable[[], Awaitable[T]]
"""Asks the service once."""

MOST_KEPT = 256
"""The most services whose breakers are kept; beyond that the one least recently used begins anew."""

_LONGEST_REASON = 200
_FINISH_SECONDS = 2.0
"""The part of a deadline that is kept for storing the results."""

_log = logging.getLogger(__name__)


class Permit:
    """A call that a breaker allows."""


@dataclass(slots=True)
class Breaker:
    """Decides whether a service is called. Pure: times are given, in seconds of a clock that never goes back.

    Closed, it lets every call through. So many failures in a row open it, or one call that used up its budget. Open, it
    lets none through until a wait is over, and then one at a time, the probe. A success closes it; a probe that fails
    doubles the wait, up to a bound (M. Nygard, "Release It!", 2007, "Circuit Breaker").
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
        """A permit for a call; None: it is refused. The call's outcome has to be reported, at last by ``dropped``."""
        permit = Permit()
        if self.is_open:
            if self._probe is not None or now < self._until:
                return None
            self._probe = permit
        return permit

    def succeeded(self) -> None:
        """A call was answered."""
        self._failures, self._wait_seconds, self._probe = 0, 0.0, None

    def failed(self, permit: Permit, now: float, *, is_spent: bool) -> None:
        """The call was not answered; ``is_spent``: it used up its budget.

        Of an open breaker only the probe counts.
        """
        if permit is self._probe:
            self._open(min(2 * self._wait_seconds, self.longest_wait_seconds), now)
        elif not self.is_open:
            self._failures += 1
            if is_spent or self._failures >= self.most_failures:
                self._open(self.first_wait_seconds, now)

    def dropped(self, permit: Permit) -> None:
        """The call is over. If it neither succeeded nor failed, another call may be the probe."""
        if permit is self._probe:
            self._probe = None

    def _open(self, wait_seconds: float, now: float) -> None:
        self._failures, self._wait_seconds, self._until, self._probe = 0, wait_seconds, now + wait_seconds, None


@dataclass(frozen=True, slots=True)
class Role:
    """A kind of service, with its word and its errors."""

    name: str
    """``embedder``, ``language model`` or ``reranker``."""
    unavailable: type[RetrievalError]
    """Raised where it does not answer."""
    rejected: type[RetrievalError]
    """Raised by a service that answered, and refused."""
    more_time: str = ""
    """The advice behind the message of a spent budget."""


EMBEDDER = Role("embedder", EmbedderUnavailableError, EmbedderRejectedError)
LANGUAGE_MODEL = Role("language model", LLMUnavailableError, LLMRejectedError)
RERANKER = Role(
    "reranker",
    RerankerUnavailableError,
    RerankerRejectedError,
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


class _LateError(Exception):
    """The time for a call is over."""


class Guard:
    """The calls of one service, through its breaker. Belongs to one event loop."""

    def __init__(self, role: Role, name: str, clock: Callable[[], float]) -> None:
        self._role, self._name, self._clock = role, name, clock
        self._breaker = Breaker()
        self._why = ""

    @property
    def outage(self) -> Outage | None:
        """The reason why the service is not called; None: it is called."""
        return Outage(self._role.name, self._name, self._why) if self._breaker.is_open else None

    async def in_time(self, ask: Ask[T], seconds: float) -> T:
        """Return the service's answer, within the budget of ``seconds`` and half of the time that the deadline leaves.

        Then the call is cancelled, whatever hangs. Raises the role's error where there is no answer, at once while the
        breaker is open, and what ``ask`` raises.
        """
        budget = min(seconds, seconds_left() / 2)
        why = f"{self._name} did not answer within {round(budget, 2):g} s"
        if is_whole := budget == seconds:
            why += self._role.more_time

        async def ended(permit: Permit) -> T:
            try:
                return await _ended_after(ask, budget)
            except _LateError:
                if is_whole:  # a short time limit of the caller says nothing about the service
                    self._failed(permit, why, is_spent=True)
                raise

        try:
            return await self._through(ended)
        except _LateError:
            raise self._role.unavailable(why) from None

    async def call(self, ask: Ask[T], seconds: float | None = None) -> T:
        """Return the service's answer, however long it takes; after ``seconds`` the breaker counts a spent budget.

        Raises the role's error at once while the breaker is open, and what ``ask`` raises.
        """

        async def timed(permit: Permit) -> T:
            if seconds is None:
                return await ask()
            spent = partial(self._failed, permit, f"no answer within {seconds:g} s", is_spent=True)
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
            raise self._role.unavailable(f"{self._name} is not asked while it does not answer: {self._why}")
        try:
            answer = await ask(permit)
        except self._role.rejected:
            self._succeeded()
            raise
        except _LateError:
            raise
        except Exception as error:
            # Other errors may have any message, or none.
            why = str(error) if isinstance(error, RetrievalError) else type(error).__name__
            self._failed(permit, why, is_spent=False)
            raise
        finally:
            self._breaker.dropped(permit)
        self._succeeded()
        return answer

    def _succeeded(self) -> None:
        if self._breaker.is_open:
            _log.warning("the %s %s answers again", self._role.name, self._name)
        self._breaker.succeeded()

    def _failed(self, permit: Permit, why: str, *, is_spent: bool) -> None:
        was_open = self._breaker.is_open
        self._breaker.failed(permit, self._clock(), is_spent=is_spent)
        self._why = " ".join(why.split())[:_LONGEST_REASON]
        if self._breaker.is_open and not was_open:
            _log.warning("the %s %s is not asked until it answers: %s", self._role.name, self._name, self._why)


class Guards:
    """The guards of a process's services of one role."""

    def __init__(self, role: Role, clock: Callable[[], float] = time.monotonic) -> None:
        self._role, self._clock = role, clock
        self._guards: OrderedDict[int, tuple[object, Guard]] = OrderedDict()

    def of(self, service: object, name: str) -> Guard:
        """The guard of a service, the same for all of its callers."""
        if id(service) not in self._guards:
            # The service is kept with it: its number is not given to another meanwhile.
            self._guards[id(service)] = service, Guard(self._role, name, self._clock)
        self._guards.move_to_end(id(service))
        while len(self._guards) > MOST_KEPT:
            self._guards.popitem(last=False)
        return self._guards[id(service)][1]

    @property
    def outages(self) -> list[Outage]:
        """The services that are not called at present."""
        return [outage for _, guard in self._guards.values() if (outage := guard.outage) is not None]


async def _ended_after(ask: Ask[T], seconds: float) -> T:
    """Return the result of ``ask``. After ``seconds`` cancel it without waiting: a hanging call may never end.

    ``ask`` runs under that deadline, so that it does not begin what cannot be done in time.
    """
    with deadline(Deadline(time.monotonic() + seconds)):
        task = asyncio.ensure_future(ask())
    _UNDER_WAY.add(task)
    task.add_done_callback(_let_go)
    try:
        await asyncio.wait([task], timeout=seconds)
    finally:
        task.cancel()
    if not task.done():
        raise _LateError
    return task.result()


async def before_deadline(ask: Ask[T], unavailable: type[RetrievalError]) -> T:
    """Return the result of ``ask`` if it comes before the task's deadline, with time left to store it.

    Raises ``unavailable`` if it does not.
    """
    left = seconds_left()
    if math.isinf(left):
        return await ask()
    seconds = max(left - _FINISH_SECONDS, left / 2)
    try:
        return await _ended_after(ask, seconds)
    except _LateError:
        raise unavailable(f"no answer within the {round(seconds, 2):g} s that there were for it") from None


_UNDER_WAY: set[asyncio.Future[Any]] = set()
"""Calls without a waiting caller; the event loop itself keeps no reference to them."""


def _let_go(task: asyncio.Future[Any]) -> None:
    """Read the call's outcome, so that asyncio does not warn about an unread error."""
    _UNDER_WAY.discard(task)
    if not task.cancelled():
        task.exception()
