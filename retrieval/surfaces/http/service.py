"""What all requests share: the open platform, and a view of it for each tenant that asks."""

from __future__ import annotations

from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from retrieval.domain.embedding import Embedder
from retrieval.domain.llm import LLM
from retrieval.platform import Platform, connect
from retrieval.settings import Settings


class Service:
    """Open while the application runs: ``async with Service(settings) as service``."""

    def __init__(self, settings: Settings, *, embedder: Embedder | None = None, llm: LLM | None = None) -> None:
        self.settings = settings
        self._host = connect(settings=settings, embedder=embedder, llm=llm)
        self._tenants: dict[str, Platform] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._host)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def platform(self, tenant: str) -> Platform:
        """The tenant's view, opened at its first request."""
        if tenant == self.settings.tenant:
            return self._host
        if tenant not in self._tenants:
            self._tenants[tenant] = await self._stack.enter_async_context(self._host.of_tenant(tenant))
        return self._tenants[tenant]
