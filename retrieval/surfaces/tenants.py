"""The open platform of a server, and the views of the tenants whose clients it serves.

It is opened in the background, so that the server answers even while the database is down; after a failure the next
call opens it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from retrieval.adapters.store.deadline import in_background
from retrieval.domain.errors import RetrievalError
from retrieval.settings import Settings

if TYPE_CHECKING:
    from retrieval.platform import Platform

_log = logging.getLogger(__name__)


class PlatformOpening:
    """Opens the platform that ``make`` returns, at the first ``await PlatformOpening(make).platform()``."""

    def __init__(self, make: Callable[[], Platform]) -> None:
        self._make = make
        self._task: asyncio.Task[Platform] | None = None
        self.opened: Platform | None = None
        """The platform, once it is open."""

    def begin(self) -> asyncio.Task[Platform]:
        """Start opening the platform without waiting for it."""
        self._task = task = in_background(self._open())
        task.add_done_callback(_report)
        return task

    async def platform(self) -> Platform:
        """The open platform. Raises the error of opening it: a ``RetrievalError`` with the reason."""
        # A caller that gives up does not cancel the opening, because others may wait for it.
        task = self._task
        return await asyncio.shield(self.begin() if task is None or has_failed(task) else task)

    async def aclose(self) -> None:
        """Close the platform; an opening in progress is cancelled."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self.opened is not None:
            await self.opened.__aexit__(None, None, None)
            self.opened = None

    async def _open(self) -> Platform:
        platform = await self._make().__aenter__()
        self.opened = platform
        return platform


def has_failed(task: asyncio.Task[Any]) -> bool:
    """Whether the task has ended without a result."""
    return task.done() and (task.cancelled() or task.exception() is not None)


def _report(task: asyncio.Task[Platform]) -> None:
    """Log a failed opening once, whether or not a caller waits for it."""
    error = None if task.cancelled() else task.exception()
    if isinstance(error, RetrievalError):
        _log.warning("the platform could not be opened, and is tried again at the next request: %s", error)
    elif error is not None:
        _log.error("the platform could not be opened: %s", type(error).__name__, exc_info=error)


MOST_OPEN = 256
"""The maximum number of open views; beyond it, the least recently used one without users is closed."""

_VIEWS = "retrieval.tenant"

Holder = MutableMapping[str, Any]
"""The borrower of views, until it gives them back: a request's scope."""


@dataclass(slots=True, eq=False)
class _Tenant:
    opening: PlatformOpening
    users: int = 0


class ServedPlatforms:
    """The platforms of a server: the host's, and views of other tenants over its connections; ``async with`` opens.

    Opening does not wait for the database. While the database is down, every use of a platform fails, and tries to
    open it again.
    """

    def __init__(self, settings: Settings, opening: PlatformOpening, most_open: int = MOST_OPEN) -> None:
        self.settings = settings
        self._host = opening
        self._most_open = most_open
        self._tenants: OrderedDict[str, _Tenant] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        _ = self._host.begin()  # opens in the background
        return self

    async def __aexit__(self, *_: object) -> None:
        while self._tenants:
            await self._tenants.popitem()[1].opening.aclose()
        await asyncio.gather(*self._closing)
        await self._host.aclose()

    @property
    def opened(self) -> Sequence[Platform]:
        """The open platforms: the host's, then the most recently used views; none if the database was never up."""
        openings = (self._host, *(tenant.opening for tenant in reversed(self._tenants.values())))
        return [opening.opened for opening in openings if opening.opened is not None]

    async def host(self) -> Platform:
        """The platform of the server's own tenant. Raises the error of opening it, and tries again at the next call."""
        return self._host.opened or await self._host.platform()

    async def of_tenant(self, name: str, holder: Holder) -> Platform:
        """The tenant's view, opened at its first use; it stays open until the holder gives it back."""
        host = await self.host()
        if name == self.settings.tenant:
            return host
        tenant = self._tenants.get(name)
        if tenant is None:
            tenant = self._tenants[name] = _Tenant(PlatformOpening(lambda: host.of_tenant(name)))
        self._tenants.move_to_end(name)
        views = holder.setdefault(_VIEWS, [])
        if tenant not in views:
            tenant.users += 1
            views.append(tenant)
        platform = tenant.opening.opened or await tenant.opening.platform()
        if len(self._tenants) > self._most_open:
            self._close_one()
        return platform

    def _close_one(self) -> None:
        """Close a view in the background: closing stores its last records, and no client may cancel that."""
        idle = next((name for name, tenant in self._tenants.items() if not tenant.users), None)
        if idle is not None:
            task = in_background(_close(self._tenants.pop(idle).opening))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


async def _close(opening: PlatformOpening) -> None:
    try:
        await opening.aclose()
    except Exception:  # noqa: BLE001 - nobody waits for it, and it is closed as far as possible
        _log.exception("a tenant's view could not be closed")


def begin_holding(holder: Holder) -> None:
    """Prepare the holder to give back the views that a copy of it used: middleware may pass on a copy of the scope."""
    holder[_VIEWS] = []


def give_back(holder: Holder) -> None:
    """Give back the views that the holder used."""
    for tenant in holder.pop(_VIEWS, ()):
        tenant.users -= 1
