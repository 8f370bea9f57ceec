"""The state that requests share, and the caller of a request: its tenant, its scopes, and its open collections.

A route takes the platform or the collection by the scope that it needs: ``ReadPlatform``, ``WriteCollection``.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated, Any, get_origin
from uuid import UUID

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError

from retrieval.apps.tickets import RetrievalConfig, RetrievalService
from retrieval.collection import Collection
from retrieval.domain.api_key import Caller, Scope
from retrieval.domain.checks import choices_hint, written
from retrieval.domain.errors import UnknownCollectionError
from retrieval.domain.items.embedding import Embedder
from retrieval.domain.llm import LLM
from retrieval.engine.collection_handle import FRESH_SECONDS
from retrieval.platform import Platform, connect
from retrieval.settings import Settings
from retrieval.surfaces.http.json_bodies import CollectionName
from retrieval.surfaces.http.limits import Latest, Load
from retrieval.surfaces.http.problems import AuthenticationError, ForbiddenError
from retrieval.surfaces.http.telemetry import Figures, Metrics
from retrieval.surfaces.tenants import PlatformOpening, ServedPlatforms

MOST_HANDLES = 1024
"""The greatest number of cached collections, of all tenants together; the least recently used one is dropped first."""


class Service(ServedPlatforms):
    """The state that all requests share; it is open while the application runs: ``async with Service(settings)``."""

    def __init__(self, settings: Settings, *, embedder: Embedder | None = None, llm: LLM | None = None) -> None:
        opening = PlatformOpening(lambda: self._observe(connect(settings=settings, embedder=embedder, llm=llm)))
        super().__init__(settings, opening)
        self.stopping = asyncio.Event()
        """Set when the service begins to shut down: streams, which have no deadline, end then."""
        self.load = Load(settings.http_max_requests)
        self.metrics = Metrics()
        self.figures = Figures(self.load, lambda: self.opened)
        self.metrics.registry.register(self.figures)
        self._collections = Latest[tuple[str, str], tuple[Platform, Collection]](MOST_HANDLES)
        self._tickets = Latest[str, tuple[Platform, RetrievalService]](MOST_HANDLES)
        self._tickets_config = RetrievalConfig()

    def _observe(self, platform: Platform) -> Platform:
        platform.observer = self.metrics
        return platform

    async def collection(self, platform: Platform, name: str) -> Collection:
        """The tenant's collection of that name. Raises ``UnknownCollectionError``."""
        key = (platform.settings.tenant, name)
        cached = self._collections.get(key)
        if cached is not None and cached[0] is platform:
            with suppress(UnknownCollectionError):  # it was removed; another one may have its name
                await cached[1].refresh(older_than_seconds=FRESH_SECONDS)
                self._collections.keep(key, cached)
                return cached[1]
        self.forget(platform, name)
        collection = await platform.collection(name, create=False)
        self._collections.keep(key, (platform, collection))
        return collection

    def forget(self, platform: Platform, name: str) -> None:
        """Forget a collection that was deleted: the next collection of that name is another one."""
        self._collections.pop((platform.settings.tenant, name), None)

    def tickets(self, platform: Platform) -> RetrievalService:
        """The tenant's ticket service."""
        cached = self._tickets.get(platform.settings.tenant)
        if cached is None or cached[0] is not platform:
            cached = platform, RetrievalService(self._tickets_config, platform)
        self._tickets.keep(platform.settings.tenant, cached)
        return cached[1]


CALLER = "caller"
"""The name of the caller in a request's state."""

WRITE = "write"
"""The name, in the state of a write with an ``Idempotency-Key``, of the ``UUID`` that all its repetitions have."""

STILL_ALLOWED = "still_allowed"
"""The name, in the state of a long request, of the check that raises ``AuthenticationError`` if its key was revoked."""


def service_of(request: Request) -> Service:
    """The service of the request's application."""
    service: Service = request.app.state.service
    return service


def caller_of(request: Request) -> Caller:
    """The caller of the request. Raises ``AuthenticationError`` if the request was not authenticated."""
    caller: Caller | None = getattr(request.state, CALLER, None)
    if caller is None:
        raise AuthenticationError
    return caller


def write_of(request: Request) -> UUID | None:
    """The identity of a write and of its repetitions; None: it has no ``Idempotency-Key``."""
    write: UUID | None = getattr(request.state, WRITE, None)
    return write


async def platform_of(request: Request, needs: Scope) -> Platform:
    """The platform of the caller's tenant. Raises ``ForbiddenError`` without the scope or ``admin``."""
    caller = caller_of(request)
    if not caller.may(needs):
        raise ForbiddenError(needs)
    return await service_of(request).of_tenant(caller.tenant, request.scope)


def _platform(needs: Scope) -> Any:
    async def platform(request: Request) -> Platform:
        platform = await platform_of(request, needs)
        check_parameters(request)
        return platform

    return Depends(platform)


# One dependency per request does everything: each that FastAPI resolves costs as much time as writing a response.
def _collection(needs: Scope) -> Any:
    async def collection(name: CollectionName, request: Request) -> Collection:
        platform = await platform_of(request, needs)
        check_parameters(request)
        return await service_of(request).collection(platform, name)

    return Depends(collection)


ReadPlatform = Annotated[Platform, _platform(Scope.READ)]
WritePlatform = Annotated[Platform, _platform(Scope.WRITE)]
FeedbackPlatform = Annotated[Platform, _platform(Scope.FEEDBACK)]
AdminPlatform = Annotated[Platform, _platform(Scope.ADMIN)]
"""The platform of the caller's tenant, for a route that needs the scope; other callers are refused."""

ReadCollection = Annotated[Collection, _collection(Scope.READ)]
WriteCollection = Annotated[Collection, _collection(Scope.WRITE)]
AdminCollection = Annotated[Collection, _collection(Scope.ADMIN)]
"""The collection that the path names, for a route that needs the scope."""


def check_parameters(request: Request) -> None:
    """Raise ``RequestValidationError`` for an unknown parameter, and for one that is repeated but takes one value."""
    if not request.scope["query_string"]:
        return
    fields = {field.alias: field.field_info for field in request.scope["route"].dependant.query_params}
    faults: dict[str, str] = {}
    for name in request.query_params:
        if name not in fields:
            faults[name] = f"there is no parameter {written(name, 60)}; {choices_hint(name, list(fields))}"
        elif len(request.query_params.getlist(name)) > 1 and get_origin(fields[name].annotation) is not list:
            faults[name] = "the parameter is repeated; write it once"
    if faults:
        raise RequestValidationError([{"loc": ("query", name), "msg": fault} for name, fault in faults.items()])
