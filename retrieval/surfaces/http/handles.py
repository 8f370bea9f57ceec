"""Open collections, kept between requests: a search that finds one here has one round trip less to wait for."""

from __future__ import annotations

from collections import OrderedDict
from typing import Annotated

from fastapi import Depends, Request

from retrieval.apps.tickets import RetrievalConfig, RetrievalService
from retrieval.collection import Collection
from retrieval.domain.errors import UnknownCollectionError
from retrieval.engine.collection_handle import FRESH_SECONDS
from retrieval.platform import Platform
from retrieval.surfaces.http.caller import CurrentPlatform, current_platform
from retrieval.surfaces.http.paths import CollectionName

MOST = 1024
"""Handles that are kept, those of all tenants together; the one that was used longest ago goes first."""


class Handles:
    """The handles of one application."""

    def __init__(self, tickets: RetrievalConfig | None = None, most: int = MOST) -> None:
        self._config = tickets
        self._most = most
        self._collections: OrderedDict[tuple[str, str], tuple[Platform, Collection]] = OrderedDict()
        self._tickets: OrderedDict[str, tuple[Platform, RetrievalService]] = OrderedDict()

    async def collection(self, platform: Platform, name: str) -> Collection:
        """The tenant's collection of that name. Raises ``UnknownCollectionError``."""
        key = (platform.settings.tenant, name)
        kept = self._collections.get(key)
        if kept is not None and kept[0] is platform and await _is_there(kept[1]):
            self._collections[key] = kept
            self._collections.move_to_end(key)
            return kept[1]
        self._collections.pop(key, None)
        collection = await platform.collection(name, create=False)
        self._collections[key] = platform, collection
        while len(self._collections) > self._most:
            self._collections.popitem(last=False)
        return collection

    def forget(self, platform: Platform, name: str) -> None:
        """The collection was removed: the next one of that name is another."""
        self._collections.pop((platform.settings.tenant, name), None)

    def tickets(self, platform: Platform) -> RetrievalService:
        """The tenant's service of tickets."""
        tenant = platform.settings.tenant
        kept = self._tickets.get(tenant)
        if kept is None or kept[0] is not platform:
            self._config = self._config or RetrievalConfig()
            kept = platform, RetrievalService(self._config, platform)
        self._tickets[tenant] = kept
        self._tickets.move_to_end(tenant)
        while len(self._tickets) > self._most:
            self._tickets.popitem(last=False)
        return kept[1]


async def _is_there(collection: Collection) -> bool:
    try:
        await collection.refresh(older_than_seconds=FRESH_SECONDS)
    except UnknownCollectionError:
        return False
    return True


async def current_handles(request: Request) -> Handles:
    """Those of the application that was asked."""
    handles: Handles = request.app.state.handles
    return handles


CurrentHandles = Annotated[Handles, Depends(current_handles)]


async def named_collection(name: CollectionName, request: Request) -> Collection:
    """The collection that the path names. Raises ``UnknownCollectionError``."""
    handles = await current_handles(request)
    return await handles.collection(await current_platform(request), name)


NamedCollection = Annotated[Collection, Depends(named_collection)]


async def current_tickets(platform: CurrentPlatform, handles: CurrentHandles) -> RetrievalService:
    """The caller's tenant's service of tickets."""
    return handles.tickets(platform)


CurrentTickets = Annotated[RetrievalService, Depends(current_tickets)]
