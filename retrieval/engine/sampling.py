"""Some searches that an index answered are kept, so that a job can measure how well it did.

Off the caller's path: a search does not wait for its sample to be stored, and does not fail with it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import dataclass, field

from retrieval.adapters.store.database import Database
from retrieval.adapters.store.deadline import in_background
from retrieval.adapters.store.search.candidate_request import CandidateRequest, Query
from retrieval.adapters.store.search.candidates import Found
from retrieval.adapters.store.search.recall import keep_sample
from retrieval.domain.errors import InvalidFilterError, RetrievalError
from retrieval.domain.filter_mapping import as_mapping
from retrieval.domain.filters import parse_where
from retrieval.domain.hit import Path

_log = logging.getLogger(__name__)

MOST_WAITING = 8
"""Samples being stored at a time; what comes beside them is not kept."""


@dataclass(slots=True)
class Sampler:
    """Keeps a share of the searches that an HNSW index answered."""

    database: Database
    tenant_id: int
    rate: float
    """The share to keep, 0 to 1."""
    chance: random.Random
    waiting: set[asyncio.Task[None]] = field(default_factory=set)

    def offer(self, request: CandidateRequest, query: Query, found: Found) -> None:
        """Perhaps keep a search. One that compared every vector is perfect, and nothing can be learned from it."""
        if found.path is not Path.APPROXIMATE or query.vector is None or self.chance.random() >= self.rate:
            return
        if len(self.waiting) >= MOST_WAITING:
            return
        try:
            condition = None if request.condition is None else as_mapping(request.condition)
            parse_where(condition)
        except (ValueError, InvalidFilterError):  # on the text itself, or nested too deeply to be written down
            return
        task = in_background(
            keep_sample(
                self.database,
                self.tenant_id,
                request.collection_id,
                request.space_id,
                vector=query.vector,
                condition_json=condition,
                limit=request.depth,
            )
        )
        self.waiting.add(task)
        task.add_done_callback(self._done)

    async def aclose(self) -> None:
        """Wait for the samples that are being stored."""
        await asyncio.gather(*self.waiting, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self.waiting.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, RetrievalError):
            _log.info("a sample was not kept: %s", error)
        elif error is not None:
            _log.warning("a sample was not kept", exc_info=error)
