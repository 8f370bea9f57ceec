"""The memories of one collection: read, listed, rated, forgotten."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items.memories import Place, list_memories, rate_memory, read_memories
from retrieval.adapters.store.items.removal import memories_of_project, memories_of_user
from retrieval.domain.memory import Memory
from retrieval.jobs.forget import forget


@dataclass(frozen=True, slots=True)
class MemoryRecords:
    """What is stored of a collection's memories."""

    database: Database
    tenant_id: int
    collection_id: int

    async def read(self, ids: Sequence[str]) -> dict[str, Memory]:
        """The memories of those ids that exist, by id."""
        return await read_memories(*self._where, ids)

    async def page(
        self,
        project_id: str,
        *,
        kinds: Sequence[str] | None,
        user_id: str | None,
        are_archived_too: bool,
        now: datetime,
        before: tuple[datetime, str] | None,
        most: int,
    ) -> list[Memory]:
        """The project's memories that have not expired, the latest first, at most so many, behind time and id."""
        return await list_memories(
            *self._where,
            project_id,
            kinds=kinds,
            user_id=user_id,
            are_archived_too=are_archived_too,
            now=now,
            before=None if before is None else Place(*before),
            most=most,
        )

    async def rate(self, memory_id: str, relevance: float, now: datetime) -> bool:
        """Set a memory's relevance; whether there is such a memory that has not expired."""
        return await rate_memory(*self._where, memory_id, relevance, now=now)

    async def forget(self, ids: Sequence[str]) -> int:
        """Forget these; gives how many there were."""
        return await forget(*self._where, ids)

    async def forget_user(self, user_id: str) -> int:
        """Forget all memories of a user, those too that are stored meanwhile; gives how many."""
        return await self._forget_all(partial(memories_of_user, *self._where, user_id))

    async def forget_project(self, project_id: str) -> int:
        """Forget all memories of a project, those too that are stored meanwhile; gives how many."""
        return await self._forget_all(partial(memories_of_project, *self._where, project_id))

    async def _forget_all(self, read: Callable[[], Awaitable[list[str]]]) -> int:
        forgotten = 0
        while ids := await read():
            forgotten += await self.forget(ids)
        return forgotten

    @property
    def _where(self) -> tuple[Database, int, int]:
        return self.database, self.tenant_id, self.collection_id
