"""A limit to how long a client waits for an answer, whatever hangs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from retrieval.adapters.store.deadline import Deadline, deadline
from retrieval.domain.errors import DatabaseUnreachableError

ANSWER_SECONDS = 20.0
"""Longer than a busy database needs, shorter than clients wait by themselves."""

_LONGER_SECONDS = 1.0
"""How much longer the database may take, so that it is this limit that ends what is late."""

T = TypeVar("T")


async def answered_within(seconds: float, call: Coroutine[Any, Any, T]) -> T:
    """What the call gives. Raises ``DatabaseUnreachableError`` if it takes longer, and what the call raises.

    A late call is cancelled and not waited for: of a server that hangs, the driver waits for the end of a statement
    even then. It ends when the server goes on, or its connection is found broken. What waits for an embedder ends
    before that and says what is wrong.
    """
    with deadline(Deadline(time.monotonic() + seconds + _LONGER_SECONDS)):
        task = asyncio.ensure_future(call)
    try:
        await asyncio.wait([task], timeout=seconds)
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(_let_go)
    if not task.done():
        raise DatabaseUnreachableError(f"no answer within {seconds:g} s")
    return task.result()


def _let_go(task: asyncio.Future[Any]) -> None:
    """Take notice of how it ended, which interests nobody any more."""
    if not task.cancelled():
        task.exception()
