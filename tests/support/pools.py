"""Recorded pools, made up."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from retrieval.domain.records.recorded import RecordedPool
from retrieval.domain.search.fusion import best_of
from retrieval.domain.search.profile import Profile

Legs = Mapping[str, Mapping[str, float]]
"""Scores of items by leg."""


def pool_of(legs: Legs, **others: Any) -> RecordedPool:
    """The pool of a search with these scores of the legs; ``others`` replaces the usual values."""
    items = items_of(legs)
    usual: dict[str, Any] = {
        "retrieval_id": uuid.uuid4(),
        "limit": 2,
        "profile_version": 1,
        "profile": Profile(),
        "is_grouped": False,
        "seed": 1,
        "item_ids": items,
        "shown": dict.fromkeys(items[:2], 1.0),
        **columns_of(legs),
    }
    return RecordedPool(**{**usual, **others})


def items_of(legs: Legs) -> list[str]:
    """Every item that a leg returned."""
    return list(dict.fromkeys(item_id for scores in legs.values() for item_id in scores))


def columns_of(legs: Legs) -> dict[str, dict[str, Any]]:
    """The legs' ``scores``, ``ranks`` and ``bests``, in the order of the items."""
    items, ranks = items_of(legs), {}
    for leg, scores in legs.items():
        ordered = sorted(scores, key=lambda item_id: (-scores[item_id], item_id))
        ranks[leg] = [ordered.index(item_id) + 1 if item_id in scores else None for item_id in items]
    return {
        "scores": {leg: [scores.get(item_id) for item_id in items] for leg, scores in legs.items()},
        "ranks": ranks,
        "bests": {leg: best_of(list(scores.values())) for leg, scores in legs.items()},
    }
