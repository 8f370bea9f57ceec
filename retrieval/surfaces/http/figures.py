"""What the metrics tell of the database, which is asked seldom: measured recall, and the queue of jobs."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from retrieval.adapters.store.installation.queue import QueueState, read_queue_state
from retrieval.adapters.store.search.recall import CollectionRecall, lowest_recalls
from retrieval.domain.errors import RetrievalError
from retrieval.engine.stopwatch import Clock
from retrieval.platform import Platform

_log = logging.getLogger(__name__)

EVERY_SECONDS = 60.0
"""The database is not asked again sooner."""

WITHIN_SECONDS = 3.0
"""How long a look may take; who asks for metrics gets the last figures then."""

MOST_TENANTS, MOST_COLLECTIONS = 20, 200
"""Of so many tenants, and so many collections of all of them, recall is told."""


@dataclass(frozen=True, slots=True)
class TenantRecall:
    """A collection's recall, with whose it is."""

    tenant: str
    found: CollectionRecall


class Figures:
    """The figures as they were read last."""

    def __init__(self, *, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._read_at: float | None = None
        self._reading = asyncio.Lock()
        self.recalls: Sequence[TenantRecall] = ()
        self.queue: QueueState | None = None
        """None: not read yet, or the login may not see it."""
        self.is_up: bool | None = None
        """Whether the database answered; None: it was not asked yet."""

    async def refresh(self, platforms: Sequence[Platform]) -> None:
        """Read them again if that was long ago; ``platforms``: the host's first. A database that is away is told of."""
        async with self._reading:
            now = self._clock()
            if self._read_at is not None and now - self._read_at < EVERY_SECONDS:
                return
            if not platforms:
                self.is_up = False
                return
            self._read_at = now
            try:
                async with asyncio.timeout(WITHIN_SECONDS):
                    await self._read(platforms)
                self.is_up = True
            except (RetrievalError, TimeoutError) as error:
                self.is_up = False
                self._read_at = None  # it may be back at the next look
                reason = "it took too long" if isinstance(error, TimeoutError) else error
                _log.info("the figures of the metrics were not read: %s", reason)

    def forget(self) -> None:
        """Read them again at the next look."""
        self._read_at = None

    async def _read(self, platforms: Sequence[Platform]) -> None:
        recalls: list[TenantRecall] = []
        for one in platforms[:MOST_TENANTS]:
            found = await lowest_recalls(one.database, one.tenant_id, MOST_COLLECTIONS - len(recalls))
            recalls += [TenantRecall(one.settings.tenant, recall) for recall in found]
            if len(recalls) >= MOST_COLLECTIONS:
                break
        host = platforms[0]
        # A worker tells three times within that time that it lives.
        self.queue = await read_queue_state(host.database, alive_seconds=2 * host.settings.worker_stalled_seconds)
        self.recalls = recalls
