"""What the conformance suites are made of: checks by name, and one error for the first that fails."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

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


def require(*, that: bool, otherwise: str) -> None:
    """Raise ``BrokenError`` unless it is so; ``otherwise`` says what is wrong and with which values."""
    if not that:
        raise BrokenError(otherwise)


async def made(make: Callable[[], T | Awaitable[T]]) -> T:
    """What ``make`` makes, awaited where that is needed."""
    subject = make()
    return await subject if inspect.isawaitable(subject) else subject
