"""The parts that a job works with: the database, the embedders, the retention times, and the signal to end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from retrieval.adapters.embedders.cached import CachedEmbedder
from retrieval.adapters.store.database import CollectionPlace, Database
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.search.vectors import StoredSpace
from retrieval.settings import Settings


class StoppedError(Exception):
    """The process was asked to end, and the job has finished its step."""


@dataclass(frozen=True, slots=True)
class Workplace:
    """The surroundings of a job."""

    database: Database
    settings: Settings
    embedder_of: Callable[[int, StoredSpace], CachedEmbedder | None]
    """The embedder of a tenant for a space; None where none is configured."""
    is_stopping: Callable[[], bool] = lambda: False
    advance: Callable[[int], None] = lambda _done: None
    """Called with the amount of work that the job has done so far."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def place(self, target: JobTarget) -> CollectionPlace:
        """The target, as functions of the store take it."""
        return CollectionPlace(self.database, target.tenant_id, target.collection.collection_id)

    def end_of_step(self, done: int | None = None) -> None:
        """Raise ``StoppedError`` if the process was asked to end; the work done so far, ``done``, is kept."""
        if done is not None:
            self.advance(done)
        if self.is_stopping():
            raise StoppedError


@dataclass(frozen=True, slots=True)
class JobTarget:
    """A collection to work on, and its tenant."""

    tenant_id: int
    collection: StoredCollection
