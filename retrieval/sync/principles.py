"""Principles without ``await``."""

from __future__ import annotations

import random
from typing import Self

from retrieval.apps import principles
from retrieval.apps.principles.collection import COLLECTION
from retrieval.sync.mirror import Mirror, waiting
from retrieval.sync.platform import SyncPlatform, checked_platform


class SyncPrincipleStore(Mirror[principles.PrincipleStore]):
    """``retrieval.apps.principles.PrincipleStore`` without ``await``: the same methods, the same errors."""

    def __init__(self, db: SyncPlatform, collection: str = COLLECTION, *, chance: random.Random | None = None) -> None:
        twin = principles.PrincipleStore(checked_platform(db).twin, collection, chance=chance)
        super().__init__(twin, db.door)

    @classmethod
    def open(cls, db: SyncPlatform, name: str = COLLECTION, *, chance: random.Random | None = None) -> Self:
        """The store, with its collection made."""
        opened = cls(db, name, chance=chance)
        opened.door.run(opened.twin.prepare)
        return opened

    prepare = waiting(principles.PrincipleStore.prepare)
    add_principle = waiting(principles.PrincipleStore.add_principle)
    get = waiting(principles.PrincipleStore.get)
    get_all_principles = waiting(principles.PrincipleStore.get_all_principles)
    search_principles = waiting(principles.PrincipleStore.search_principles)
    record_usage = waiting(principles.PrincipleStore.record_usage)
    settle = waiting(principles.PrincipleStore.settle)
    get_exploratory_principles = waiting(principles.PrincipleStore.get_exploratory_principles)
    get_principle_scores = waiting(principles.PrincipleStore.get_principle_scores)
    list_tags = waiting(principles.PrincipleStore.list_tags)
    stats = waiting(principles.PrincipleStore.stats)
    loaded = waiting(principles.PrincipleStore.loaded)
    add_trace = waiting(principles.PrincipleStore.add_trace)
    search_traces = waiting(principles.PrincipleStore.search_traces)
    recent_tags = waiting(principles.PrincipleStore.recent_tags)
