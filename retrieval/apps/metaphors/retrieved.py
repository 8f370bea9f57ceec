"""An answer: metaphors with their scores, how it came about, and its figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from retrieval.apps.metaphors.corpus import MetaphorCorpus
from retrieval.apps.metaphors.metaphor import Metaphor
from retrieval.apps.metaphors.problem import Problem, checked_metaphor, checked_problem, situation_of
from retrieval.apps.metaphors.ranking import Scored
from retrieval.domain.errors import UnknownItemError
from retrieval.domain.learning.arm import Expectation
from retrieval.domain.records.search_record import score_spread
from retrieval.domain.search.hit import Explanation
from retrieval.domain.told import Told


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalMetrics(Told):
    """The measurements of a retrieval; the view ``analytics_queries`` has the same by its ``retrieval_id``.

    Of an empty answer the view has no scores (NULL) where these are 0.
    """

    retrieval_time_ms: float = 0.0
    """Milliseconds that it took to find and rank the candidates."""
    top_score: float = 0.0
    """The highest score; 0 without any."""
    score_spread: float = 0.0
    """The first score minus the fifth, or the last where there are fewer; 0 without any."""
    generation_triggered: bool = False
    """True if candidates were called for: a model was asked, or its earlier suggestions were looked at."""
    backtrack_count: int = 0
    """The number of times that the caller came back with this problem."""

    @classmethod
    def of(
        cls, scores: Sequence[float], *, retrieval_time_ms: float, generation_triggered: bool, backtrack_count: int
    ) -> RetrievalMetrics:
        """The figures of an answer with those scores, best first."""
        return cls(
            retrieval_time_ms=retrieval_time_ms,
            top_score=scores[0] if scores else 0.0,
            score_spread=score_spread(scores) or 0.0,
            generation_triggered=generation_triggered,
            backtrack_count=backtrack_count,
        )


class Retrieved(list[Scored]):
    """Pairs of metaphor and score, best first."""

    problem: Problem
    """The problem that was asked about."""
    retrieval_id: UUID | None
    """Under which it is recorded, for outcomes, figures and replay; None: it is not."""
    metrics: RetrievalMetrics
    explanations: tuple[Explanation, ...]
    """The explanations of the scores, in the same order."""
    notes: tuple[str, ...]
    """Notes for the caller, such as why nothing was generated."""
    why_generated: str | None
    """The reason why candidates were generated; None: they were not."""
    collection: str = ""
    """The collection of the corpus; empty: not said."""

    def __init__(
        self,
        pairs: Iterable[Scored] = (),
        *,
        problem: Problem,
        retrieval_id: UUID | None = None,
        metrics: RetrievalMetrics = RetrievalMetrics(),
        explanations: Iterable[Explanation] = (),
        notes: Iterable[str] = (),
        why_generated: str | None = None,
    ) -> None:
        super().__init__(pairs)
        self.problem = problem
        self.retrieval_id = retrieval_id
        self.metrics = metrics
        self.explanations = tuple(explanations)
        self.notes = tuple(notes)
        self.why_generated = why_generated


class RetrievalModel:
    """The learned reward of a corpus's metaphors.

    It knows a problem by its domain, its complexity and the cluster of its embedding, and how each metaphor fared in
    the domain, in the range of complexity (thirds) and in the cluster; see docs/concepts/learning.md.
    """

    def __init__(self, corpus: MetaphorCorpus) -> None:
        self._corpus = corpus

    async def is_trained(self) -> bool:
        """True if a model is in use; before, counts alone say something of a metaphor, and nothing of a problem."""
        return await self._corpus.collection.is_trained()

    async def predict(self, problem: Problem, metaphor: Metaphor) -> float:
        """The reward to be expected of the metaphor, 0 to 1. Raises ``UnknownItemError`` for one of no corpus."""
        return (await self._expectation(problem, metaphor)).mean

    async def get_uncertainty(self, problem: Problem, metaphor: Metaphor) -> float:
        """Gives the error to expect of that prediction, 0 to 0.5. Raises ``UnknownItemError`` for one of no corpus.

        See ``Expectation.uncertainty``: no use raises it. The simple estimate, the inverse of the uses of (domain,
        metaphor), is infinite for what was never tried; this one is on the scale of the reward.
        """
        return (await self._expectation(problem, metaphor)).uncertainty

    async def _expectation(self, problem: Problem, metaphor: Metaphor) -> Expectation:
        wanted = checked_metaphor("metaphor", metaphor).id
        if not await self._corpus.get([wanted]):
            raise UnknownItemError(f"metaphor {wanted!r:.80} is not in the corpus; add it first: await corpus.add(...)")
        return (await self.expectations(problem, [wanted]))[wanted]

    async def expectations(
        self, problem: Problem, ids: Sequence[str], relevance: Mapping[str, float] | None = None
    ) -> dict[str, Expectation]:
        """Gives the expected reward of each of these metaphors, by id, in one call; see ``Collection.expectations``.

        ``relevance``: how similar each is, 0 to 1 by id; models that are fitted on many verdicts use it.
        """
        asked = checked_problem(problem)
        return await self._corpus.collection.expectations(
            ids,
            context=situation_of(asked),
            vector=asked.embedding,
            query=None if asked.embedding is not None else asked.description,
            relevance=relevance,
        )
