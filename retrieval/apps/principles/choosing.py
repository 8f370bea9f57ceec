"""What a session is started with: the best for its tags, and some that are explored. Pure, and light to import."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from retrieval.apps.principles.exploration import ROWS, SLOTS, Pick, Tried, is_eligible, thompson
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
    rank_propensity: float = 1.0
    """The probability that it was chosen at this place, above 0 and at most ``propensity``."""


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
    ones. They are of the ``rivals``: half of the places go to those that share a tag with the session, since a verdict
    says more where a principle fits, and for the others all compete, since one that never fits would not be judged
    otherwise (see ``exploration.thompson``). Where there are fewer than ``slots``, the best by score have the places.
    """
    every = list(principles)
    unsure = {one.id: one for one in rivals(every, tags, now=now, most=most, slots=slots, min_score=min_score)}
    near = frozenset(one.id for one in unsure.values() if any(tag in tags for tag in one.tags))
    picks = thompson([_tried(one) for one in unsure.values()], min(slots, most), rng, rows, fitting=near)
    picked = {pick.id for pick in picks}
    ranked = best(every, tags, min_score=min_score)
    shown = [one for one in ranked if one.principle.id not in picked][: most - len(picks)]
    return [*shown, *(_explored(unsure[pick.id], pick, tags) for pick in picks)]


def rivals(
    principles: Sequence[Principle],
    tags: Collection[str],
    *,
    now: datetime,
    most: int = MAX_PRINCIPLES,
    slots: int = SLOTS,
    min_score: float = MIN_PRINCIPLE_SCORE,
) -> list[Principle]:
    """Those that compete to be explored: little is known of them, and the score does not show them; candidates too."""
    ranked = best(principles, tags, min_score=min_score)
    sure = {one.principle.id for one in ranked[: max(0, most - slots)]}
    return [one for one in principles if one.id not in sure and _may_be_explored(one, now)]


def best(principles: Sequence[Principle], tags: Collection[str], *, min_score: float) -> list[Chosen]:
    """The active ones with at least that score, the best by score and tags first; then the latest, then by id."""
    fit = [one for one in principles if one.status == ACTIVE and one.score >= min_score]
    fit.sort(key=lambda one: (-boosted(one, tags), -one.created_at.timestamp(), one.id))
    return [Chosen(one, boosted(one, tags)) for one in fit]


def _explored(one: Principle, pick: Pick, tags: Collection[str]) -> Chosen:
    return Chosen(one, boosted(one, tags), True, pick.propensity, pick.rank_propensity)  # noqa: FBT003 - it is its slot


def _may_be_explored(one: Principle, now: datetime) -> bool:
    is_there = one.status in (ACTIVE, CANDIDATE)
    return is_there and is_eligible(one.use_count, one.success_count, one.created_at, now)


def _tried(one: Principle) -> Tried:
    return Tried(one.id, one.use_count, one.success_count)
