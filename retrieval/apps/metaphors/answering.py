"""The answers of a retrieval of metaphors: their entries, their figures, and the model of the learned reward."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from retrieval.apps.metaphors.corpus import MetaphorCorpus
from retrieval.apps.metaphors.metaphor import (
    LEARNED_SHARE,
    UNTRIED_SHARE,
    Metaphor,
    Problem,
    Scored,
    checked_metaphor,
    checked_problem,
    metaphor_of,
    situation_of,
)
from retrieval.apps.result_list import AnswerList
from retrieval.collection import handle_of
from retrieval.domain.errors import InvalidRequestError, UnknownItemError
from retrieval.domain.learning.arm import Expectation
from retrieval.domain.records.slate import ShownItem, Slot
from retrieval.domain.search.hit import Contribution, Explanation, Hit
from retrieval.domain.serialization import Serializable
from retrieval.engine.learning import is_trained


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalMetrics(Serializable):
    """The measurements of a retrieval; the view ``analytics_queries`` has the same by its ``retrieval_id``.

    For an empty answer the scores are 0 here and NULL in the view.
    """

    retrieval_time_ms: float = 0.0
    """The milliseconds of finding and ranking the candidates."""
    top_score: float = 0.0
    """The highest score; 0 without metaphors."""
    score_spread: float = 0.0
    """The first score minus the fifth, or minus the last if there are fewer; 0 without metaphors."""
    generation_triggered: bool = False
    """Whether generation was triggered: a model was asked, or its earlier suggestions were used."""
    backtrack_count: int = 0
    """The number of times that the caller has returned with this problem."""


@dataclass(eq=False, repr=False, kw_only=True)
class Retrieved(AnswerList[Scored]):
    """Pairs of metaphor and score, best first."""

    problem: Problem
    """The problem that was asked about."""
    collection: str
    """The collection of the corpus."""
    metrics: RetrievalMetrics = RetrievalMetrics()
    explanations: tuple[Explanation, ...] = ()
    """The explanations of the scores, in the same order."""
    why_generated: str | None = None
    """The reason why candidates were generated; None: they were not."""


class RetrievalModel:
    """The learned reward of a corpus's metaphors.

    It predicts by the verdicts on each metaphor in the problem's domain, range of complexity (thirds) and cluster of
    embeddings; see docs/concepts/learning.md.
    """

    def __init__(self, corpus: MetaphorCorpus) -> None:
        self._corpus = corpus

    async def is_trained(self) -> bool:
        """Whether a model is in use; without one, predictions follow only from a metaphor's counts."""
        return await is_trained(handle_of(self._corpus.collection))

    async def predict(self, problem: Problem, metaphor: Metaphor) -> float:
        """The expected reward of the metaphor, 0 to 1. Raises ``UnknownItemError`` if it is not in the corpus."""
        return (await self._expectation(problem, metaphor)).mean

    async def get_uncertainty(self, problem: Problem, metaphor: Metaphor) -> float:
        """The expected error of that prediction, 0 to 0.5. Raises ``UnknownItemError`` if it is not in the corpus.

        See ``Expectation.uncertainty``: it never rises with use. Unlike 1 / uses, it is finite for an untried metaphor
        and on the scale of the reward.
        """
        return (await self._expectation(problem, metaphor)).uncertainty

    async def _expectation(self, problem: Problem, metaphor: Metaphor) -> Expectation:
        key = checked_metaphor("metaphor", metaphor).id
        if not await self._corpus.get([key]):
            raise UnknownItemError(f"metaphor {key!r:.80} is not in the corpus; add it first: await corpus.add(...)")
        return (await self.expectations(problem, [key]))[key]

    async def expectations(
        self, problem: Problem, ids: Sequence[str], relevance: Mapping[str, float] | None = None
    ) -> dict[str, Expectation]:
        """The expected reward of each of these metaphors, by id, in one call; see ``Collection.expectations``.

        ``relevance``: the similarity of each, 0 to 1 by id; models that are fitted on many verdicts use it.
        """
        problem = checked_problem(problem)
        return await self._corpus.collection.expectations(
            ids,
            context=situation_of(problem),
            vector=problem.embedding,
            query=None if problem.embedding is not None else problem.description,
            relevance=relevance,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A metaphor in an answer."""

    metaphor: Metaphor
    relevance: float
    """The metaphor's relevance, 0 to 1, the input of a model of the learned reward."""
    explanation: Explanation
    score: float

    @property
    def shown(self) -> ShownItem:
        """The item to record."""
        return ShownItem(item_id=self.metaphor.id, score=self.score, signals={"relevance": self.relevance})

    @property
    def order(self) -> tuple[float, str]:
        """The key that sorts entries best first, then by id."""
        return -self.score, self.metaphor.id


def _explained(metaphor: Metaphor, relevance: float, *parts: Contribution, kind: str = "union") -> Entry:
    explanation = Explanation(kind, parts)
    return Entry(metaphor=metaphor, relevance=relevance, explanation=explanation, score=explanation.score)


def _part(leg: str, rank: int, raw: float, weight: float = 1.0) -> Contribution:
    return Contribution(leg, rank, raw, weight, weight * raw)


def entries(hits: Sequence[Hit]) -> list[Entry]:
    """The hits as metaphors."""
    return [
        Entry(metaphor=metaphor_of(hit), score=hit.score, relevance=_relevance_of(hit), explanation=hit.explanation)
        for hit in hits
    ]


def untried_entries(similar: Sequence[Entry]) -> list[Entry]:
    """The candidates, the most similar first, by 0.9 × similarity."""
    return [
        _explained(entry.metaphor, entry.score, _part("generated", rank, entry.score, UNTRIED_SHARE), kind="generated")
        for rank, entry in enumerate(similar, 1)
    ]


def _relevance_of(hit: Hit) -> float:
    """The part of the score without the learned reward, 0 to 1."""
    learned = [part for part in hit.explanation.contributions if part.leg == "learned"]
    if not learned:
        return hit.score
    share = learned[0].weight if learned[0].weight < 1 else LEARNED_SHARE
    return (hit.score - learned[0].value) / (1 - share)


RELEVANCE_MAX = 1 + 1e-6
"""The largest cosine after rounding."""


def relevance_of_each(hits: Iterable[Entry]) -> dict[str, float]:
    """The relevance of each metaphor, 0 to 1, by id. Raises ``InvalidRequestError`` for scores that are not cosines."""
    relevance = {entry.metaphor.id: entry.relevance for entry in hits}
    if any(not 0 <= value <= RELEVANCE_MAX for value in relevance.values()):
        raise InvalidRequestError(
            "the profile of the corpus's collection gives scores outside 0 to 1, which cannot be combined with learned "
            "rewards; set METAPHORS_PROFILE, or a profile with only the leg dense and the fusion union"
        )
    return {key: min(1.0, value) for key, value in relevance.items()}


def learned_entries(
    metaphors: Iterable[Metaphor], expected: Mapping[str, Expectation], relevance: Mapping[str, float]
) -> list[Entry]:
    """The metaphors by their expected rewards; those without one are left out."""
    with_reward = [metaphor for metaphor in metaphors if metaphor.id in expected]
    best = sorted(with_reward, key=lambda metaphor: (-expected[metaphor.id].mean, metaphor.id))
    return [
        _explained(metaphor, relevance.get(metaphor.id, 0.0), _part("learned", rank, expected[metaphor.id].mean))
        for rank, metaphor in enumerate(best, 1)
    ]


def explored_entries(base: Sequence[Entry], expected: Mapping[str, Expectation], rate: float) -> list[Entry]:
    """The entries by score + rate × uncertainty of the expected reward, best first, then by id."""
    bonus = {
        entry.metaphor.id: expected[entry.metaphor.id].uncertainty for entry in base if entry.metaphor.id in expected
    }
    most_uncertain = sorted(bonus, key=lambda key: (-bonus[key], key))
    parts = {key: _part("uncertainty", rank, bonus[key], rate) for rank, key in enumerate(most_uncertain, 1)}
    explored = []
    for entry in base:
        added = [parts[entry.metaphor.id]] if entry.metaphor.id in parts else []
        explored.append(_explained(entry.metaphor, entry.relevance, *entry.explanation.contributions, *added))
    return sorted(explored, key=lambda entry: entry.order)


def explored_items(shown: Sequence[Entry], base: Sequence[Entry]) -> list[ShownItem]:
    """The items to record: an item that is shown only for its uncertainty is explored."""
    best_ids = {entry.metaphor.id for entry in base[: len(shown)]}
    return [
        entry.shown if entry.metaphor.id in best_ids else replace(entry.shown, slot=Slot.EXPLORE) for entry in shown
    ]
