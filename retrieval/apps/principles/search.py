"""Search for principles: profiles, filters and answers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from retrieval.apps.principles import principle
from retrieval.apps.probation import ACTIVE, FAILED_BELOW
from retrieval.apps.result_list import AnswerList
from retrieval.domain.checks import check_order, checked_time, written
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.search.profile import Fusion, FusionKind, Profile
from retrieval.domain.search.profile_parts import Combination, Learned
from retrieval.domain.search.signals import KeywordOverlap, Rating, Signal, TagMatch, VectorSimilarity

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
        signals=(Rating(weight=1.0), TagMatch(weight=10 * principle.TAG_BOOST, most=10), likeness),
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


@dataclass(eq=False, repr=False, kw_only=True)
class FoundPrinciples(AnswerList[principle.FoundPrinciple]):
    """An answer: the best principles first, then the explored ones."""


MOST_FOUND = 1000
"""The most principles or traces of one answer."""

TimeBounds = tuple[datetime | None, datetime | None]
"""The first and the last time, both included; None: unbounded."""


def proven(tags: Sequence[str], min_score: float) -> dict[str, Any]:
    """The filter: active principles with at least that score, and with any of the tags if there are some."""
    return {"kind": principle.KIND, "status": ACTIVE, "verdict_rating": {"gte": min_score}} | _with_tags(tags)


def little_known(tags: Sequence[str], now: datetime) -> dict[str, Any]:
    """The filter of principles that may be explored by ``principle.is_eligible``, with any of the tags."""
    is_young = {"occurred_at": {"gt": now - principle.YOUNGER_THAN}, "verdict_rating": {"gte": FAILED_BELOW}}
    either = [{"verdict_count": {"lt": principle.FEWER_USES_THAN}}, is_young]
    return {"kind": principle.KIND, "status": list(principle.IN_USE), "or": either} | _with_tags(tags)


def _with_tags(tags: Sequence[str]) -> dict[str, Any]:
    return {"tags": list(tags)} if tags else {}


def traces_filter(time_range: TimeBounds | None, status: str | None) -> dict[str, Any]:
    """The filter of traces. Raises ``InvalidRequestError`` for an invalid pair of times or outcome."""
    where: dict[str, Any] = {}
    if time_range is not None:
        if not isinstance(time_range, tuple | list) or len(time_range) != 2:
            raise InvalidRequestError(f"time_range is {written(time_range)}; give (start, end), each a time or None")
        bounds = {
            name: checked_time("a time of time_range", moment)
            for name, moment in zip(("gte", "lte"), time_range, strict=True)
            if moment is not None
        }
        if len(bounds) > 1:
            check_order("time_range", *bounds.values())
        where["occurred_at"] = bounds
    if status is not None:
        if not isinstance(status, str):
            raise InvalidRequestError(f"status is {written(status)}; it must be a word such as 'success'")
        where["outcome"] = status.strip().casefold()
    return {name: value for name, value in where.items() if value != {}}


ORIGIN = "principles-search"
"""The recorded origin of answers with explored principles."""

MOST_ELIGIBLE = 30
"""The most eligible principles that exploration draws from, the most relevant first, because a verdict on an irrelevant
principle is worth little.
"""
