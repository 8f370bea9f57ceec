"""Runs a command's work in an event loop, and prints its result."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from retrieval.adapters.aside import without_collector
from retrieval.domain.serialization import plain as plain_values
from retrieval.surfaces.cli.errors import INTERRUPTED, InterruptedRunError
from retrieval.surfaces.cli.options import program_settings
from retrieval.surfaces.cli.output import Parts, print_json, show, spinner

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


def run(
    work: Callable[[Platform], Awaitable[T]],
    *,
    when_interrupted: str = "interrupted",
    reads_standard_input: bool = False,
) -> T:
    """Open the platform, do the work with it, and close it; return the work's result.

    Raises ``InterruptedRunError`` with ``when_interrupted`` when the user stops it. With
    ``reads_standard_input`` the process then ends here: a thread may be blocked in a read that nothing would end.
    """

    async def work_with_platform() -> T:
        with without_collector():
            from retrieval.adapters.embedders.services import DESTINATIONS
            from retrieval.platform import connect

        # Commands that store texts print themselves where the texts are sent, and ask.
        logging.getLogger(DESTINATIONS).setLevel(logging.ERROR)
        try:
            async with AsyncExitStack() as stack:
                # Creating an embedded database takes seconds.
                with spinner("opening the database"):
                    platform = await stack.enter_async_context(connect(settings=program_settings()))
                return await work(platform)
        except asyncio.CancelledError:
            if reads_standard_input:
                print(when_interrupted, file=sys.stderr, flush=True)  # noqa: T201
                os._exit(INTERRUPTED)
            raise

    try:
        return asyncio.run(work_with_platform())
    except KeyboardInterrupt:
        raise InterruptedRunError(when_interrupted) from None


def answer(
    work: Callable[[Platform], Awaitable[T]],
    present: Callable[[T], Parts],
    *,
    as_json: bool,
    to_json: Callable[[T], Any] = plain_values,
    when_interrupted: str = "interrupted",
) -> T:
    """Do the work with the platform and print its result: as JSON, or as ``present`` presents it.

    ``to_json`` makes JSON values of the result. Returns the result.
    """
    result = run(work, when_interrupted=when_interrupted)
    if as_json:
        print_json(to_json(result))
    else:
        show(present(result))
    return result


def of_collection(name: str, ask: Callable[[Collection], Awaitable[T]]) -> Callable[[Platform], Awaitable[T]]:
    """The work of ``ask`` on the existing collection of that name."""

    async def work(platform: Platform) -> T:
        return await ask(await platform.collection(name, create=False))

    return work
