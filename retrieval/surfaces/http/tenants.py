"""The tenants' views of the platform, kept open while they are used, and only so many."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from retrieval.adapters.store.deadline import in_background
from retrieval.platform import Platform
from retrieval.surfaces.http.opening import Opening

_log = logging.getLogger(__name__)

MOST_OPEN = 256
"""Views that stay open; of those that nobody uses, the one that was used longest ago is closed for another."""

_HELD = "retrieval.tenant"

Holder = MutableMapping[str, Any]
"""Who uses a view until it is given back: a request's scope."""


@dataclass(slots=True, eq=False)
class _Tenant:
    opening: Opening
    users: int = 0


class Tenants:
    """The open views of one open platform."""

    def __init__(self, host: Platform, most_open: int = MOST_OPEN) -> None:
        self._host = host
        self._most_open = most_open
        self._tenants: OrderedDict[str, _Tenant] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    async def platform(self, name: str, holder: Holder) -> Platform:
        """The tenant's view, opened at its first use; the holder has to ``give_back``."""
        tenant = self._tenants.get(name)
        if tenant is None:
            tenant = self._tenants[name] = _Tenant(Opening(lambda: self._host.of_tenant(name)))
        self._tenants.move_to_end(name)
        held = holder.setdefault(_HELD, [])
        if tenant not in held:
            tenant.users += 1
            held.append(tenant)
        platform = tenant.opening.opened or await tenant.opening.platform()
        if len(self._tenants) > self._most_open:
            self._close_one()
        return platform

    @property
    def opened(self) -> list[Platform]:
        """The views that are open, the one that was used last first."""
        each = (tenant.opening.opened for tenant in reversed(self._tenants.values()))
        return [one for one in each if one is not None]

    async def aclose(self) -> None:
        """Close every view."""
        while self._tenants:
            await self._tenants.popitem()[1].opening.aclose()
        await asyncio.gather(*self._closing)

    def _close_one(self) -> None:
        """Behind the request: it stores what was recorded, and another tenant's client must not end that."""
        idle = next((name for name, tenant in self._tenants.items() if not tenant.users), None)
        if idle is not None:
            task = in_background(_closed(self._tenants.pop(idle).opening))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


async def _closed(opening: Opening) -> None:
    try:
        await opening.aclose()
    except Exception:  # noqa: BLE001 - nobody waits for it, and it is closed as far as can be
        _log.exception("a tenant's view could not be closed")


def begin_holding(holder: Holder) -> None:
    """Let the holder give back what a copy of it used: middleware may hand on another scope than it was given."""
    holder[_HELD] = []


def give_back(holder: Holder) -> None:
    """The holder is done with what it used."""
    for tenant in holder.pop(_HELD, ()):
        tenant.users -= 1
