"""One search for principles: the best by their score, and some that are explored."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from retrieval.apps.principles.asked import MOST_FOUND, little_known, proven
from retrieval.apps.principles.exploration import SLOTS, Pick, Tried, thompson
from retrieval.apps.principles.found import FoundPrinciple, FoundPrinciples
from retrieval.apps.principles.principle import Principle
from retrieval.apps.principles.principle_item import principle_of
from retrieval.apps.principles.profile import relevance_only
from retrieval.collection import Collection
from retrieval.domain.context import Context
from retrieval.domain.filters import Where
from retrieval.domain.hit import Hit, SearchResult
from retrieval.domain.item import Item
from retrieval.domain.shown_item import ShownItem
from retrieval.domain.slate import Slot
from retrieval.domain.standing import Standing
from retrieval.engine.collection_handle import FRESH_SECONDS

ORIGIN = "principles-search"
"""What puts answers together that hold explored principles."""

MOST_ELIGIBLE = 30
"""Of those of which little is known, the most relevant so many are drawn from: a verdict is to say something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked."""

    words: str | None
    tags: tuple[str, ...]
    limit: int
    min_score: float
    context: Context


@dataclass(frozen=True, slots=True)
class PrincipleSearch:
    """Searches one collection of principles."""

    collection: Collection
    chance: random.Random
    now: datetime

    async def proven(self, question: Question) -> FoundPrinciples:
        """The best by score; recorded as a search."""
        result = await self._search(self.collection, question)
        found = tuple(await self._found(result))
        return FoundPrinciples(found=found, retrieval_id=result.retrieval_id, notes=result.notes)

    async def with_explored(self, question: Question) -> FoundPrinciples:
        """The best by score, then up to two that are explored; recorded as an answer of one's own."""
        # What is not recorded goes by what the collection's own handle has read.
        await self.collection.refresh(older_than_seconds=FRESH_SECONDS)
        quiet = self.collection.unrecorded()
        result = await self._search(quiet, question)
        picks = await self._picks(question, [hit.item_id for hit in result])
        scored = await self._scored(question, picks) if picks else None
        found = await self._found([*result, *(scored or ())])
        answer = (*found[: len(result)], *_marked(found[len(result) :], picks))
        retrieval_id = await self.collection.record_answer(
            question.words or "",
            [_shown(one) for one in answer],
            context=question.context,
            origin=ORIGIN,
            retrieval_time_ms=sum(one.timings_ms.get("total", 0.0) for one in (result, scored) if one),
            notes=result.notes,
        )
        return FoundPrinciples(found=answer, retrieval_id=retrieval_id, notes=result.notes)

    async def principles(self, items: Iterable[Item | Hit]) -> list[Principle]:
        """Items as principles, with what became of them."""
        every = list(items)
        standings = await self.collection.standings([one.item_id for one in every])
        return [principle_of(one, standings.get(one.item_id)) for one in every]

    async def pick(self, count: int) -> list[Principle]:
        """So many to explore, whatever the question: drawn among all of which little is known."""
        picks = thompson(await self._eligible(little_known((), self.now)), count, self.chance, rows=1)
        items = await self.collection.get([pick.id for pick in picks])
        return await self.principles([items[pick.id] for pick in picks if pick.id in items])

    async def all(self, where: Where) -> list[Principle]:
        """Every principle that the filter lets through, by id."""
        return await self.principles([one async for one in self.collection.scan(where)])

    async def _search(self, collection: Collection, question: Question) -> SearchResult:
        return await collection.search(
            question.words,
            tags=question.tags,
            where=proven(question.tags, question.min_score),
            limit=question.limit,
            context=question.context,
            syntax=False,
        )

    async def _picks(self, question: Question, shown: Sequence[str]) -> list[Pick]:
        """Whom to explore: of the most relevant that are not shown anyway, those on top of a draw."""
        where = {**little_known(question.tags, self.now), "item_id": {"nin": list(shown)}}
        if question.words is None and not question.tags:
            rivals = await self._eligible(where)
        else:
            hits = await self.collection.unrecorded().search(
                question.words,
                tags=question.tags,
                where=where,
                limit=MOST_ELIGIBLE,
                profile=relevance_only(self.collection.profile),
                syntax=False,
            )
            standings = await self.collection.standings([hit.item_id for hit in hits])
            rivals = _tried(standings[hit.item_id] for hit in hits if hit.item_id in standings)
        # An answer has no more than so many, whoever is in it.
        return thompson(rivals, min(SLOTS, MOST_FOUND - len(shown)), self.chance)

    async def _eligible(self, where: Where) -> list[Tried]:
        """All that the filter lets through, by id: what they say is read of those that are picked."""
        return _tried(await self.collection.standings_where(where))

    async def _scored(self, question: Question, picks: Sequence[Pick]) -> SearchResult:
        """The picked ones as the profile scores them, so that theirs can be compared with the others' scores."""
        wanted = [pick.id for pick in picks]
        return await self.collection.unrecorded().search(
            question.words, tags=question.tags, where={"item_id": wanted}, limit=len(wanted), syntax=False
        )

    async def _found(self, hits: Iterable[Hit]) -> list[FoundPrinciple]:
        every = list(hits)
        return [
            FoundPrinciple(principle=one, score=hit.score, explanation=hit.explanation)
            for one, hit in zip(await self.principles(every), every, strict=True)
        ]


def _marked(found: Iterable[FoundPrinciple], picks: Sequence[Pick]) -> list[FoundPrinciple]:
    """In the order of the draw, with their probabilities."""
    by_id = {one.principle.id: one for one in found}
    return [
        replace(by_id[pick.id], is_exploratory=True, propensity=pick.propensity, rank_propensity=pick.rank_propensity)
        for pick in picks
        if pick.id in by_id
    ]


def _tried(standings: Iterable[Standing]) -> list[Tried]:
    return [Tried(one.item_id, one.uses, one.successes) for one in standings]


def _shown(one: FoundPrinciple) -> ShownItem:
    parts = one.explanation.contributions if one.explanation else ()
    return ShownItem(
        item_id=one.principle.id,
        score=one.score,
        signals={part.leg: part.raw_score for part in parts},
        slot=Slot.EXPLORE if one.is_exploratory else Slot.EXPLOIT,
        propensity=one.propensity,
        rank_propensity=one.rank_propensity,
    )
