"""What was learned about metaphors, asked for single ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from retrieval.apps.metaphors.asked import situation_of
from retrieval.apps.metaphors.checks import checked_metaphor, checked_problem
from retrieval.apps.metaphors.corpus import MetaphorCorpus
from retrieval.apps.metaphors.metaphor import Metaphor
from retrieval.apps.metaphors.problem import Problem
from retrieval.domain.errors import UnknownItemError
from retrieval.domain.expectation import Expectation


class RetrievalModel:
    """The learned reward of a corpus's metaphors.

    It knows a problem by its domain, its complexity and the cluster of its embedding, and how each metaphor fared in
    the domain, in the range of complexity (thirds) and in the cluster; see docs/concepts/learning.md.
    """

    def __init__(self, corpus: MetaphorCorpus) -> None:
        self._corpus = corpus

    async def is_trained(self) -> bool:
        """Whether a model is in use; before, counts alone say something of a metaphor, and nothing of a problem."""
        return await self._corpus.collection.is_trained()

    async def predict(self, problem: Problem, metaphor: Metaphor) -> float:
        """The reward to be expected of the metaphor, 0 to 1. Raises ``UnknownItemError`` for one of no corpus."""
        return (await self._expectation(problem, metaphor)).mean

    async def get_uncertainty(self, problem: Problem, metaphor: Metaphor) -> float:
        """How far that expectation may be off, 0 to 0.5. Raises ``UnknownItemError`` for one of no corpus.

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
        """What is expected of each of these metaphors, by id, in one go; see ``Collection.expectations``.

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
