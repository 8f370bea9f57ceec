"""A limit to how long a program may take, whatever hangs."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def watchdog(seconds: float, when_late: Callable[[], None]) -> Iterator[None]:
    """Within it, after so many seconds, ``when_late`` is called in a thread of its own, and the process ends with 0.

    What blocks in the kernel cannot be interrupted; it can be left.
    """
    timer = threading.Timer(seconds, _end, [when_late])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end(when_late: Callable[[], None]) -> None:
    try:
        when_late()
    finally:
        os._exit(0)
