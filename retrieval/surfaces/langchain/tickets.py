"""The service of tickets that tools, nodes and agents call: on a platform that is given, or one opened at first use."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from retrieval.apps.tickets import RetrievalConfig, RetrievalService
from retrieval.domain.stored_text import shown_value
from retrieval.platform import Platform
from retrieval.surfaces.langchain.bridge import Bridge
from retrieval.surfaces.langchain.opening import Opened
from retrieval.sync import SyncPlatform

_LINES = frozenset({"ticket_id", "title", "labels", "domain", "priority", "added_by"})

P = ParamSpec("P")
T = TypeVar("T")

_Made = tuple[Bridge[Platform], RetrievalService]


class Tickets:
    """Calls of ``RetrievalService``, with and without ``await``, from any loop.

    Without a platform it opens one at its first call, by the settings of the environment, that the end of the program
    closes.
    """

    def __init__(self, platform: Platform | SyncPlatform | None = None, config: RetrievalConfig | None = None) -> None:
        self._making = threading.Lock()
        self._config = config
        self._own: Opened | None = None
        self._made: _Made | None = None if platform is None else _bridged(platform, config)

    def use(self, platform: Platform | SyncPlatform | None, config: RetrievalConfig | None = None) -> None:
        """Call another platform from now on; None: one of its own, opened anew."""
        made = None if platform is None else _bridged(platform, config)
        with self._making:
            own, self._own, self._made, self._config = self._own, None, made, config
        if own is not None:
            own.close()

    def run(
        self, method: Callable[Concatenate[RetrievalService, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """What the method returns or raises. Raises ``RunningLoopError`` within a running loop."""
        bridge, service = self._ready()
        return bridge.run(method, service, *args, **kwargs)

    async def arun(
        self, method: Callable[Concatenate[RetrievalService, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """What the method returns or raises."""
        made = self._made
        bridge, service = await asyncio.to_thread(self._ready) if made is None else made
        return await bridge.arun(method, service, *args, **kwargs)

    def _ready(self) -> _Made:
        with self._making:
            if self._made is None:
                self._own = Opened()
                self._made = _bridged(self._own.platform, self._config)
            return self._made


def _bridged(platform: Platform | SyncPlatform, config: RetrievalConfig | None) -> _Made:
    bridge: Bridge[Platform] = Bridge(platform)
    return bridge, RetrievalService(config, bridge.twin)


SHARED = Tickets()
"""What the module's tools, ``retrieval_node`` and the singleton agent call."""


def use_platform(platform: Platform | SyncPlatform | None, config: RetrievalConfig | None = None) -> None:
    """Let the tools, ``retrieval_node`` and ``pattern_recognition_agent`` use an open platform from now on.

    Without it they open one of their own at first use, by the settings of the environment; None goes back to that.
    """
    SHARED.use(platform, config)


def shown(tickets: Any) -> Any:
    """Tickets, or what is told of them, as a prompt can hold them: names and titles on one line each."""
    return shown_value(tickets, _LINES)
