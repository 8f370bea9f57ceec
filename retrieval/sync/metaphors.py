"""Metaphors without ``await``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Self

from retrieval.apps import metaphors
from retrieval.apps.metaphors import STANDARD_CORPUS, Metaphor
from retrieval.apps.metaphors.corpus import COLLECTION
from retrieval.apps.metaphors.ranking import AWAY, GENERATE_AFTER_BACKTRACKS, GENERATE_BELOW
from retrieval.apps.metaphors.retriever import GENERATION_TIMEOUT_SECONDS, utc_now
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.llm import LLM
from retrieval.engine.stopwatch import Clock
from retrieval.sync.collection import SyncCollection
from retrieval.sync.mirror import Mirror, fact, waiting
from retrieval.sync.platform import SyncPlatform


class SyncMetaphorCorpus(Mirror[metaphors.MetaphorCorpus]):
    """``retrieval.apps.metaphors.MetaphorCorpus`` without ``await``: the same methods, the same errors.

    ``for metaphor in corpus`` and ``len(corpus)`` take the place of ``async for`` and ``count``.
    """

    def __init__(self, collection: SyncCollection, static: Sequence[Metaphor] = STANDARD_CORPUS) -> None:
        if not isinstance(collection, SyncCollection):
            raise InvalidRequestError(f"collection is {collection!r:.80}; give one of a platform that connect() opened")
        super().__init__(metaphors.MetaphorCorpus(collection.twin, static), collection.door)

    @classmethod
    def open(cls, platform: SyncPlatform, name: str = COLLECTION, static: Sequence[Metaphor] = STANDARD_CORPUS) -> Self:
        """The corpus of that name, made if missing, with the static metaphors stored; unchanged ones cost nothing.

        A static one that was stored before and is not given any more is archived. An id that was added by ``add`` stays
        what it is, and is not among the static ones. Candidates whose use has decided meanwhile are settled. A corpus
        that was opened before with others goes on to name those until it is opened again: give all the same list.
        """
        if not isinstance(platform, SyncPlatform):
            raise InvalidRequestError(f"platform is {platform!r:.80}; give an open one, as `with connect()` does")
        twin = platform.door.run(metaphors.MetaphorCorpus.open, platform.twin, name, static)
        corpus = cls.__new__(cls)
        Mirror.__init__(corpus, twin, platform.door)
        return corpus

    def __iter__(self) -> Iterator[Metaphor]:
        return iter(self.door.run(_every, self.twin))

    def __len__(self) -> int:
        return self.count()

    def __bool__(self) -> bool:
        """Always: without it an ``if`` would count the metaphors."""
        return True

    @property
    def collection(self) -> SyncCollection:
        """Where the metaphors lie."""
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
        if not isinstance(corpus, SyncMetaphorCorpus):
            raise InvalidRequestError(f"corpus is {corpus!r:.80}; give a retrieval.sync.MetaphorCorpus")
        super().__init__(metaphors.RetrievalModel(corpus.twin), corpus.door)

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
        clock: Clock = time.perf_counter,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        if not isinstance(corpus, SyncMetaphorCorpus) or not isinstance(platform, SyncPlatform):
            raise InvalidRequestError(
                "a retriever without await needs a corpus and a platform without it: with retrieval.sync.connect() as "
                "platform, MetaphorRetriever(retrieval.sync.MetaphorCorpus.open(platform), platform=platform)"
            )
        twin = metaphors.MetaphorRetriever(
            corpus.twin,
            llm,
            platform=platform.twin,
            generate_below=generate_below,
            generate_after_backtracks=generate_after_backtracks,
            generation_timeout_seconds=generation_timeout_seconds,
            away=away,
            actor=actor,
            clock=clock,
            now=now,
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
