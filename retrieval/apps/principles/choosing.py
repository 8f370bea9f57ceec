"""What a session is started with: the best for its tags, and some that are explored. Pure, and light to import."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from retrieval.apps.principles.exploration import ROWS, SLOTS, Tried, is_eligible, thompson
from retrieval.apps.principles.principle import ACTIVE, CANDIDATE, Principle

MAX_PRINCIPLES: Final = 10
"""Principles that a session is started with, the explored ones among them."""

TAG_BOOST: Final = 0.1
"""What each tag that a principle shares with the session adds to its score."""

MIN_PRINCIPLE_SCORE: Final = 0.3
"""The least score of a principle that is given for its score."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A principle that a session is given."""

    principle: Principle
    score: float
    """The principle's score, and .1 for each tag that it shares with the session."""
    is_exploratory: bool = False
    propensity: float = 1.0
    """The probability that it was chosen, above 0 and at most 1."""


def boosted(principle: Principle, tags: Collection[str]) -> float:
    """The principle's score, and .1 for each of its tags that is among these."""
    return principle.score + TAG_BOOST * sum(tag in tags for tag in principle.tags)


def choose(
    principles: Iterable[Principle],
    tags: Collection[str],
    rng: random.Random,
    *,
    now: datetime,
    most: int = MAX_PRINCIPLES,
    slots: int = SLOTS,
    min_score: float = MIN_PRINCIPLE_SCORE,
    rows: int = ROWS,
) -> list[Chosen]:
    """At most ``most`` principles: the best by score and tags, then up to ``slots`` that are explored.

    The explored ones have their places within ``most``, so that a store full of good principles still learns of new
    ones. They are those of which little is known and that the score does not show, candidates too (see
    ``exploration.thompson``): those that share a tag with the session, where there are enough of them, since a verdict
    says more where a principle fits. Where there are fewer than ``slots``, the best by score have the places.
    """
    every = list(principles)
    ranked = best(every, tags, min_score=min_score)
    sure = {one.principle.id for one in ranked[: max(0, most - slots)]}
    unsure = fitting([one for one in every if one.id not in sure and _may_be_explored(one, now)], tags, slots)
    picks = thompson([_tried(one) for one in unsure], min(slots, most), rng, rows)
    by_id, picked = {one.id: one for one in unsure}, {pick.id for pick in picks}
    shown = [one for one in ranked if one.principle.id not in picked][: most - len(picks)]
    explored = [
        Chosen(by_id[pick.id], boosted(by_id[pick.id], tags), is_exploratory=True, propensity=pick.propensity)
        for pick in picks
    ]
    return shown + explored


def best(principles: Sequence[Principle], tags: Collection[str], *, min_score: float) -> list[Chosen]:
    """The active ones with at least that score, the best by score and tags first; then the latest, then by id."""
    fit = [one for one in principles if one.status == ACTIVE and one.score >= min_score]
    fit.sort(key=lambda one: (-boosted(one, tags), -one.created_at.timestamp(), one.id))
    return [Chosen(one, boosted(one, tags)) for one in fit]


def fitting(principles: Sequence[Principle], tags: Collection[str], least: int) -> Sequence[Principle]:
    """Those that have one of the tags, if they are at least so many; else all."""
    near = [one for one in principles if any(tag in tags for tag in one.tags)]
    return near if near and len(near) >= least else principles


def _may_be_explored(one: Principle, now: datetime) -> bool:
    is_there = one.status in (ACTIVE, CANDIDATE)
    return is_there and is_eligible(one.use_count, one.success_count, one.created_at, now)


def _tried(one: Principle) -> Tried:
    return Tried(one.id, one.use_count, one.success_count)
