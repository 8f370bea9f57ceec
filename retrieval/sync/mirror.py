"""How an application's async class is mirrored: each method that it has, with its signature, waiting for the answer.

    class Notes(Mirror[async_notes.Notes]):
        def __init__(self, db: SyncPlatform) -> None:
            super().__init__(async_notes.Notes(db.twin), db.door)

        add = waiting(async_notes.Notes.add)  # awaited on the door's loop
        words = direct(async_notes.Notes.words)  # not async there either

A test compares the two classes, and names what a mirror lacks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from retrieval.sync.door import Door

A = TypeVar("A")
P = ParamSpec("P")
T = TypeVar("T")


class Mirror(Generic[A]):
    """Stands for an async object: its ``twin``, which the ``door`` runs."""

    def __init__(self, twin: A, door: Door) -> None:
        self.twin = twin
        self.door = door


def waiting(method: Callable[Concatenate[A, P], Awaitable[T]]) -> Callable[Concatenate[Any, P], T]:
    """A mirror's method for an async one: what that returns or raises. See ``Door.run``."""

    @wraps(method)
    def call(self: Mirror[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.door.run(method, self.twin, *args, **kwargs)

    return _seen(call, method)


def direct(method: Callable[Concatenate[A, P], T]) -> Callable[Concatenate[Any, P], T]:
    """A mirror's method for one that needs no waiting."""

    @wraps(method)
    def call(self: Mirror[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(self.twin, *args, **kwargs)

    return _seen(call, method)


def _seen(call: Callable[P, T], method: Callable[..., Any]) -> Callable[P, T]:
    """The help leads to the async method's, which holds for both."""
    call.__doc__ = f"See ``{method.__qualname__}``."
    return call
