"""Tickets without ``await``."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from retrieval.apps import tickets
from retrieval.apps.tickets import RetrievalConfig
from retrieval.sync.mirror import Mirror, waiting
from retrieval.sync.platform import SyncPlatform, connect


class SyncRetrievalService(Mirror[tickets.RetrievalService]):
    """``retrieval.apps.tickets.RetrievalService`` without ``await``: the same methods, the same errors.

    Without a platform it has one of its own within ``with RetrievalService() as service``.
    """

    def __init__(self, config: RetrievalConfig | None = None, platform: SyncPlatform | None = None) -> None:
        opened = connect() if platform is None else platform
        self._own = opened if platform is None else None
        super().__init__(tickets.RetrievalService(config, opened.twin), opened.door)
        self.config = self.twin.config

    def __enter__(self) -> Self:
        if self._own is not None:
            self._own.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._own is not None:
            self._own.__exit__(kind, error, trace)

    aclose = waiting(tickets.RetrievalService.aclose)
    process = waiting(tickets.RetrievalService.process)
    query_embedding = waiting(tickets.RetrievalService.query_embedding)
    records_of = waiting(tickets.RetrievalService.records_of)
    preview_search = waiting(tickets.RetrievalService.preview_search)
    health_check = waiting(tickets.RetrievalService.health_check)
    get_index_stats = waiting(tickets.RetrievalService.get_index_stats)
