"""Mirrors of async classes, and the door: an event loop in its own thread, which runs their methods.

A mirror has a typed line for each method, which waits for the result, as in ``retrieval.sync.platform``: ``waiting``
for an async method, ``direct`` for another one, ``iterated`` for an async iterator, ``mirrored`` for one whose result
is mirrored too, ``fact`` for a property. A test compares the two classes, and names what a mirror lacks.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from anyio.from_thread import BlockingPortal

from retrieval.domain.checks import written
from retrieval.domain.errors import PLATFORM_CLOSED, InvalidRequestError, RunningLoopError

A = TypeVar("A")
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_NOT_OPEN = "the platform is not open; use: with connect() as platform, or: platform = retrieval.sync.open()"


class Door:
    """Runs async functions on the loop of its portal and waits for their results."""

    def __init__(self) -> None:
        self.portal: BlockingPortal | None = None
        self._closed = _NOT_OPEN
        """Why there is no portal."""

    def open(self, portal: BlockingPortal) -> None:
        """Let calls through that portal."""
        self.portal = portal

    def close(self, reason: str = PLATFORM_CLOSED) -> None:
        """Let no more calls through, for that reason."""
        self.portal, self._closed = None, reason

    @property
    def open_portal(self) -> BlockingPortal:
        """The portal. Raises ``InvalidRequestError`` before the platform is opened and after it is closed."""
        if self.portal is None:
            raise InvalidRequestError(self._closed)
        return self.portal

    def run(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the function and return its result or raise its error; a caller that is interrupted cancels it."""
        refuse_running_loop()
        future = self.open_portal.start_task_soon(partial(function, *args, **kwargs))
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def each(self, iterator: AsyncIterator[T], *, batch: int) -> Iterator[T]:
        """Iterate over an async iterator, ``batch`` elements at once: few elements wait for the other thread."""
        while page := self.run(_page, iterator, batch):
            yield from page


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs this call, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def refuse_running_loop() -> None:
    """Raise ``RunningLoopError`` where a loop runs already."""
    if running_loop() is not None:
        raise RunningLoopError(
            "retrieval.sync cannot be used inside a running event loop, which it would freeze; "
            "await the async API there: async with retrieval.connect() as platform, or "
            "platform = await retrieval.open()"
        )


async def _page(iterator: AsyncIterator[T], size: int) -> list[T]:
    """The next ``size`` elements, or fewer at the end."""
    page: list[T] = []
    async for element in iterator:
        page.append(element)
        if len(page) >= size:
            break
    return page


class Mirror(Generic[A]):
    """Stands for an async object: its ``twin``, which the ``door`` runs."""

    def __init__(self, twin: A, door: Door) -> None:
        self.twin = twin
        self.door = door

    def __init_subclass__(cls) -> None:
        """Name each mirrored method after the mirror's class."""
        super().__init_subclass__()
        for name, value in vars(cls).items():
            if inspect.isfunction(value) and hasattr(value, "__wrapped__"):
                value.__module__, value.__qualname__ = cls.__module__, f"{cls.__qualname__}.{name}"


M = TypeVar("M", bound=Mirror[Any])


def checked(value: object, kind: type[M]) -> M:
    """The value, which is a mirror of that kind. Raises ``InvalidRequestError`` for anything else."""
    if not isinstance(value, kind):
        raise InvalidRequestError(
            f"a {kind.__name__} (without await) is needed, not {written(value)}; give what retrieval.sync.connect() "
            "opens, or import from retrieval.apps"
        )
    return value


def waiting(method: Callable[Concatenate[A, P], Awaitable[T]]) -> Callable[Concatenate[Any, P], T]:
    """A mirror's method for an async one; it returns and raises the same. See ``Door.run``."""

    @wraps(method)
    def call(self: Mirror[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.door.run(method, self.twin, *args, **kwargs)

    return call


def direct(method: Callable[Concatenate[A, P], T]) -> Callable[Concatenate[Any, P], T]:
    """A mirror's method for one that needs no waiting."""

    @wraps(method)
    def call(self: Mirror[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(self.twin, *args, **kwargs)

    return call


def mirrored(
    method: Callable[Concatenate[A, P], Awaitable[T]], mirror: Callable[[T, Door], R]
) -> Callable[Concatenate[Any, P], R]:
    """A mirror's method for an async one whose result has its own mirror."""

    @wraps(method)
    def call(self: Mirror[A], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return mirror(self.door.run(method, self.twin, *args, **kwargs), self.door)

    return _with_result_type(call, r"\b(?=Collection\b)", "Sync")


def iterated(method: Callable[Concatenate[A, P], AsyncIterator[T]]) -> Callable[Concatenate[Any, P], Iterator[T]]:
    """A mirror's method for one that gives an async iterator; ``batch`` elements come at once."""
    usual = inspect.signature(method).parameters["batch"].default

    @wraps(method)
    def call(self: Mirror[A], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        batch: Any = kwargs.get("batch", usual)
        return self.door.each(method(self.twin, *args, **kwargs), batch=batch)

    return _with_result_type(call, "^Async", "")


def fact(async_property: Any) -> Any:
    """A mirror's property for a property, which needs no waiting."""
    return property(lambda self: async_property.fget(self.twin), doc=async_property.__doc__)


def _with_result_type(call: Callable[P, T], pattern: str, instead: str) -> Callable[P, T]:
    """The method, whose signature has its own result type instead of the async one's."""
    signature = inspect.signature(call)
    returned = re.sub(pattern, instead, signature.return_annotation)
    vars(call)["__signature__"] = signature.replace(return_annotation=returned)
    return call
