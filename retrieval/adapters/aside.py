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
"""From so many things on that Python handles one by one, such as candidates or values: a few milliseconds."""

LONG_TEXT = 4096
"""The same of the characters of a query that is read."""

LONG_BODY = 32 * 1024
"""The same of the bytes of a body that is read."""

_THREAD = ThreadPoolExecutor(1, thread_name_prefix="aside")


async def aside(work: Callable[[], T], *, is_long: bool) -> T:
    """What ``work`` gives: done in the thread if it is long, else at once. Who is cancelled does not wait for it."""
    if not is_long:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_THREAD, work)


@contextmanager
def uncollected() -> Iterator[None]:
    """Without stopping for the garbage collector, while a large text is read or many modules are loaded.

    Nothing else of the process runs meanwhile. The collector looks at all that was made so far again and again, which
    takes five times as long as reading a megabyte of small lists does; none of it can be garbage.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
