"""Rewritten questions, kept so that a language model is asked once for each."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from retrieval.adapters.store.database import Database
from retrieval.adapters.store.search.rewrites import cached_rewrites, keep_rewrites
from retrieval.domain.errors import DatabaseError
from retrieval.engine.stopwatch import Clock

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteCache:
    """One tenant's rewrites. Neither reading nor keeping them fails: what the database cannot give is not at hand."""

    database: Database
    tenant_id: int
    wall_clock: Clock
    """Seconds since 1970."""
    days: float
    """How long rewrites are used."""

    async def read(self, model: str, query: str, *, instructions: str) -> list[str] | None:
        """The rewrites of a query by that model under those instructions; None where none are kept, or expired."""
        try:
            return await cached_rewrites(
                self.database, self.tenant_id, model, query, self._now, instructions=instructions
            )
        except DatabaseError as error:
            _log.info("rewrites were not read: %s", error)
            return None

    async def keep(self, model: str, query: str, rewrites: Sequence[str], *, instructions: str) -> None:
        """Keep them until they expire."""
        expires_at = self._now + timedelta(days=self.days)
        try:
            await keep_rewrites(
                self.database,
                self.tenant_id,
                model,
                query,
                rewrites,
                expires_at=expires_at,
                instructions=instructions,
            )
        except DatabaseError as error:
            _log.info("rewrites were not kept: %s", error)

    @property
    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.wall_clock(), UTC)
