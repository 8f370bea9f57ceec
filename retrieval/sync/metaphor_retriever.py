"""Retrieval of metaphors without ``await``."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

from retrieval.apps import metaphors
from retrieval.apps.metaphors.failures import AWAY
from retrieval.apps.metaphors.retriever import GENERATION_TIMEOUT_SECONDS, utc_now
from retrieval.apps.metaphors.triggers import GENERATE_AFTER_BACKTRACKS, GENERATE_BELOW
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.llm import LLM
from retrieval.engine.stopwatch import Clock
from retrieval.sync.metaphors import MetaphorCorpus
from retrieval.sync.mirror import Mirror, waiting
from retrieval.sync.platform import SyncPlatform


class RetrievalModel(Mirror[metaphors.RetrievalModel]):
    """``retrieval.apps.metaphors.RetrievalModel`` without ``await``: the same methods, the same errors."""

    def __init__(self, corpus: MetaphorCorpus) -> None:
        if not isinstance(corpus, MetaphorCorpus):
            raise InvalidRequestError(f"corpus is {corpus!r:.80}; give a retrieval.sync.MetaphorCorpus")
        super().__init__(metaphors.RetrievalModel(corpus.twin), corpus.door)

    is_trained = waiting(metaphors.RetrievalModel.is_trained)
    predict = waiting(metaphors.RetrievalModel.predict)
    get_uncertainty = waiting(metaphors.RetrievalModel.get_uncertainty)
    expectations = waiting(metaphors.RetrievalModel.expectations)


class MetaphorRetriever(Mirror[metaphors.MetaphorRetriever]):
    """``retrieval.apps.metaphors.MetaphorRetriever`` without ``await``: the same methods, the same errors."""

    def __init__(
        self,
        corpus: MetaphorCorpus,
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
        if not isinstance(corpus, MetaphorCorpus) or not isinstance(platform, SyncPlatform):
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
        self.model = RetrievalModel(corpus)

    retrieve = waiting(metaphors.MetaphorRetriever.retrieve)
    retrieve_after_backtrack = waiting(metaphors.MetaphorRetriever.retrieve_after_backtrack)
    retrieve_by_embedding = waiting(metaphors.MetaphorRetriever.retrieve_by_embedding)
    retrieve_by_learning = waiting(metaphors.MetaphorRetriever.retrieve_by_learning)
    retrieve_by_generation = waiting(metaphors.MetaphorRetriever.retrieve_by_generation)
    retrieve_with_exploration = waiting(metaphors.MetaphorRetriever.retrieve_with_exploration)
    retrieve_batch = waiting(metaphors.MetaphorRetriever.retrieve_batch)
    record_outcome = waiting(metaphors.MetaphorRetriever.record_outcome)
