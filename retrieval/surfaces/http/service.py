"""The state that all requests share: the open platforms and their metrics."""

from __future__ import annotations

import asyncio

from retrieval.domain.items.embedding import Embedder
from retrieval.domain.llm import LLM
from retrieval.platform import Platform, connect
from retrieval.settings import Settings
from retrieval.surfaces.http.limits import Load
from retrieval.surfaces.http.telemetry import Figures, Metrics, StateMetrics
from retrieval.surfaces.tenants import PlatformOpening, ServedPlatforms


class Service(ServedPlatforms):
    """The service, which is open while the application runs: ``async with Service(settings) as service``."""

    def __init__(self, settings: Settings, *, embedder: Embedder | None = None, llm: LLM | None = None) -> None:
        opening = PlatformOpening(lambda: self._observe(connect(settings=settings, embedder=embedder, llm=llm)))
        super().__init__(settings, opening)
        self.stopping = asyncio.Event()
        """Set when the service begins to shut down: streams, which have no deadline, end then."""
        self.load = Load(settings.http_max_requests)
        self.metrics = Metrics()
        self.figures = Figures()
        self.metrics.registry.register(StateMetrics(self.load, lambda: self.opened, self.figures))

    def _observe(self, platform: Platform) -> Platform:
        platform.observer = self.metrics
        return platform
