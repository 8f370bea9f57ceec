"""Memories without ``await``."""

from __future__ import annotations

import random

from retrieval.apps import memories
from retrieval.apps.memories.store import COLLECTION
from retrieval.domain.search.diversity import THRESHOLD
from retrieval.sync.mirror import Mirror, waiting
from retrieval.sync.platform import SyncPlatform, checked_platform


class SyncMemoryStore(Mirror[memories.MemoryStore]):
    """``retrieval.apps.memories.MemoryStore`` without ``await``: the same methods, the same errors."""

    def __init__(
        self,
        db: SyncPlatform,
        collection: str = COLLECTION,
        *,
        duplicate_threshold: float = THRESHOLD,
        chance: random.Random | None = None,
    ) -> None:
        twin = memories.MemoryStore(
            checked_platform(db).twin, collection, duplicate_threshold=duplicate_threshold, chance=chance
        )
        super().__init__(twin, db.door)

    store_memory = waiting(memories.MemoryStore.store_memory)
    store_memories = waiting(memories.MemoryStore.store_memories)
    get_memory = waiting(memories.MemoryStore.get_memory)
    get_memories = waiting(memories.MemoryStore.get_memories)
    list_memories = waiting(memories.MemoryStore.list_memories)
    update_memory = waiting(memories.MemoryStore.update_memory)
    set_relevance = waiting(memories.MemoryStore.set_relevance)
    supersede = waiting(memories.MemoryStore.supersede)
    forget = waiting(memories.MemoryStore.forget)
    forget_user = waiting(memories.MemoryStore.forget_user)
    forget_project = waiting(memories.MemoryStore.forget_project)


class SyncRetrievalEngine(Mirror[memories.RetrievalEngine]):
    """``retrieval.apps.memories.RetrievalEngine`` without ``await``: the same methods, the same errors."""

    def __init__(self, db: SyncPlatform, collection: str = COLLECTION, *, count_accesses: bool = True) -> None:
        twin = memories.RetrievalEngine(checked_platform(db).twin, collection, count_accesses=count_accesses)
        super().__init__(twin, db.door)

    retrieve_relevant_memories = waiting(memories.RetrievalEngine.retrieve_relevant_memories)
    retrieve_context_for_task = waiting(memories.RetrievalEngine.retrieve_context_for_task)
    retrieve_timeline = waiting(memories.RetrievalEngine.retrieve_timeline)
