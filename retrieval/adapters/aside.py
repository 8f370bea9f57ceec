"""Python that takes long leaves the event loop, which answers others meanwhile.

One thread of the process does it, a piece at a time: Python runs in one thread at a time anyway, and the more threads
want to run, the longer the loop waits for its turn. What it does must end by itself, for it cannot be stopped.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

LONG = 500
"""The number of things that Python handles one by one, such as candidates or values, in a few milliseconds."""

MANY_CONDITIONS = 8
"""The same of the conditions of a filter. To compose a statement with so many takes some 10 ms, if it was not kept."""

LONG_TEXT = 4096
"""The same of the characters of a query that is read."""

LONG_BODY = 32 * 1024
"""The same of the bytes of a body that is read."""

_MANY_LEFT = 5_000
"""Objects that a piece of work left, from which the collector looks for its garbage at once."""

_THREAD = ThreadPoolExecutor(1, thread_name_prefix="aside")


async def aside(work: Callable[[], T], *, is_long: bool) -> T:
    """Run ``work``, in a thread if it is long, and return its result. A cancelled caller does not wait for it."""
    if not is_long:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_THREAD, _swept, work)


def _swept(work: Callable[[], T]) -> T:
    """Do the work without the collector, then free its garbage while that is young.

    Composing a statement leaves tens of thousands of objects in cycles. If they grew old, the collector would find them
    among everything that the process holds, and nothing else could run for hundreds of milliseconds. Most work leaves
    few, and is not followed by a look at what all others hold.
    """
    with uncollected():
        before = gc.get_count()[0]
        try:
            return work()
        finally:
            if gc.get_count()[0] - before >= _MANY_LEFT:
                gc.collect(0)


@contextmanager
def uncollected() -> Iterator[None]:
    """Stop the garbage collector of the process for a piece of work.

    The collector would look again and again at all that the work has made so far: that takes five times as long as
    reading a megabyte of small lists does.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
