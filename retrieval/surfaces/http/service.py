"""The state that all requests share: the open platform, and what is measured of it."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from retrieval.domain.items.embedding import Embedder
from retrieval.domain.llm import LLM
from retrieval.platform import Platform, connect
from retrieval.settings import Settings
from retrieval.surfaces.http.limits import Load
from retrieval.surfaces.http.telemetry import Figures, Metrics, StateMetrics
from retrieval.surfaces.tenants import Holder, PlatformOpening, Tenants


class Service:
    """Open while the application runs: ``async with Service(settings) as service``.

    It runs also while the database is away: then every use of a platform fails, until the database is there.
    """

    def __init__(self, settings: Settings, *, embedder: Embedder | None = None, llm: LLM | None = None) -> None:
        self.settings = settings
        self.load = Load(settings.http_max_requests)
        self.metrics = Metrics()
        self.figures = Figures()
        self.metrics.registry.register(StateMetrics(self, self.figures))
        self._host = PlatformOpening(lambda: self._watched(connect(settings=settings, embedder=embedder, llm=llm)))
        self._tenants: Tenants | None = None

    async def __aenter__(self) -> Self:
        self._host.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._tenants is not None:
            await self._tenants.aclose()
        await self._host.aclose()

    @property
    def opened(self) -> Sequence[Platform]:
        """The platforms that are open, the host's first; none while the database was never there."""
        host = self._host.opened
        return () if host is None else (host, *(self._tenants.opened if self._tenants is not None else ()))

    async def host(self) -> Platform:
        """The platform of the tenant that the service was started for; the others share its connections.

        Raises what opening it raised, and tries again at the next call.
        """
        return self._host.opened or await self._host.platform()

    async def platform(self, tenant: str, holder: Holder) -> Platform:
        """The tenant's view, opened at its first request; it stays open until the holder gives it back."""
        host = await self.host()
        if tenant == self.settings.tenant:
            return host
        if self._tenants is None:
            self._tenants = Tenants(host)
        return await self._tenants.platform(tenant, holder)

    def _watched(self, platform: Platform) -> Platform:
        platform.observer = self.metrics
        return platform
