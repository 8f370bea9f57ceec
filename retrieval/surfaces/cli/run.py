"""Runs a command's work in an event loop, and prints its result."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from retrieval.adapters.aside import without_collector
from retrieval.surfaces.cli.errors import INTERRUPTED, InterruptedRunError
from retrieval.surfaces.cli.options import program_settings
from retrieval.surfaces.cli.output import spinner

if TYPE_CHECKING:
    from retrieval.collection import Collection
    from retrieval.platform import Platform


CONTINUES = "interrupted; run the same command again to continue"
"""The message of commands that do the rest when they are run again."""


def stop_signal() -> asyncio.Event:
    """An event that the first SIGINT or SIGTERM sets; the second one ends the process as usual."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def on_signal() -> None:
        stop.set()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    return stop


T = TypeVar("T")


class Wait(Protocol):
    """Runs a coroutine and returns its result."""

    def __call__(self, work: Coroutine[Any, Any, T], /) -> T:
        """The result of the coroutine; raises its error."""


@contextmanager
def opened(*, when_interrupted: str = "interrupted", leaves_threads: bool = False) -> Iterator[tuple[Platform, Wait]]:
    """Open the platform for the block; yield the platform, and the function that waits for its answers.

    Raises ``InterruptedRunError`` with ``when_interrupted`` at ctrl-C or SIGTERM. With ``leaves_threads`` the process
    then ends here, after the platform is closed: a thread may be blocked in a read that nothing would end, or work on
    a document for minutes.
    """
    with without_collector():
        from retrieval.adapters.embedders.services import DESTINATIONS
        from retrieval.platform import connect

    # Commands that store texts print themselves where the texts are sent, and ask.
    logging.getLogger(DESTINATIONS).setLevel(logging.ERROR)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Otherwise SIGTERM would end the process at once, and the record of a running job would never end.
        signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        with asyncio.Runner() as runner:
            platform = connect(settings=program_settings())
            # Creating an embedded database takes seconds.
            with spinner("opening the database"):
                runner.run(platform.open())
            try:
                try:
                    yield platform, runner.run
                finally:
                    runner.run(platform.close())
            except KeyboardInterrupt:
                if leaves_threads:
                    print(when_interrupted, file=sys.stderr, flush=True)  # noqa: T201
                    os._exit(INTERRUPTED)
                raise
    except KeyboardInterrupt:
        raise InterruptedRunError(when_interrupted) from None


@contextmanager
def opened_collection(name: str) -> Iterator[tuple[Collection, Wait]]:
    """Open the platform for the block; yield its existing collection of that name, and the function that waits."""
    with opened() as (platform, wait):
        yield wait(platform.collection(name, create=False)), wait
