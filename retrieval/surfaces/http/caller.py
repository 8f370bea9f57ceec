"""The caller of a request: its tenant, its scopes, and its open collections.

A route takes ``CurrentPlatform`` and names the scope that it ``needs``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError

from retrieval.apps.tickets import RetrievalConfig, RetrievalService
from retrieval.collection import Collection
from retrieval.domain.api_key import Caller, Scope
from retrieval.domain.errors import UnknownCollectionError
from retrieval.engine.collection_handle import FRESH_SECONDS
from retrieval.platform import Platform
from retrieval.surfaces.http.json_bodies import CollectionName
from retrieval.surfaces.http.limits import Latest
from retrieval.surfaces.http.problems import AuthenticationError, ForbiddenError
from retrieval.surfaces.http.service import Service
from retrieval.surfaces.refused_values import arguments_hint

CALLER = "caller"
"""The name of the caller in a request's state."""

STILL_ALLOWED = "still_allowed"
"""The name, in a long request's state, of the check that raises ``AuthenticationError`` when its key is revoked."""


async def current_caller(request: Request) -> Caller:
    """The caller of the request. Raises ``AuthenticationError`` where no caller was let in."""
    caller: Caller | None = getattr(request.state, CALLER, None)
    if caller is None:
        raise AuthenticationError
    return caller


CurrentCaller = Annotated[Caller, Depends(current_caller)]


# It takes the request alone: each dependency that FastAPI resolves costs as much time as writing an answer.
async def current_platform(request: Request) -> Platform:
    """The caller's tenant's view of the platform."""
    service: Service = request.app.state.service
    return await service.of_tenant((await current_caller(request)).tenant, request.scope)


CurrentPlatform = Annotated[Platform, Depends(current_platform)]


def needs(scope: Scope) -> Any:
    """A dependency of a route: lets in callers with that scope, or with ``admin``.

    A request with a parameter that the route does not have is refused.
    """
    return Depends(_checked(scope))


def _checked(scope: Scope) -> Callable[[Request], Awaitable[None]]:
    async def check(request: Request) -> None:
        if not (await current_caller(request)).may(scope):
            raise ForbiddenError(scope)
        check_parameters(request)

    return check


def check_parameters(request: Request) -> None:
    """Raise ``RequestValidationError`` for a parameter that the request's route does not have, naming those it has."""
    if not request.scope["query_string"]:
        return
    known = list(dict.fromkeys(_names(request.scope["route"].dependant)))
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        refused = "there is no parameter {!r:.60}; {}"
        raise RequestValidationError(
            [{"loc": ("query", name), "msg": refused.format(name, arguments_hint(name, known))} for name in unknown]
        )


def _names(dependant: Dependant) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for inner in dependant.dependencies:
        yield from _names(inner)


MOST = 1024
"""The most handles that are kept, of all tenants together; the handle that was used longest ago is dropped first."""


class Handles:
    """The handles of one application."""

    def __init__(self) -> None:
        self._config: RetrievalConfig | None = None
        self._collections = Latest[tuple[str, str], tuple[Platform, Collection]](MOST)
        self._tickets = Latest[str, tuple[Platform, RetrievalService]](MOST)

    async def collection(self, platform: Platform, name: str) -> Collection:
        """The tenant's collection of that name. Raises ``UnknownCollectionError``."""
        key = (platform.settings.tenant, name)
        kept = self._collections.get(key)
        if kept is None or kept[0] is not platform or not await _is_there(kept[1]):
            self._collections.pop(key, None)
            kept = platform, await platform.collection(name, create=False)
        self._collections.keep(key, kept)
        return kept[1]

    def forget(self, platform: Platform, name: str) -> None:
        """Forget a collection that was removed: the next collection of that name is another one."""
        self._collections.pop((platform.settings.tenant, name), None)

    def tickets(self, platform: Platform) -> RetrievalService:
        """The tenant's service of tickets."""
        kept = self._tickets.get(platform.settings.tenant)
        if kept is None or kept[0] is not platform:
            self._config = self._config or RetrievalConfig()
            kept = platform, RetrievalService(self._config, platform)
        self._tickets.keep(platform.settings.tenant, kept)
        return kept[1]


async def _is_there(collection: Collection) -> bool:
    try:
        await collection.refresh(older_than_seconds=FRESH_SECONDS)
    except UnknownCollectionError:
        return False
    return True


async def current_handles(request: Request) -> Handles:
    """The handles of the application that was asked."""
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
