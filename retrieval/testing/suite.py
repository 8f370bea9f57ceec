"""The parts of the conformance suites: checks by name, and one error for the first that fails."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Generic, TypeVar

T = TypeVar("T")

Check = Callable[[T], Awaitable[None]]


class ConformanceError(AssertionError):
    """An implementation breaks the contract of its role; ``role`` and ``check`` name where."""

    def __init__(self, role: str, check: str, message: str) -> None:
        super().__init__(f"{role} check {check!r} failed: {message}")
        self.role = role
        self.check = check


@dataclass(frozen=True, slots=True)
class Suite(Generic[T]):
    """The checks of one role, by name, in the order in which they run."""

    role: str
    checks: dict[str, Check[T]] = field(default_factory=dict)

    def add(self, check: Check[T]) -> Check[T]:
        """Register a check under its function's name, as a decorator."""
        name = getattr(check, "__name__", repr(check)).strip("_").replace("_", " ")
        self.checks[name] = check
        return check

    async def run(self, subject: T) -> None:
        """Run all checks on one subject. Raises ``ConformanceError`` at the first that fails."""
        for name, check in self.checks.items():
            try:
                await check(subject)
            except BrokenError as broken:
                raise ConformanceError(self.role, name, str(broken)) from None
            except Exception as error:
                raise ConformanceError(self.role, name, f"{type(error).__name__}: {error}") from error


class BrokenError(Exception):
    """A check found the contract broken."""


async def make_subject(make: Callable[[], T | Awaitable[T]]) -> T:
    """Call ``make``, and await the result where needed."""
    subject = make()
    return await subject if inspect.isawaitable(subject) else subject


_CLOSING_SECONDS = 10.0
_LONG_SECONDS = 0.5


async def run_closing(make: Callable[[], T | Awaitable[T]], suites: Sequence[Suite[T]]) -> None:
    """Run the suites on one embedder, language model or reranker, and close it."""
    service: Any = await make_subject(make)
    try:
        for suite in suites:
            await suite.run(service)
    finally:
        # The last check has closed it when all went well; a failure to close must not hide the failed check.
        with contextlib.suppress(Exception):
            await service.aclose()


async def require_stable_name(service: Any, call: Callable[[], Awaitable[Any]], needed_by: str) -> None:
    """Check that its name is provider/model on one line, before a call and after it."""
    before = service.name
    provider, _, model = before.partition("/")
    if not provider or not model or before != before.strip() or not before.isprintable():
        raise BrokenError(f"its name is {before!r}, not provider/model on one line; {needed_by}")
    await call()
    if service.name != before:
        raise BrokenError(f"its name was {before!r} and is {service.name!r} after a call")


async def cancel_soon(call: Awaitable[Any]) -> None:
    """Cancel the call as soon as it is under way."""
    task = asyncio.ensure_future(call)
    await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def require_free_loop(call: Awaitable[Any]) -> None:
    """Check that other tasks run during a long call."""
    began = time.monotonic()
    beats = [began]

    async def beat() -> None:
        while True:
            beats.append(time.monotonic())
            await asyncio.sleep(0.001)

    heart = asyncio.create_task(beat())
    try:
        await call
    finally:
        heart.cancel()
    beats.append(time.monotonic())
    seconds, longest = beats[-1] - began, max(later - earlier for earlier, later in pairwise(beats))
    # A quick answer leaves no time for other tasks, and a slow or busy machine slows all of them.
    if seconds >= _LONG_SECONDS and longest >= seconds / 2:
        raise BrokenError(f"it kept other tasks from running for {longest:.1f} of the {seconds:.1f} seconds of a call")


async def require_rejection(
    call: Awaitable[Any], what: str, rejected: type[Exception], others: type[Exception]
) -> None:
    """Check that the call raises ``rejected`` with a message of one line, and none of the ``others``."""
    try:
        answer = await call
    except rejected as error:
        _require_one_line(error, what)
    except others as error:
        raise BrokenError(f"{what} raised {type(error).__name__}; trying again cannot help") from error
    else:
        raise BrokenError(f"{what} was answered with {answer!r}; raise {rejected.__name__}")


async def require_unavailable(call: Awaitable[Any], unavailable: type[Exception]) -> None:
    """Check that a call to an unreachable service raises that error, with a message of one line."""
    try:
        answer = await call
    except unavailable as error:
        _require_one_line(error, "a call that nobody answers")
    except Exception as error:
        raise BrokenError(f"raised {type(error).__name__}, not {unavailable.__name__}: {error}") from error
    else:
        raise BrokenError(f"nobody is there, and it answered {answer!r}")


async def require_closing(service: Any) -> None:
    """Check that it closes in time."""
    await asyncio.wait_for(service.aclose(), _CLOSING_SECONDS)


def _require_one_line(error: Exception, what: str) -> None:
    if len(str(error).splitlines()) != 1:
        raise BrokenError(f"{what}: the message is not one line: {str(error)!r}")
