"""Search for principles: arguments, ranking, answer, and exploration."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from retrieval.apps.principles.choosing import (
    FEWER_USES_THAN,
    SLOTS,
    TAG_BOOST,
    YOUNGER_THAN,
    Choice,
    Pick,
    Trials,
    thompson,
)
from retrieval.apps.principles.principle import IN_USE, KIND, Principle, principle_of
from retrieval.apps.probation import ACTIVE, FAILED_BELOW
from retrieval.apps.result_list import ResultList
from retrieval.collection import Collection, handle_of
from retrieval.domain.checks import checked_number, checked_time, checked_whole
from retrieval.domain.errors import InvalidLimitError, InvalidRequestError
from retrieval.domain.items.item import Item
from retrieval.domain.learning.arm import Standing
from retrieval.domain.learning.context import Context
from retrieval.domain.records.slate import ShownItem
from retrieval.domain.search.filters import Where
from retrieval.domain.search.hit import Explanation, Hit, SearchResult
from retrieval.domain.search.profile import Fusion, FusionKind, Profile
from retrieval.domain.search.profile_parts import Combination, Learned
from retrieval.domain.search.signals import KeywordOverlap, Rating, Signal, TagMatch, VectorSimilarity
from retrieval.engine.collection_handle import FRESH_SECONDS
from retrieval.engine.learning import standings_where

SIMILARITY_WEIGHT = 2.0
"""The weight of similarity of meaning, relative to the principle's score: measured, see decision 25."""


def principles_profile(similarity_weight: float = SIMILARITY_WEIGHT, *, has_vectors: bool = True) -> Profile:
    """principle score + 0.1 × each matching tag + ``similarity_weight`` × similarity of meaning.

    The principle score is (successes + 1) / (uses + 2). Without vectors, the share of the query's words that a
    principle contains replaces the similarity. The learned reward does not count.
    """
    likeness: Signal = VectorSimilarity(weight=similarity_weight)
    if not has_vectors:
        likeness = KeywordOverlap(weight=similarity_weight)
    legs = ("tagged", "dense", "lexical", "rated", "recent")
    return Profile(
        legs={leg: 1.0 for leg in legs if has_vectors or leg != "dense"},
        depth=100,
        fusion=Fusion(kind=FusionKind.UNION),
        signals=(Rating(weight=1.0), TagMatch(weight=10 * TAG_BOOST, most=10), likeness),
        learned=Learned(combination=Combination.OFF),
    )


PRINCIPLES_PROFILE = principles_profile()
"""The profile of collections with vectors."""

WORDS_PROFILE = principles_profile(has_vectors=False)
"""The profile of collections without vectors."""


def relevance_only(profile: Profile) -> Profile:
    """The profile without the principle score, for the choice of principles to explore.

    A profile without any other signal ranks by words and tags instead.
    """
    legs = {leg: weight for leg, weight in profile.legs.items() if leg != "rated"}
    signals = tuple(signal for signal in profile.signals if not isinstance(signal, Rating))
    if not legs or (profile.signals and not signals):
        return relevance_only(WORDS_PROFILE)
    return replace(profile, legs=legs, signals=signals)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPrinciple(Choice):
    """A principle of an answer; a search's score is principle score + 0.1 × each matching tag + 2 × similarity."""

    explanation: Explanation | None = None
    """The signals with their values and weights; None for principles of a session's start."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        principle = self.principle
        return {
            "id": principle.id,
            "title": principle.title,
            "body": principle.body,
            "tags": list(principle.tags),
            "status": principle.status,
            "score": principle.score,
            "use_count": principle.use_count,
            "success_rate": principle.success_rate,
            "last_used_at": principle.last_used_at.isoformat() if principle.last_used_at else None,
            "exploring": self.is_exploratory,
        }


@dataclass(eq=False, repr=False, kw_only=True)
class FoundPrinciples(ResultList[FoundPrinciple]):
    """An answer: the best principles first, then the explored ones."""

    retrieval_id: UUID | None = None
    """The id of the recorded answer; None: it is not recorded."""
    notes: tuple[str, ...] = ()
    """Notes for the caller, such as a leg that could not run, with the reason."""


MOST_FOUND = 1000
"""The most principles or traces of one answer."""

TimeRange = tuple[datetime | None, datetime | None]
"""The first and the last time, both included; None: unbounded."""


def checked_count(name: str, count: object) -> int:
    """The number. Raises ``InvalidLimitError`` for anything but a whole number from 1 to 1000."""
    return checked_whole(name, count, 1, MOST_FOUND, error=InvalidLimitError)


def proven(tags: Sequence[str], min_score: object) -> dict[str, Any]:
    """The filter: active principles with at least that score, and with any of the tags if there are some.

    Raises ``InvalidRequestError`` for anything but a score from 0 to 1.
    """
    least = checked_number("min_principle_score", min_score)
    return {"kind": KIND, "status": ACTIVE, "verdict_rating": {"gte": least}} | _with_tags(tags)


def little_known(tags: Sequence[str], now: datetime) -> dict[str, Any]:
    """The filter of principles that may be explored by ``choosing.is_eligible``, with any of the tags."""
    is_young = {"occurred_at": {"gt": now - YOUNGER_THAN}, "verdict_rating": {"gte": FAILED_BELOW}}
    either = [{"verdict_count": {"lt": FEWER_USES_THAN}}, is_young]
    return {"kind": KIND, "status": list(IN_USE), "or": either} | _with_tags(tags)


def _with_tags(tags: Sequence[str]) -> dict[str, Any]:
    return {"tags": list(tags)} if tags else {}


def traces_filter(time_range: TimeRange | None, status: str | None) -> dict[str, Any]:
    """The filter of traces. Raises ``InvalidRequestError`` for an invalid pair of times or outcome."""
    where: dict[str, Any] = {}
    if time_range is not None:
        if not isinstance(time_range, tuple | list) or len(time_range) != 2:
            raise InvalidRequestError(f"time_range is {time_range!r:.80}; give (start, end), each a time or None")
        bounds = dict(zip(("gte", "lte"), time_range, strict=True))
        for moment in filter(None, bounds.values()):
            checked_time("a time of time_range", moment)
        where["occurred_at"] = {name: moment for name, moment in bounds.items() if moment is not None}
    if status is not None:
        if not isinstance(status, str):
            raise InvalidRequestError(f"status is {status!r:.80}; it must be a word such as 'success'")
        where["outcome"] = status.strip().casefold()
    return {name: value for name, value in where.items() if value != {}}


ORIGIN = "principles-search"
"""The recorded origin of answers with explored principles."""

MOST_ELIGIBLE = 30
"""The most eligible principles that exploration draws from, the most relevant first, because a verdict on an irrelevant
principle is worth little.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipleQuestion:
    """The arguments of a search for principles."""

    words: str
    """Empty: there are none."""
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

    async def proven(self, question: PrincipleQuestion) -> FoundPrinciples:
        """The best principles by score, recorded as a search."""
        result = await self._search(self.collection, question)
        found = await self._found_principles(result)
        return FoundPrinciples(found, retrieval_id=result.retrieval_id, notes=result.notes)

    async def with_explored(self, question: PrincipleQuestion) -> FoundPrinciples:
        """The best principles by score, then up to two explored ones; recorded as an answer of the application."""
        # The unrecorded collection shares the facts that the collection's handle has read.
        await self.collection.refresh(older_than_seconds=FRESH_SECONDS)
        result = await self._search(self.collection.unrecorded(), question)
        picks = await self._picks(question, [hit.item_id for hit in result])
        explored = await self._search_picks(question, picks) if picks else None
        principles = await self._found_principles([*result, *(explored or ())])
        answer = [*principles[: len(result)], *_with_propensities(principles[len(result) :], picks)]
        retrieval_id = await self.collection.record_answer(
            question.words,
            [_shown_item(principle) for principle in answer],
            context=question.context,
            origin=ORIGIN,
            retrieval_time_ms=sum(answer.timings_ms.get("total", 0.0) for answer in (result, explored) if answer),
            notes=result.notes,
        )
        return FoundPrinciples(answer, retrieval_id=retrieval_id, notes=result.notes)

    async def principles(self, items: Iterable[Item | Hit]) -> list[Principle]:
        """The principles of the items, with their verdicts."""
        every = list(items)
        standings = await self.collection.standings([item.item_id for item in every])
        return [principle_of(item, standings.get(item.item_id)) for item in every]

    async def pick(self, count: int) -> list[Principle]:
        """Pick ``count`` principles to explore among all eligible ones."""
        picks = thompson(await self._eligible(little_known((), self.now)), count, self.chance, rows=1)
        items = await self.collection.get([pick.id for pick in picks])
        return await self.principles([items[pick.id] for pick in picks if pick.id in items])

    async def all(self, where: Where) -> list[Principle]:
        """Every principle that matches the filter, by id."""
        return await self.principles([item async for item in self.collection.scan(where)])

    async def _search(self, collection: Collection, question: PrincipleQuestion) -> SearchResult:
        return await collection.search(
            question.words,
            tags=question.tags,
            where=proven(question.tags, question.min_score),
            limit=question.limit,
            context=question.context,
            syntax=False,
        )

    async def _picks(self, question: PrincipleQuestion, shown: Sequence[str]) -> list[Pick]:
        """Pick principles to explore: among the most relevant that are not shown, those with the highest draws."""
        where = {**little_known(question.tags, self.now), "item_id": {"nin": list(shown)}}
        if not question.words and not question.tags:
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
            rivals = _trials(standings[hit.item_id] for hit in hits if hit.item_id in standings)
        # An answer has at most ``MOST_FOUND`` principles.
        return thompson(rivals, min(SLOTS, MOST_FOUND - len(shown)), self.chance)

    async def _eligible(self, where: Where) -> list[Trials]:
        """All principles that match the filter, by id, without reading their texts."""
        return _trials(await standings_where(handle_of(self.collection), where))

    async def _search_picks(self, question: PrincipleQuestion, picks: Sequence[Pick]) -> SearchResult:
        """The picked principles with the profile's scores, which are comparable with those of other hits."""
        ids = [pick.id for pick in picks]
        return await self.collection.unrecorded().search(
            question.words, tags=question.tags, where={"item_id": ids}, limit=len(ids), syntax=False
        )

    async def _found_principles(self, hits: Iterable[Hit]) -> list[FoundPrinciple]:
        every = list(hits)
        return [
            FoundPrinciple(principle=principle, score=hit.score, explanation=hit.explanation)
            for principle, hit in zip(await self.principles(every), every, strict=True)
        ]


def _with_propensities(principles: Iterable[FoundPrinciple], picks: Sequence[Pick]) -> list[FoundPrinciple]:
    """The principles in the order of the picks, with their probabilities."""
    by_id = {principle.principle.id: principle for principle in principles}
    return [
        replace(by_id[pick.id], is_exploratory=True, propensity=pick.propensity, rank_propensity=pick.rank_propensity)
        for pick in picks
        if pick.id in by_id
    ]


def _trials(standings: Iterable[Standing]) -> list[Trials]:
    return [Trials(standing.item_id, standing.uses, standing.successes) for standing in standings]


def _shown_item(found: FoundPrinciple) -> ShownItem:
    parts = found.explanation.contributions if found.explanation else ()
    return found.shown_item({part.leg: part.raw_score for part in parts})
