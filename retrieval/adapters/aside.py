"""Run long work in Python beside the event loop, which answers other calls meanwhile.

One thread of the process runs one piece of work at a time: Python runs in one thread at a time anyway, and with more
threads the loop waits longer for its turn. The work must end by itself, because it cannot be stopped.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

T = TypeVar("T")

LONG = 500
"""The number of values, such as candidates, that Python handles one by one in a few milliseconds."""

MANY_CONDITIONS = 8
"""The number of conditions of a filter whose statement takes some 10 ms to compose."""

LONG_TEXT = 4096
"""The number of characters of a query that are read in a few milliseconds."""

LONG_BODY = 32 * 1024
"""The number of bytes of a body that are read in a few milliseconds."""

_MANY_LEFT = 5_000
"""The number of objects left by a piece of work above which their garbage is collected at once."""


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="aside")


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_thread.cache_clear)  # the thread is not in the child


async def aside(work: Callable[[], T], *, is_long: bool) -> T:
    """Run ``work``, in a thread if it is long, and return its result. A cancelled caller does not wait for it."""
    if not is_long:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_thread(), _run_and_collect, work)


def _run_and_collect(work: Callable[[], T]) -> T:
    """Do the work without the collector, then free its garbage while the garbage is young.

    Composing a statement leaves tens of thousands of objects in cycles. If they grew old, the collector would find them
    among everything that the process holds, and nothing else could run for hundreds of milliseconds.
    """
    with without_collector():
        before = gc.get_count()[0]
        try:
            return work()
        finally:
            if gc.get_count()[0] - before >= _MANY_LEFT:
                gc.collect(0)


@contextmanager
def without_collector() -> Iterator[None]:
    """Stop the garbage collector of the process for a piece of work.

    Otherwise the collector would traverse the objects made so far again and again: reading a megabyte of small lists
    would take five times as long.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
