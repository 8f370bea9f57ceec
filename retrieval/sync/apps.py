"""The applications without ``await``: tickets, recall, memories, metaphors, principles."""

# ruff: noqa: SLF001 - a design states the names of private methods too

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import ClassVar, Self

from retrieval.adapters.clock import utc_now
from retrieval.apps import memories, metaphors, principles, recall, tickets
from retrieval.apps.memories.store import COLLECTION as MEMORIES
from retrieval.apps.metaphors import STANDARD_CORPUS, Metaphor
from retrieval.apps.metaphors.corpus import COLLECTION as METAPHORS
from retrieval.apps.metaphors.metaphor import AWAY, GENERATE_AFTER_BACKTRACKS, GENERATE_BELOW
from retrieval.apps.metaphors.retriever import GENERATION_TIMEOUT_SECONDS
from retrieval.apps.principles.principle import COLLECTION as PRINCIPLES
from retrieval.apps.recall import RECALL_PROFILE, TimeExpressions
from retrieval.apps.recall.retriever import REWRITE_TIMEOUT_SECONDS
from retrieval.apps.tickets import RetrievalConfig
from retrieval.domain.llm import LLM
from retrieval.domain.search.diversity import THRESHOLD
from retrieval.domain.search.profile import Profile
from retrieval.sync.mirror import Mirror, checked, direct, fact, waiting
from retrieval.sync.platform import SyncCollection, SyncPlatform, connect


class SyncRetrievalService(Mirror[tickets.RetrievalService]):
    """``retrieval.apps.tickets.RetrievalService`` without ``await``: the same methods, the same errors.

    Without a platform it opens its own within ``with RetrievalService() as service``.
    """

    def __init__(self, config: RetrievalConfig | None = None, platform: SyncPlatform | None = None) -> None:
        opened = connect() if platform is None else checked(platform, SyncPlatform)
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


class SyncDualRetriever(Mirror[recall.DualRetriever]):
    """``retrieval.apps.recall.DualRetriever`` without ``await``: the same methods, the same errors."""

    _twin: ClassVar[type[recall.DualRetriever]] = recall.DualRetriever

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
        twin = self._twin(
            checked(storage, SyncCollection).twin,
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


class SyncMemory(SyncDualRetriever):
    """``retrieval.apps.recall.Memory`` without ``await``: the same methods, the same errors."""

    _twin = recall.Memory

    store = waiting(recall.Memory.store)
    recall = waiting(recall.Memory.recall)


class SyncMemoryStore(Mirror[memories.MemoryStore]):
    """``retrieval.apps.memories.MemoryStore`` without ``await``: the same methods, the same errors."""

    def __init__(
        self,
        db: SyncPlatform,
        collection: str = MEMORIES,
        *,
        duplicate_threshold: float = THRESHOLD,
        chance: random.Random | None = None,
    ) -> None:
        twin = memories.MemoryStore(
            checked(db, SyncPlatform).twin, collection, duplicate_threshold=duplicate_threshold, chance=chance
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
    remember = waiting(memories.MemoryStore.remember)
    history = waiting(memories.MemoryStore.history)
    histories = waiting(memories.MemoryStore.histories)
    forget = waiting(memories.MemoryStore.forget)
    forget_user = waiting(memories.MemoryStore.forget_user)
    forget_project = waiting(memories.MemoryStore.forget_project)


class SyncRetrievalEngine(Mirror[memories.RetrievalEngine]):
    """``retrieval.apps.memories.RetrievalEngine`` without ``await``: the same methods, the same errors."""

    def __init__(self, db: SyncPlatform, collection: str = MEMORIES, *, count_accesses: bool = True) -> None:
        twin = memories.RetrievalEngine(checked(db, SyncPlatform).twin, collection, count_accesses=count_accesses)
        super().__init__(twin, db.door)

    retrieve_relevant_memories = waiting(memories.RetrievalEngine.retrieve_relevant_memories)
    why_nothing = waiting(memories.RetrievalEngine.why_nothing)
    retrieve_context_for_task = waiting(memories.RetrievalEngine.retrieve_context_for_task)
    retrieve_timeline = waiting(memories.RetrievalEngine.retrieve_timeline)

    # The design names these methods too.
    _get_candidate_memories = waiting(memories.RetrievalEngine._get_candidate_memories)
    _get_related_types = staticmethod(memories.RetrievalEngine._get_related_types)
    _tokenize = staticmethod(memories.RetrievalEngine._tokenize)
    _format_content = staticmethod(memories.RetrievalEngine._format_content)
    _extract_text = direct(memories.RetrievalEngine._extract_text)
    _compute_keyword_score = direct(memories.RetrievalEngine._compute_keyword_score)
    _compute_entity_score = direct(memories.RetrievalEngine._compute_entity_score)
    _compute_recency_score = direct(memories.RetrievalEngine._compute_recency_score)
    _compute_popularity_score = direct(memories.RetrievalEngine._compute_popularity_score)
    _compute_hybrid_score = direct(memories.RetrievalEngine._compute_hybrid_score)


class SyncMetaphorCorpus(Mirror[metaphors.MetaphorCorpus]):
    """``retrieval.apps.metaphors.MetaphorCorpus`` without ``await``: the same methods, the same errors.

    ``for metaphor in corpus`` and ``len(corpus)`` take the place of ``async for`` and ``count``.
    """

    def __init__(self, collection: SyncCollection, static: Sequence[Metaphor] = STANDARD_CORPUS) -> None:
        super().__init__(metaphors.MetaphorCorpus(checked(collection, SyncCollection).twin, static), collection.door)

    @classmethod
    def open(cls, platform: SyncPlatform, name: str = METAPHORS, static: Sequence[Metaphor] = STANDARD_CORPUS) -> Self:
        """See ``retrieval.apps.metaphors.MetaphorCorpus.open``."""
        twin = checked(platform, SyncPlatform).door.run(metaphors.MetaphorCorpus.open, platform.twin, name, static)
        corpus = cls.__new__(cls)
        Mirror.__init__(corpus, twin, platform.door)
        return corpus

    def __iter__(self) -> Iterator[Metaphor]:
        return iter(self.door.run(_every, self.twin))

    def __len__(self) -> int:
        return self.count()

    def __bool__(self) -> bool:
        """True; without it an ``if`` would count the metaphors."""
        return True

    @property
    def collection(self) -> SyncCollection:
        """The collection that holds the metaphors."""
        return SyncCollection(self.twin.collection, self.door)

    static: list[Metaphor] = fact(metaphors.MetaphorCorpus.static)

    count = waiting(metaphors.MetaphorCorpus.count)
    dynamic = waiting(metaphors.MetaphorCorpus.dynamic)
    candidates = waiting(metaphors.MetaphorCorpus.candidates)
    get = waiting(metaphors.MetaphorCorpus.get)
    origins = waiting(metaphors.MetaphorCorpus.origins)
    all_ids = waiting(metaphors.MetaphorCorpus.all_ids)
    embeddings = waiting(metaphors.MetaphorCorpus.embeddings)
    embed = waiting(metaphors.MetaphorCorpus.embed)
    add = waiting(metaphors.MetaphorCorpus.add)
    add_candidate = waiting(metaphors.MetaphorCorpus.add_candidate)
    accept = waiting(metaphors.MetaphorCorpus.accept)
    reject = waiting(metaphors.MetaphorCorpus.reject)
    settle = waiting(metaphors.MetaphorCorpus.settle)
    settle_all = waiting(metaphors.MetaphorCorpus.settle_all)
    near_duplicates = waiting(metaphors.MetaphorCorpus.near_duplicates)


async def _every(corpus: metaphors.MetaphorCorpus) -> list[Metaphor]:
    return [metaphor async for metaphor in corpus]


class SyncRetrievalModel(Mirror[metaphors.RetrievalModel]):
    """``retrieval.apps.metaphors.RetrievalModel`` without ``await``: the same methods, the same errors."""

    def __init__(self, corpus: SyncMetaphorCorpus) -> None:
        super().__init__(metaphors.RetrievalModel(checked(corpus, SyncMetaphorCorpus).twin), corpus.door)

    is_trained = waiting(metaphors.RetrievalModel.is_trained)
    predict = waiting(metaphors.RetrievalModel.predict)
    get_uncertainty = waiting(metaphors.RetrievalModel.get_uncertainty)
    expectations = waiting(metaphors.RetrievalModel.expectations)


class SyncMetaphorRetriever(Mirror[metaphors.MetaphorRetriever]):
    """``retrieval.apps.metaphors.MetaphorRetriever`` without ``await``: the same methods, the same errors."""

    def __init__(
        self,
        corpus: SyncMetaphorCorpus,
        llm: LLM | None = None,
        *,
        platform: SyncPlatform,
        generate_below: float = GENERATE_BELOW,
        generate_after_backtracks: int = GENERATE_AFTER_BACKTRACKS,
        generation_timeout_seconds: float = GENERATION_TIMEOUT_SECONDS,
        away: float = AWAY,
        actor: str = "",
    ) -> None:
        twin = metaphors.MetaphorRetriever(
            checked(corpus, SyncMetaphorCorpus).twin,
            llm,
            platform=checked(platform, SyncPlatform).twin,
            generate_below=generate_below,
            generate_after_backtracks=generate_after_backtracks,
            generation_timeout_seconds=generation_timeout_seconds,
            away=away,
            actor=actor,
        )
        super().__init__(twin, corpus.door)
        self.corpus = corpus
        self.model = SyncRetrievalModel(corpus)

    retrieve = waiting(metaphors.MetaphorRetriever.retrieve)
    retrieve_after_backtrack = waiting(metaphors.MetaphorRetriever.retrieve_after_backtrack)
    retrieve_by_embedding = waiting(metaphors.MetaphorRetriever.retrieve_by_embedding)
    retrieve_by_learning = waiting(metaphors.MetaphorRetriever.retrieve_by_learning)
    retrieve_by_generation = waiting(metaphors.MetaphorRetriever.retrieve_by_generation)
    retrieve_with_exploration = waiting(metaphors.MetaphorRetriever.retrieve_with_exploration)
    retrieve_batch = waiting(metaphors.MetaphorRetriever.retrieve_batch)
    record_outcome = waiting(metaphors.MetaphorRetriever.record_outcome)


class SyncPrincipleStore(Mirror[principles.PrincipleStore]):
    """``retrieval.apps.principles.PrincipleStore`` without ``await``: the same methods, the same errors."""

    def __init__(self, db: SyncPlatform, collection: str = PRINCIPLES, *, chance: random.Random | None = None) -> None:
        twin = principles.PrincipleStore(checked(db, SyncPlatform).twin, collection, chance=chance)
        super().__init__(twin, db.door)

    @classmethod
    def open(cls, db: SyncPlatform, name: str = PRINCIPLES, *, chance: random.Random | None = None) -> Self:
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
