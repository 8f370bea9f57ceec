"""The bridge between LangChain, which calls objects from any loop and thread, and the loop of a collection.

A collection belongs to one event loop: an async one to the loop that opened its platform, a sync one to the loop of its
door. LangChain calls methods with and without ``await``. The bridge runs each call on the collection's loop, and awaits
or blocks depending on the caller.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, wait
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from retrieval.collection import Collection, handle_of
from retrieval.domain.errors import InvalidRequestError, RunningLoopError
from retrieval.platform import Platform, loop_of
from retrieval.services.add import AddReport
from retrieval.sync import SyncCollection, SyncPlatform
from retrieval.sync.mirror import Door, running_loop

_log = logging.getLogger(__name__)

A = TypeVar("A")
P = ParamSpec("P")
T = TypeVar("T")

BEGIN_SECONDS = 10.0
"""The time within which a loop must begin a call; a loop that waits for the caller never begins it."""

_LOOP_UNKNOWN = (
    "the event loop of the collection is unknown: use it within the loop that opened the platform, or give a "
    "collection of retrieval.sync.connect()"
)

_LOOP_ENDED = (
    "the event loop of the collection does not run; use it while that loop runs, or give a collection of "
    "retrieval.sync.connect(), which works from any loop"
)

_LOOP_BLOCKED = (
    f"the event loop that the collection belongs to has been blocked for {BEGIN_SECONDS:g} seconds, most likely by a "
    "sync call that waits for this one; await the async call there (ainvoke), or give a collection of "
    "retrieval.sync.connect()"
)


class Bridge(Generic[A]):
    """Runs calls on the loop of a collection or a platform, async or sync.

    ``twin`` is the async object, whose methods ``run`` and ``arun`` call. It belongs to the loop that opened its
    platform: before that, the first loop that calls ``arun`` opens it.
    """

    @overload
    def __init__(self: Bridge[Collection], subject: Collection | SyncCollection) -> None: ...
    @overload
    def __init__(self: Bridge[Platform], subject: Platform | SyncPlatform) -> None: ...
    def __init__(self, subject: object) -> None:
        twin: Any = subject
        self._door: Door | None = None
        if isinstance(subject, SyncCollection | SyncPlatform):
            twin, self._door = subject.twin, subject.door
        elif not isinstance(subject, Collection | Platform):
            raise InvalidRequestError(
                f"a collection or a platform is needed, not {type(subject).__name__}; "
                "platform.collection(name) gives a collection"
            )
        self.twin: A = twin

    def run(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the async function for a caller that cannot await, and return its result; an interruption cancels it.

        Raises ``RunningLoopError`` within a running loop, which blocking would freeze, and if the collection's loop
        does not begin the call, most likely because it waits for this caller.
        """
        if running_loop() is not None:
            raise RunningLoopError(
                "a sync method cannot be used inside a running event loop, which it would freeze; "
                "await the async one there, whose name begins with 'a'"
            )
        begun, future = self._started(partial(function, *args, **kwargs))
        try:
            wait([begun], BEGIN_SECONDS)
            if not begun.cancel():
                return future.result()
        finally:
            begun.cancel()
            future.cancel()
        raise RunningLoopError(_LOOP_BLOCKED)

    async def arun(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the async function for a caller in any loop, and return its result; it is cancelled with its caller."""
        home = self._home
        if home is asyncio.get_running_loop() or (home is None and self._door is None):
            return await function(*args, **kwargs)
        begun, future = self._started(partial(function, *args, **kwargs))
        waiting = asyncio.wrap_future(future)
        try:
            await asyncio.wait([waiting], timeout=BEGIN_SECONDS)
            if not begun.cancel():
                return await waiting
        finally:
            begun.cancel()
            waiting.cancel()
        raise RunningLoopError(_LOOP_BLOCKED)

    def _started(self, call: Callable[[], Awaitable[T]]) -> tuple[Future[None], Future[T]]:
        """The call on the other loop: its beginning, which can be cancelled until then, and its outcome."""
        begun: Future[None] = Future()

        async def begin() -> T:
            if not begun.set_running_or_notify_cancel():
                raise asyncio.CancelledError
            begun.set_result(None)
            return await call()

        if self._door is not None:
            return begun, self._door.open_portal.start_task_soon(begin)
        home = self._home
        if home is None or not home.is_running():
            raise RunningLoopError(_LOOP_UNKNOWN if home is None else _LOOP_ENDED)
        return begun, asyncio.run_coroutine_threadsafe(begin(), home)

    @property
    def _home(self) -> asyncio.AbstractEventLoop | None:
        twin: Any = self.twin
        return loop_of(twin) if isinstance(twin, Platform) else handle_of(twin).database.loop


def blocking(method: Callable[Concatenate[Any, P], Awaitable[T]]) -> Callable[Concatenate[Any, P], T]:
    """The sync form of an async method ``aNAME`` of an object with a bridge, as ``NAME``. See ``Bridge.run``.

    A method that takes ``**kwargs`` has to take ``self`` by position only.
    """

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        bridge: Bridge[Any] = self._bridge
        return bridge.run(method, self, *args, **kwargs)

    call.__name__ = method.__name__.replace("a", "", 1)
    call.__annotations__ = inspect.get_annotations(method, eval_str=True)
    # Frameworks would follow ``__wrapped__`` and take the sync form for an async one.
    vars(call).update(__signature__=inspect.signature(method, eval_str=True))
    del vars(call)["__wrapped__"]
    return call


def log_notes(collection: Collection, report: AddReport) -> None:
    """Log the notes of a write as warnings, such as items without a vector: LangChain's methods return no report."""
    for note in report.notes:
        _log.warning("collection %s: %s", collection.name, note)
