"""Recall without ``await``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from retrieval.apps import recall
from retrieval.apps.recall import RECALL_PROFILE, TimeExpressions
from retrieval.apps.recall.retriever import REWRITE_TIMEOUT_SECONDS, utc_now
from retrieval.domain.llm import LLM
from retrieval.domain.search.profile import Profile
from retrieval.sync.collection import SyncCollection
from retrieval.sync.mirror import Mirror, direct, waiting


class SyncDualRetriever(Mirror[recall.DualRetriever]):
    """``retrieval.apps.recall.DualRetriever`` without ``await``: the same methods, the same errors."""

    def __init__(
        self,
        storage: SyncCollection,
        llm: LLM | None,
        seed: int | None = None,
        *,
        profile: Profile | None = RECALL_PROFILE,
        rewrite_timeout_seconds: float = REWRITE_TIMEOUT_SECONDS,
        time_expressions: TimeExpressions | str = TimeExpressions.PREFER,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        twin = recall.DualRetriever(
            storage.twin,
            llm,
            seed,
            profile=profile,
            rewrite_timeout_seconds=rewrite_timeout_seconds,
            time_expressions=time_expressions,
            clock=clock,
        )
        super().__init__(twin, storage.door)

    search = waiting(recall.DualRetriever.search)
    context_for = waiting(recall.DualRetriever.context_for)
    rewrite_query = waiting(recall.DualRetriever.rewrite_query)
    needs_deep_search = direct(recall.DualRetriever.needs_deep_search)
    merge_rrf = direct(recall.DualRetriever.merge_rrf)
    reset = direct(recall.DualRetriever.reset)


class SyncMemory(Mirror[recall.Memory]):
    """``retrieval.apps.recall.Memory`` without ``await``: the same methods, the same errors."""

    def __init__(
        self,
        storage: SyncCollection,
        llm: LLM | None,
        seed: int | None = None,
        *,
        profile: Profile | None = RECALL_PROFILE,
        rewrite_timeout_seconds: float = REWRITE_TIMEOUT_SECONDS,
        time_expressions: TimeExpressions | str = TimeExpressions.PREFER,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        twin = recall.Memory(
            storage.twin,
            llm,
            seed,
            profile=profile,
            rewrite_timeout_seconds=rewrite_timeout_seconds,
            time_expressions=time_expressions,
            clock=clock,
        )
        super().__init__(twin, storage.door)

    store = waiting(recall.Memory.store)
    recall = waiting(recall.Memory.recall)
