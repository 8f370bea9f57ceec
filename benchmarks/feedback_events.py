"""Feedback as it comes in life: replayed, late, out of order, changed; and what the arms have to be after it."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from retrieval import Context, Feedback

LANDMARK = datetime(2026, 1, 1, tzinfo=UTC)
HALF_LIFE = timedelta(days=30)
COLLECTION = "principles"

_DOMAINS = ("", "db", "web", "ops", "billing")
_NEWEST = datetime(2026, 9, 1, tzinfo=UTC)


@dataclass(slots=True)
class Sum:
    """An arm, computed apart from the database; the terms are added up at the end."""

    successes: list[float] = field(default_factory=list)
    failures: list[float] = field(default_factory=list)
    uses: int = 0
    raw_successes: int = 0
    last_used_at: datetime | None = None


def item_ids(count: int) -> list[str]:
    """The items' keys."""
    return [f"item-{number:05}" for number in range(count)]


def made_events(count: int, *, items: int, seed: int, replays: float = 0.25) -> list[Feedback]:
    """``count`` events up to 200 days old, in any order; a share of them repeats others.

    A third has a key of its own and no actor; the rest is of actors, who change their minds in one case of five.
    """
    chance = random.Random(seed)  # noqa: S311 - seeded test data
    fresh = round(count * (1 - replays))
    events: list[Feedback] = []
    while len(events) < fresh:
        events += _events(chance, f"item-{chance.randrange(items):05}", len(events), fresh)
    events += chance.choices(events, k=count - len(events))
    chance.shuffle(events)
    return events


def _events(chance: random.Random, item_id: str, number: int, most: int) -> list[Feedback]:
    context = Context(domain=chance.choice(_DOMAINS), complexity=chance.choice([None, chance.random()]))
    at = _NEWEST - timedelta(days=200) * chance.random()
    common: dict[str, Any] = {"item_id": item_id, "collection": COLLECTION, "context": context}
    if chance.random() < 1 / 3:
        return [Feedback(**common, reward=chance.random(), weight=chance.random(), at=at, key=f"event {number}")]
    common["actor"] = f"user-{number}"
    events = [Feedback(**common, helpful=chance.random() < 0.6, at=at)]
    if chance.random() < 0.2 and number + 1 < most:
        events.append(Feedback(**common, reward=chance.random(), at=at + timedelta(days=chance.random())))
    return events


def expected_arms(events: Iterable[Feedback]) -> dict[tuple[str, str], Sum]:
    """The arms by item and context bucket, from the definition: each event once, of each subject its latest."""
    latest: dict[tuple[str, object], Feedback] = {}
    for event in {(event.item_id, event.own_key): event for event in events}.values():
        place = (event.item_id, event.subject or event.own_key)
        if place not in latest or _order(event) > _order(latest[place]):
            latest[place] = event
    arms: dict[tuple[str, str], Sum] = defaultdict(Sum)
    for event in latest.values():
        if event.weight > 0 and event.at is not None:
            for bucket in event.contexts or ():
                _add(arms[event.item_id, bucket], event, event.at)
    return arms


def worst_difference(arms: Mapping[tuple[str, str], Sum], stored: Sequence[Sequence[Any]]) -> tuple[int, float]:
    """The number of arms with wrong raw counts, and the largest relative difference of a decayed sum.

    ``stored`` are rows of item, context, successes, failures, uses, raw successes, last use; an arm that nothing counts
    in is left out of them.
    """
    wrong, worst = len(set(arms) ^ {(row[0], row[1]) for row in stored}), 0.0
    for item_id, context, successes, failures, *raw in stored:
        arm = arms.get((item_id, context), Sum())
        wrong += raw != [arm.uses, arm.raw_successes, arm.last_used_at]
        for sums, terms in ((successes, arm.successes), (failures, arm.failures)):
            exact = math.fsum(terms)
            worst = max(worst, abs(sums - exact) / exact if exact else abs(sums))
    return wrong, worst


def _order(event: Feedback) -> tuple[object, ...]:
    return event.at, event.own_key


def _add(arm: Sum, event: Feedback, at: datetime) -> None:
    share = 2.0 ** ((at - LANDMARK).total_seconds() / HALF_LIFE.total_seconds())
    arm.successes.append(event.weight * event.reward * share)
    arm.failures.append(event.weight * (1 - event.reward) * share)
    arm.uses += 1
    arm.raw_successes += event.reward >= 0.5
    arm.last_used_at = max(at, arm.last_used_at or at)
