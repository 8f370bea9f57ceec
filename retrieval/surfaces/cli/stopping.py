"""How a command that runs until it is told to end is told so."""

from __future__ import annotations

import asyncio
import signal


def stop_signal() -> asyncio.Event:
    """Set by the first SIGINT or SIGTERM; the second one ends the process as if nothing had been arranged."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def on_signal() -> None:
        stop.set()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    return stop
