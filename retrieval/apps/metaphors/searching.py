"""The searches that a retrieval is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from retrieval.apps.metaphors.asked import Asked
from retrieval.apps.metaphors.metaphor import Metaphor
from retrieval.apps.metaphors.metaphor_item import ACTIVE, CANDIDATE, metaphor_of
from retrieval.apps.metaphors.scores import LEARNED_SHARE, untried_explanation, untried_score
from retrieval.collection import Collection
from retrieval.domain.hit import Explanation, Hit, SearchResult
from retrieval.domain.learned import Combination, Learned
from retrieval.domain.shown_item import ShownItem
from retrieval.engine.collection_handle import FRESH_SECONDS

_LEARNED = "learned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A metaphor in an answer."""

    metaphor: Metaphor
    score: float
    relevance: float
    """How well it fits by itself, 0 to 1: what a model of the learned reward is told of it."""
    explanation: Explanation

    @property
    def shown(self) -> ShownItem:
        """As it is recorded."""
        return ShownItem(item_id=self.metaphor.id, score=self.score, signals={"relevance": self.relevance})


@dataclass(frozen=True, slots=True, kw_only=True)
class Searches:
    """The corpus's collection, asked with and without a record."""

    collection: Collection
    actor: str = ""

    async def answer(self, asked: Asked) -> SearchResult:
        """The best of the corpus, recorded."""
        return await self._of_corpus(self.collection, asked)

    async def look(self, asked: Asked) -> SearchResult:
        """The best of the corpus, unrecorded: perhaps the answer holds more than these."""
        return await self._of_corpus(await self._unrecorded(), asked)

    async def similar(self, asked: Asked, status: str = ACTIVE) -> list[Entry]:
        """The best by similarity alone, unrecorded."""
        collection = await self._unrecorded()
        profile = replace(asked.profile(collection.profile), learned=Learned(combination=Combination.OFF))
        found = await collection.search(
            asked.problem.description,
            vector=asked.vector,
            where=asked.where(status),
            limit=asked.limit,
            profile=profile,
            syntax=False,
        )
        return entries(found)

    async def candidates(self, asked: Asked) -> list[Entry]:
        """The candidates that no use has proved yet, by 0.9 × similarity, whatever is preferred."""
        plain = replace(asked, preference=type(asked.preference)())
        return [
            Entry(
                metaphor=one.metaphor,
                score=untried_score(one.score),
                relevance=one.score,
                explanation=untried_explanation(one.score, rank),
            )
            for rank, one in enumerate(await self.similar(plain, CANDIDATE), 1)
        ]

    async def _unrecorded(self) -> Collection:
        """The collection as it is known now: a handle that was made earlier would not hear of a new model."""
        await self.collection.refresh(older_than_seconds=FRESH_SECONDS)
        return self.collection.unrecorded()

    async def _of_corpus(self, collection: Collection, asked: Asked) -> SearchResult:
        usual = collection.profile
        chosen = asked.profile(usual)
        return await collection.search(
            asked.problem.description,
            vector=asked.vector,
            about=asked.about,
            where=asked.where(ACTIVE),
            limit=asked.limit,
            profile=None if chosen is usual else chosen,
            syntax=False,
            context=asked.context(actor=self.actor),
        )


def entries(found: Sequence[Hit]) -> list[Entry]:
    """The hits as metaphors."""
    return [
        Entry(metaphor=metaphor_of(hit), score=hit.score, relevance=relevance_of(hit), explanation=hit.explanation)
        for hit in found
    ]


def relevance_of(hit: Hit) -> float:
    """The part of its score that what was learned has no part in, 0 to 1."""
    learned = [part for part in hit.explanation.contributions if part.leg == _LEARNED]
    if not learned:
        return hit.score
    share = learned[0].weight if learned[0].weight < 1 else LEARNED_SHARE
    return (hit.score - learned[0].value) / (1 - share)
